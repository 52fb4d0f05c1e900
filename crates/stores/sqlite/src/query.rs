//! Queries over many sessions, each of which uses an index.

use helix_agents_core::session::{PendingCall, SessionState};
use helix_agents_core::store::{
    Header, Page, PageRoom, Paged, ParentFilter, PendingQuery, SessionQuery,
};
use helix_agents_core::stored::decode;
use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, params_from_iter};

use crate::content;
use crate::headers::{METADATA, TAG};
use crate::key::{millis, signed, size, unsigned, variant_name, wide};
use crate::operation_error::OperationError;
use crate::runs::fitting;

/// The conditions of a query. The first indexed condition chooses the index; a plus in front of later
/// ones keeps SQLite from choosing another.
#[derive(Default)]
struct Filter {
    conditions: Vec<String>,
    values: Vec<SqlValue>,
    is_driven: bool,
}

impl Filter {
    fn and(&mut self, condition: impl Into<String>, values: impl IntoIterator<Item = SqlValue>) {
        self.conditions.push(condition.into());
        self.values.extend(values);
    }

    /// Adds a condition on an indexed column.
    fn by(&mut self, condition: &str, values: impl IntoIterator<Item = SqlValue>) {
        let plus = if self.is_driven { "+" } else { "" };
        self.is_driven = true;
        self.and(format!("{plus}{condition}"), values);
    }

    fn sql(&self) -> String {
        match self.conditions.as_slice() {
            [] => String::new(),
            conditions => format!(" WHERE {}", conditions.join(" AND ")),
        }
    }
}

fn text(value: impl AsRef<str>) -> SqlValue {
    SqlValue::Text(value.as_ref().to_owned())
}

/// The parts of the statements that list and count sessions.
struct ListSource {
    /// The tables from which rows are read.
    from: &'static str,
    /// The tables from which rows are counted.
    count_from: &'static str,
    /// The columns that rows are sorted by.
    order: &'static str,
    filter: Filter,
}

fn source(query: &SessionQuery) -> Result<ListSource, OperationError> {
    let mut filter = Filter::default();
    if let ParentFilter::Of(parent) = &query.parent {
        filter.by("parent = ?", [text(parent)]);
    }
    if let Some(user) = &query.user_id {
        filter.by("user = ?", [text(user)]);
    }
    let mut from = "session";
    let (mut created, mut order) = ("session.created", "session.created DESC, session.id DESC");
    let tags = query.tags.iter().map(|tag| (TAG, tag.as_str(), ""));
    let metadata = query.metadata.iter();
    let metadata = metadata.map(|(key, value)| (METADATA, key.as_str(), value.as_str()));
    for (kind, key, value) in tags.chain(metadata) {
        let values = [SqlValue::Integer(kind), text(key), text(value)];
        if filter.is_driven {
            let same = match from {
                "session" => "l.created = session.created AND l.session = session.id",
                _ => "l.created = label.created AND l.session = label.session",
            };
            let condition = format!(
                "EXISTS (SELECT 1 FROM label AS l \
                 WHERE l.kind = ? AND l.key = ? AND l.value = ? AND {same})"
            );
            filter.and(condition, values);
        } else {
            filter.is_driven = true;
            from = "label CROSS JOIN session ON session.id = label.session";
            created = "label.created";
            order = "label.created DESC, label.session DESC";
            filter.and(
                "label.kind = ? AND label.key = ? AND label.value = ?",
                values,
            );
        }
    }
    let labelled = filter.conditions.len();
    if let Some(agent) = &query.agent_type {
        filter.by("agent = ?", [text(agent)]);
    }
    if !query.status.is_empty() {
        let names = query
            .status
            .iter()
            .map(|status| variant_name("status", status));
        let names: Vec<_> = names
            .map(|name| name.map(SqlValue::Text))
            .collect::<Result<_, _>>()?;
        match names.len() {
            1 => filter.by("status = ?", names),
            count => {
                // Several would come out of the index one after another, not by their age.
                let marks = vec!["?"; count].join(", ");
                filter.and(format!("+status IN ({marks})"), names);
            }
        }
    }
    if query.parent == ParentFilter::Roots {
        filter.by("parent IS NULL", []);
    }
    let is_by_label_alone = from != "session" && filter.conditions.len() == labelled;
    for (bound, sign) in [(query.from, ">="), (query.to, "<=")] {
        if let Some(bound) = bound {
            let condition = format!("{created} {sign} ?");
            filter.and(condition, [SqlValue::Integer(millis(bound))]);
        }
    }
    let count_from = if is_by_label_alone { "label" } else { from };
    Ok(ListSource {
        from,
        count_from,
        order,
        filter,
    })
}

/// Lists sessions, newest first.
pub(crate) fn list(
    conn: &Connection,
    query: &SessionQuery,
) -> Result<Paged<SessionState>, OperationError> {
    let ListSource {
        from,
        count_from,
        order,
        filter,
    } = source(query)?;
    let (sql, values) = (filter.sql(), &filter.values);
    let page = query.page.capped();
    let total: i64 = conn
        .prepare_cached(&format!("SELECT count(*) FROM {count_from}{sql}"))?
        .query_row(params_from_iter(values), |row| row.get(0))?;
    let mut statement = conn.prepare_cached(&format!(
        "SELECT header FROM {from}{sql} ORDER BY {order} LIMIT ? OFFSET ?"
    ))?;
    let mut rows = statement.query(params_from_iter(values.iter().chain(&paging(page))))?;
    let mut items = Vec::new();
    let mut room = PageRoom::of(page);
    while let Some(row) = rows.next()? {
        let header: Header = decode(&content::get(conn, row.get(0)?)?)?;
        if !room.takes(&header.session) {
            break;
        }
        items.push(header.session);
    }
    Ok(Paged::new(items, size(unsigned(total)), page))
}

fn paging(page: Page) -> [SqlValue; 2] {
    [page.limit, page.offset].map(|number| SqlValue::Integer(signed(wide(number))))
}

/// Lists pending calls without an answer, oldest first.
pub(crate) fn pending(
    conn: &Connection,
    query: &PendingQuery,
) -> Result<Paged<PendingCall>, OperationError> {
    let mut filter = Filter::default();
    filter.and("open = 1", []);
    if let Some(root) = &query.root {
        filter.by("root = ?", [text(root)]);
    }
    if let Some(user) = &query.user_id {
        filter.by("user = ?", [text(user)]);
    }
    let (sql, values) = (filter.sql(), &filter.values);
    let page = query.page.capped();
    let total: i64 = conn
        .prepare_cached(&format!("SELECT count(*) FROM pending{sql}"))?
        .query_row(params_from_iter(values), |row| row.get(0))?;
    let order = "ORDER BY created, name, call LIMIT ? OFFSET ?";
    let mut statement = conn.prepare_cached(&format!("SELECT data FROM pending{sql} {order}"))?;
    let mut rows = statement.query(params_from_iter(values.iter().chain(&paging(page))))?;
    let items = fitting(conn, &mut rows, page)?;
    Ok(Paged::new(items, size(unsigned(total)), page))
}

#[cfg(test)]
mod tests;
