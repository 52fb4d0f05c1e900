//! The commands, one file each.

pub(crate) mod abort;
pub(crate) mod completions;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod example_tools;
pub(crate) mod init;
pub(crate) mod interrupt;
pub(crate) mod migrate;
pub(crate) mod pending;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod sessions;
mod stop;
pub(crate) mod submit;
pub(crate) mod worker;

use helix_agents_core::SessionId;
use helix_agents_core::session::{RunRecord, RunStatus};
use helix_agents_core::store::{DueKind, DueQuery, SessionStore, Snapshot, StoreError};
use helix_agents_core::time::Timestamp;

use crate::screen::Screen;
use crate::{UsageError, date};

/// Parses an id from the command line.
fn id<T>(text: &str) -> Result<T, UsageError>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    text.parse()
        .map_err(|error: T::Err| UsageError(error.to_string()))
}

/// Returns a session that must exist.
async fn load(store: &dyn SessionStore, session: &SessionId) -> Result<Snapshot, StoreError> {
    let found = store.find(session).await?;
    found.ok_or_else(|| StoreError::NotFound {
        session: session.clone(),
    })
}

/// Whether a run is running, as far as the store knows.
fn is_running(run: Option<&RunRecord>) -> bool {
    run.is_some_and(|run| run.status == RunStatus::Running)
}

/// Whether the run of a session is running in the store, but its process is gone.
async fn is_orphaned(
    store: &dyn SessionStore,
    session: &SessionId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let agent = load(store, session).await?.state.agent_type;
    let mut query = DueQuery::at(now)
        .of_kinds([DueKind::LapsedLease])
        .of_agents([agent]);
    loop {
        let page = store.due(&query).await?;
        if page.items.iter().any(|due| due.session == *session) {
            return Ok(true);
        }
        match page.next {
            Some(next) => query = query.after(Some(next)),
            None => return Ok(false),
        }
    }
}

/// Formats an instant for a table: its age for a person, its date for a program.
fn since(screen: &Screen, at: Timestamp, now: Timestamp) -> String {
    match screen.out_is_terminal {
        true => date::ago(at, now),
        false => date::utc(at),
    }
}
