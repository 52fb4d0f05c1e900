//! The commands, one file each.

pub(crate) mod abort;
pub(crate) mod completions;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod interrupt;
pub(crate) mod migrate;
pub(crate) mod pending;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod sessions;
mod stop;
pub(crate) mod submit;

use helix_agents_core::SessionId;
use helix_agents_core::session::{RunRecord, RunStatus};
use helix_agents_core::store::{SessionStore, Snapshot, StoreError};

use crate::UsageError;

/// An id from the command line.
fn id<T>(text: &str) -> Result<T, UsageError>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    text.parse()
        .map_err(|error: T::Err| UsageError(error.to_string()))
}

/// A session that must be there.
async fn load(store: &dyn SessionStore, session: &SessionId) -> Result<Snapshot, StoreError> {
    let found = store.load(session).await?;
    found.ok_or_else(|| StoreError::NotFound {
        session: session.clone(),
    })
}

/// Whether a run goes on, as far as the store knows.
fn is_running(run: Option<&RunRecord>) -> bool {
    run.is_some_and(|run| run.status == RunStatus::Running)
}
