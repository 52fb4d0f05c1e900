//! One commit inside a transaction.

use std::collections::BTreeMap;

use helix_agents_core::SessionId;
use helix_agents_core::store::{Commit, Headers, Precondition, Receipt, StoreError, plan};
use helix_agents_core::time::Timestamp;

use crate::config::SqliteConfig;
use crate::desk::Desk;
use crate::fail::Fail;
use crate::headers::{self, Found};
use crate::{messages, process, rows, streams};

/// Judges a commit and writes what it comes to. When it fails, the caller rolls back.
pub(crate) fn commit(desk: &Desk, config: &SqliteConfig, commit: Commit) -> Result<Receipt, Fail> {
    let conn = &desk.conn;
    let (root, at) = (commit.root.clone(), commit.at);
    let mut found: BTreeMap<SessionId, Found> = BTreeMap::new();
    for session in commit.sessions() {
        if let Some(one) = headers::find_to_write(desk, &session)? {
            found.insert(session, one);
        }
    }
    let mut headers: Headers = found
        .iter()
        .map(|(session, found)| (session.clone(), found.header.clone()))
        .collect();
    void_leases_of_the_dead(&commit.preconditions, &mut headers);
    let mut plan = plan(commit, &headers, |session, count| {
        let Some(found) = found.get(session) else {
            return Err(StoreError::NotFound {
                session: session.clone(),
            });
        };
        Ok(messages::kept(conn, found.owner, count)?)
    })?;
    rows::write(desk, &found, &mut plan)?;
    let sequence = streams::say(conn, config, &root, at, &plan.chunks, plan.stream)?;
    Ok(plan.receipt(&headers, sequence))
}

/// A lease whose process has ended binds nobody. It stays, lapsed, until somebody takes it.
fn void_leases_of_the_dead(preconditions: &[(SessionId, Precondition)], headers: &mut Headers) {
    for (session, precondition) in preconditions {
        if !matches!(precondition, Precondition::LeaseFree { .. }) {
            continue;
        }
        let Some(header) = headers.get_mut(session) else {
            continue;
        };
        if !header.holds(precondition)
            && let Some(lease) = &mut header.lease
            && process::is_dead(&lease.holder)
        {
            lease.until = Timestamp::default();
        }
    }
}
