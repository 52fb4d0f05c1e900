//! Queries over many sessions, each of which uses an index.

use helix_agents_core::session::{PendingCall, SessionState};
use helix_agents_core::store::{
    Header, Page, PageRoom, Paged, ParentFilter, PendingQuery, SessionQuery,
};
use tokio_postgres::types::{ToSql, Type};

use crate::convert;
use crate::database::Param;
use crate::operation_error::OperationError;
use crate::ops::{metadata_label, tag_label};
use crate::store::Inner;

/// The conditions of a query, and their values.
#[derive(Default)]
struct Filter {
    conditions: Vec<String>,
    values: Vec<(Box<dyn ToSql + Send + Sync>, Type)>,
}

impl Filter {
    /// Adds a condition without a value.
    fn and(&mut self, condition: &str) {
        self.conditions.push(condition.to_owned());
    }

    /// Adds a condition on a value, which stands for `?`.
    fn by(&mut self, condition: &str, value: impl ToSql + Send + Sync + 'static, kind: Type) {
        let place = self.value(value, kind);
        self.conditions.push(condition.replace('?', &place));
    }

    fn by_text(&mut self, condition: &str, text: impl AsRef<str>) {
        let bytes = text.as_ref().as_bytes().to_vec();
        self.by(condition, bytes, Type::BYTEA);
    }

    fn value(&mut self, value: impl ToSql + Send + Sync + 'static, kind: Type) -> String {
        self.values.push((Box::new(value), kind));
        format!("${}", self.values.len())
    }

    fn sql(&self) -> String {
        match self.conditions.as_slice() {
            [] => String::new(),
            conditions => format!(" WHERE {}", conditions.join(" AND ")),
        }
    }

    fn params(&self) -> Vec<Param<'_>> {
        let values = self.values.iter();
        let values = values.map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone()));
        values.collect()
    }

    /// The number of rows that match, and those of a page.
    async fn page<T>(
        mut self,
        on: &Inner,
        (columns, from, order): (&str, &str, &str),
        page: Page,
        mut read: impl FnMut(&[u8]) -> Result<T, OperationError>,
    ) -> Result<Paged<T>, OperationError>
    where
        T: serde::Serialize,
    {
        let conditions = self.sql();
        let snapshot = on.database.snapshot().await?;
        let sql = format!("SELECT count(*) FROM {from}{conditions}");
        let counted = snapshot.rows(&sql, &self.params()).await?;
        let total: i64 = counted.first().map_or(Ok(0), |row| row.try_get(0))?;
        let limit = self.value(convert::count(page.limit), Type::INT8);
        let offset = self.value(convert::count(page.offset), Type::INT8);
        let sql = format!(
            "SELECT {columns} FROM {from}{conditions} ORDER BY {order} LIMIT {limit} OFFSET {offset}"
        );
        let rows = snapshot.rows(&sql, &self.params()).await?;
        snapshot.undo().await?;
        let mut room = PageRoom::of(page);
        let mut items = Vec::new();
        for row in rows {
            let item = read(row.try_get(0)?)?;
            if !room.takes(&item) {
                break;
            }
            items.push(item);
        }
        Ok(Paged::new(items, convert::size(total), page))
    }
}

/// Lists sessions, newest first.
pub(crate) async fn list(
    on: &Inner,
    query: &SessionQuery,
) -> Result<Paged<SessionState>, OperationError> {
    let mut filter = Filter::default();
    if let Some(user) = &query.user_id {
        filter.by_text("owner = ?", user);
    }
    if let Some(agent) = &query.agent_type {
        filter.by_text("agent = ?", agent);
    }
    match &query.parent {
        ParentFilter::Any => {}
        ParentFilter::Roots => filter.and("parent IS NULL"),
        ParentFilter::Of(parent) => filter.by_text("parent = ?", parent),
    }
    if !query.status.is_empty() {
        let names = query.status.iter();
        let names: Result<Vec<String>, _> = names
            .map(|status| convert::variant_name("status", status))
            .collect();
        filter.by("status = ANY(?)", names?, Type::TEXT_ARRAY);
    }
    let tags = query.tags.iter().map(|tag| tag_label(tag));
    let metadata = query.metadata.iter();
    let metadata = metadata.map(|(name, value)| metadata_label(name, value));
    for label in tags.chain(metadata) {
        let condition = "key IN (SELECT l.session FROM @label l WHERE l.label = ?)";
        filter.by(condition, label, Type::BYTEA);
    }
    if let Some(from) = query.from {
        filter.by("created >= ?", convert::millis(from), Type::INT8);
    }
    if let Some(to) = query.to {
        filter.by("created <= ?", convert::millis(to), Type::INT8);
    }
    let what = ("header", "@session", "created DESC, key DESC");
    let read = |header: &[u8]| Ok(convert::parse::<Header>(header)?.session);
    filter.page(on, what, query.page.capped(), read).await
}

/// Lists pending calls without an answer, oldest first.
pub(crate) async fn pending(
    on: &Inner,
    query: &PendingQuery,
) -> Result<Paged<PendingCall>, OperationError> {
    let mut filter = Filter::default();
    filter.and("is_open");
    if let Some(root) = &query.root {
        filter.by_text("root = ?", root);
    }
    if let Some(user) = &query.user_id {
        filter.by_text("owner = ?", user);
    }
    let what = ("data", "@pending", "created, name, call");
    let read = |data: &[u8]| Ok(convert::parse(data)?);
    filter.page(on, what, query.page.capped(), read).await
}
