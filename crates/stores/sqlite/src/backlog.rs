//! Counts the work that waits, in indexes.

use helix_agents_core::store::{Backlog, DueKind};
use helix_agents_core::time::Timestamp;
use rusqlite::{Connection, params};

use crate::due::{AGENTS, HOLDERS, number, texts};
use crate::key::{millis, unsigned};
use crate::operation_error::OperationError;
use crate::process;

pub(crate) const PENDING: &str = "SELECT count(*), min(created) FROM pending WHERE open = 1";
pub(crate) const PASSED: &str =
    "SELECT count(*) FROM due WHERE agent = ? AND kind = ? AND since <= ?";
pub(crate) const TO_COME: &str =
    "SELECT count(*) FROM due WHERE agent = ? AND kind = ? AND since > ?";
pub(crate) const HELD: &str = "SELECT count(*) FROM due \
     WHERE agent = ?1 AND holder = ?2 AND holder IS NOT NULL AND since > ?3";

/// Counts what waits at this instant. The lease of a process that has ended counts as lapsed.
pub(crate) fn count(conn: &Connection, now: Timestamp) -> Result<Backlog, OperationError> {
    let mut backlog = Backlog::default();
    let (pending, oldest): (i64, Option<i64>) = conn
        .prepare_cached(PENDING)?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    backlog.pending_calls = unsigned(pending);
    backlog.oldest_pending = oldest.map(|oldest| Timestamp::from_millis(unsigned(oldest)));
    for agent in texts(conn, AGENTS, [])? {
        for kind in Backlog::COUNTED {
            let ask = |sql: &str| -> Result<u64, OperationError> {
                let asked = params![agent, number(kind)?, millis(now)];
                let count = conn
                    .prepare_cached(sql)?
                    .query_row(asked, |row| row.get(0))?;
                Ok(unsigned(count))
            };
            let mut due = ask(PASSED)?;
            let mut later = 0;
            if kind == DueKind::LapsedLease {
                let abandoned = abandoned(conn, &agent, now)?;
                due += abandoned;
                later = ask(TO_COME)?.saturating_sub(abandoned);
            }
            backlog.add_due(kind, due, later);
        }
    }
    Ok(backlog)
}

/// How many leases of an agent's runs have not lapsed and belong to processes that have ended.
fn abandoned(conn: &Connection, agent: &str, now: Timestamp) -> Result<u64, OperationError> {
    let mut count = 0;
    for holder in texts(conn, HOLDERS, [agent])? {
        if process::is_dead(&holder) {
            let held = conn
                .prepare_cached(HELD)?
                .query_row(params![agent, holder, millis(now)], |row| row.get(0))?;
            count += unsigned(held);
        }
    }
    Ok(count)
}
