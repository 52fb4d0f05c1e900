//! A commit: reads the headers, asks `plan`, and writes the plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::store::{Commit, Headers, Lease, Precondition, Receipt, StoreError, plan};
use helix_agents_core::time::Timestamp;

use crate::config::SqliteConfig;
use crate::headers::{self, HeaderPlace, StoredHeader};
use crate::operation_error::OperationError;
use crate::write_connection::WriteConnection;
use crate::{due, messages, process, row_writer, stream_manager, streams};

/// Makes a commit inside the transaction under way. `sessions` are those that it names. The caller rolls
/// back when it fails.
pub(crate) fn commit(
    db: &WriteConnection,
    config: &SqliteConfig,
    sessions: &[SessionId],
    commit: Commit,
) -> Result<Receipt, OperationError> {
    let conn = &db.conn;
    let (root, at) = (commit.root.clone(), commit.at);
    let mut places: BTreeMap<SessionId, HeaderPlace> = BTreeMap::new();
    let mut headers = Headers::new();
    for session in sessions {
        if let Some(StoredHeader { place, header }) = headers::take(db, session)? {
            places.insert(session.clone(), place);
            headers.insert(session.clone(), header);
        }
    }
    let now = config.now();
    let stored = void_leases_of_the_dead(&commit.preconditions, &mut headers, now);
    let kept = |session: &SessionId, count| {
        let Some(place) = places.get(session) else {
            return Err(StoreError::NotFound {
                session: session.clone(),
            });
        };
        Ok(messages::whole_steps(conn, place.owner, count)?)
    };
    let floor = || Ok(headers::floor(conn)?);
    let limits = stream_manager::limits();
    let mut plan = plan(commit, &headers, now, limits, floor, kept)?;
    headers.extend(stored);
    if let Some(fence) = plan.floor {
        headers::raise_floor(conn, fence)?;
    }
    row_writer::write(db, &mut places, &headers, &mut plan)?;
    let sequence = streams::append_committed(db, &root, at, &plan)?;
    let receipt = plan.receipt(&headers, sequence);
    for (session, place) in places {
        let changed = plan.headers.remove(&session);
        if let Some(header) = changed.unwrap_or_else(|| headers.remove(&session)) {
            headers::give_back(db, session, StoredHeader { place, header });
        }
    }
    Ok(receipt)
}

/// Marks leases as lapsed whose process has ended, where the commit requires a free lease. Returns the
/// headers that it changed, as they are stored.
fn void_leases_of_the_dead(
    preconditions: &[(SessionId, Precondition)],
    headers: &mut Headers,
    now: Timestamp,
) -> Headers {
    let mut stored = Headers::new();
    for (session, precondition) in preconditions {
        if *precondition != Precondition::LeaseFree {
            continue;
        }
        let Some(header) = headers.get_mut(session) else {
            continue;
        };
        if header.holds(precondition, now) {
            continue;
        }
        let is_dead = |lease: &Lease| process::is_dead(&lease.holder);
        if !header.lease.as_ref().is_some_and(is_dead) {
            continue;
        }
        stored.get_or_insert_with(session, || Arc::clone(header));
        if let Some(lease) = &mut Arc::make_mut(header).lease {
            due::void_lease(lease);
        }
    }
    stored
}
