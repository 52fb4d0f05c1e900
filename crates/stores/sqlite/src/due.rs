//! The table `due`: an index of due work by agent and kind. A query reads the rows of the agents and kinds
//! that it asks for, and no others.

use std::collections::BTreeMap;
use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::store::{DueCursor, DueKind, DuePage, DueQuery, Header, Lease};
use helix_agents_core::stored::decode;
use helix_agents_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::content;
use crate::key::{millis, parse_column, signed, unsigned, wide};
use crate::operation_error::OperationError;
use crate::process;

/// The stored number of a kind.
pub(crate) fn number(kind: DueKind) -> Result<i64, OperationError> {
    Ok(match kind {
        DueKind::LapsedLease => 0,
        DueKind::Deadline => 1,
        DueKind::Answered => 2,
        DueKind::Inbox => 3,
        DueKind::OwedStop => 4,
        DueKind::Expired => 5,
        DueKind::ExpiringSoon => 6,
        other => {
            let reason = format!("this store does not know {other:?}; upgrade it");
            return Err(OperationError::internal(reason));
        }
    })
}

/// The rows of a session in the table.
#[derive(PartialEq)]
struct DueRows<'a> {
    agent: &'a str,
    since: BTreeMap<DueKind, Timestamp>,
    holder: Option<&'a str>,
}

impl<'a> DueRows<'a> {
    fn of(header: &'a Header) -> Self {
        let since = header.due_from();
        let lease = header.lease.as_ref();
        let lease = lease.filter(|_| since.contains_key(&DueKind::LapsedLease));
        Self {
            agent: &header.session.agent_type,
            since,
            holder: lease.map(|lease| lease.holder.as_str()),
        }
    }
}

/// Replaces the rows of a session, whose header was `before` and is `after`; `None`: it does not exist.
/// Rows that stay the same are not written.
pub(crate) fn update_index(
    conn: &Connection,
    session: &SessionId,
    before: Option<&Header>,
    after: Option<&Header>,
) -> Result<(), OperationError> {
    let (before, after) = (before.map(DueRows::of), after.map(DueRows::of));
    let same = |a: &DueRows<'_>, b: Option<&DueRows<'_>>, kind: DueKind| {
        b.is_some_and(|b| {
            let holds = kind != DueKind::LapsedLease || a.holder == b.holder;
            holds && a.agent == b.agent && a.since.get(&kind) == b.since.get(&kind)
        })
    };
    if let Some(rows) = &before {
        for (kind, since) in &rows.since {
            if !same(rows, after.as_ref(), *kind) {
                conn.prepare_cached(
                    "DELETE FROM due WHERE agent = ? AND kind = ? AND since = ? AND name = ?",
                )?
                .execute(params![
                    rows.agent,
                    number(*kind)?,
                    millis(*since),
                    session.as_str()
                ])?;
            }
        }
    }
    if let Some(rows) = &after {
        for (kind, since) in &rows.since {
            if !same(rows, before.as_ref(), *kind) {
                let holder = rows.holder.filter(|_| *kind == DueKind::LapsedLease);
                conn.prepare_cached("INSERT OR REPLACE INTO due VALUES (?, ?, ?, ?, ?)")?
                    .execute(params![
                        rows.agent,
                        number(*kind)?,
                        millis(*since),
                        session.as_str(),
                        holder
                    ])?;
            }
        }
    }
    Ok(())
}

/// Fills the table from the headers, for a file of an older version that lacks it.
pub(crate) fn backfill(conn: &Connection) -> Result<(), OperationError> {
    let mut statement = conn.prepare("SELECT name, header FROM session")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let header: Header = decode(&content::get(conn, row.get(1)?)?)?;
        update_index(conn, &parse_column(row, 0)?, None, Some(&header))?;
    }
    Ok(())
}

/// Jumps from one agent to the next, however many rows each of them has.
pub(crate) const AGENTS: &str = "WITH RECURSIVE each (agent) AS ( \
       SELECT min(agent) FROM due \
       UNION ALL \
       SELECT (SELECT min(d.agent) FROM due d WHERE d.agent > each.agent) \
       FROM each WHERE each.agent IS NOT NULL) \
     SELECT agent FROM each WHERE agent IS NOT NULL";
/// Jumps from one holder of runs of an agent to the next.
pub(crate) const HOLDERS: &str = "WITH RECURSIVE each (holder) AS ( \
       SELECT min(holder) FROM due WHERE agent = ?1 AND holder IS NOT NULL \
       UNION ALL \
       SELECT (SELECT min(d.holder) FROM due d \
               WHERE d.agent = ?1 AND d.holder > each.holder AND d.holder IS NOT NULL) \
       FROM each WHERE each.holder IS NOT NULL) \
     SELECT holder FROM each WHERE holder IS NOT NULL";
pub(crate) const HELD: &str = "SELECT name FROM due \
     WHERE agent = ? AND holder = ? AND holder IS NOT NULL AND name > ? ORDER BY name LIMIT ?";
pub(crate) const DUE: &str = "SELECT name, since FROM due \
     WHERE agent = ? AND kind = ? AND (since, name) > (?, ?) AND since <= ? \
     ORDER BY since, name LIMIT ?";

/// A page of due work at this instant.
pub(crate) fn page(
    conn: &Connection,
    query: &DueQuery,
    now: Timestamp,
) -> Result<DuePage, OperationError> {
    let agents = match &query.agents {
        Some(names) => names.clone(),
        None => texts(conn, AGENTS, [])?,
    };
    let mut ranges = Vec::new();
    let mut dead = BTreeMap::new();
    for agent in &agents {
        for kind in &query.kinds {
            ranges.push(range(conn, query, agent, *kind, now)?);
            if *kind == DueKind::LapsedLease {
                for holder in texts(conn, HOLDERS, [agent])? {
                    if is_dead(&mut dead, &holder) {
                        ranges.push(held(conn, query, agent, &holder)?);
                    }
                }
            }
        }
    }
    query.page(now, ranges, |session| {
        let header = header(conn, session)?;
        Ok(header.map(|mut header| {
            if let Some(lease) = &mut header.lease
                && is_dead(&mut dead, &lease.holder)
            {
                void_lease(lease);
            }
            Arc::new(header)
        }))
    })
}

/// Makes a lease count as lapsed, because its process has ended.
pub(crate) fn void_lease(lease: &mut Lease) {
    lease.until = Timestamp::default();
}

/// Whether the process of a holder has ended. Each holder is looked up once.
fn is_dead(known: &mut BTreeMap<String, bool>, holder: &str) -> bool {
    if let Some(dead) = known.get(holder) {
        return *dead;
    }
    let dead = process::is_dead(holder);
    known.insert(holder.to_owned(), dead);
    dead
}

pub(crate) fn texts(
    conn: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
) -> Result<Vec<String>, OperationError> {
    let mut statement = conn.prepare_cached(sql)?;
    let texts = statement.query_map(params, |row| row.get(0))?;
    Ok(texts.collect::<Result<_, _>>()?)
}

/// The sessions of an agent that are due for one kind of work, in the order of the index.
fn range(
    conn: &Connection,
    query: &DueQuery,
    agent: &str,
    kind: DueKind,
    now: Timestamp,
) -> Result<Vec<DueCursor>, OperationError> {
    let (since, name) = match &query.after {
        Some(place) => (millis(place.since), place.session.as_str()),
        None => (-1, ""),
    };
    let limit = signed(wide(query.limit));
    let mut statement = conn.prepare_cached(DUE)?;
    let mut rows = statement.query(params![
        agent,
        number(kind)?,
        since,
        name,
        millis(now),
        limit
    ])?;
    let mut places = Vec::new();
    while let Some(row) = rows.next()? {
        let since = Timestamp::from_millis(unsigned(row.get(1)?));
        places.push(DueCursor::new(since, parse_column(row, 0)?));
    }
    Ok(places)
}

/// The sessions of an agent whose lease belongs to a process that has ended. They come before all others.
fn held(
    conn: &Connection,
    query: &DueQuery,
    agent: &str,
    holder: &str,
) -> Result<Vec<DueCursor>, OperationError> {
    let since = Timestamp::default();
    let name = match &query.after {
        Some(place) if place.since > since => return Ok(Vec::new()),
        Some(place) => place.session.as_str(),
        None => "",
    };
    let limit = signed(wide(query.limit));
    let mut statement = conn.prepare_cached(HELD)?;
    let mut rows = statement.query(params![agent, holder, name, limit])?;
    let mut places = Vec::new();
    while let Some(row) = rows.next()? {
        places.push(DueCursor::new(since, parse_column(row, 0)?));
    }
    Ok(places)
}

fn header(conn: &Connection, session: &SessionId) -> Result<Option<Header>, OperationError> {
    let found = conn
        .prepare_cached("SELECT header FROM session WHERE name = ?")?
        .query_row([session.as_str()], |row| row.get(0))
        .optional()?;
    let Some(cell) = found else {
        return Ok(None);
    };
    Ok(Some(decode(&content::get(conn, cell)?)?))
}

#[cfg(test)]
mod tests {
    use rusqlite::params_from_iter;
    use rusqlite::types::Value;

    use super::*;
    use crate::config::SqliteConfig;
    use crate::{backlog, connection};

    /// No query reads rows of other agents or kinds, as its query plan shows.
    #[test]
    fn due_work_comes_out_of_an_index() {
        let conn = connection::memory(&SqliteConfig::new()).unwrap();
        for (sql, values) in [
            (DUE, 6),
            (HELD, 4),
            (HOLDERS, 1),
            (AGENTS, 0),
            (backlog::PASSED, 3),
            (backlog::TO_COME, 3),
            (backlog::HELD, 3),
        ] {
            let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let values = vec![Value::Integer(0); values];
            let steps = statement.query_map(params_from_iter(values), |row| row.get(3));
            let steps: Vec<String> = steps.unwrap().map(Result::unwrap).collect();
            let of_due = steps
                .iter()
                .filter(|step| step.contains(" due") || step.contains(" d "));
            for step in of_due.chain(steps.iter().filter(|step| step.contains("TEMP"))) {
                assert!(step.starts_with("SEARCH "), "{sql}\n{steps:#?}");
            }
        }
    }
}
