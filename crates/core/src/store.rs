//! The port to what keeps sessions.
//!
//! A store offers reads and one write. [`SessionStore::commit`] changes several sessions of one root
//! or nothing at all; every operation with a name of its own ([`Sessions`]) is written once, on top of
//! it. The rules of a commit are a pure function, [`plan`], so a backend only has to read
//! headers, ask, and write what it is told in one atomic step.

mod backlog;
mod commit;
mod due;
mod error;
mod header;
mod key;
mod mark;
mod plan;
mod precondition;
mod query;
mod row;
mod sessions;
mod snapshot;
mod writable;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::id::{CallId, CheckpointId, RunId, SessionId};
use crate::message::Message;
use crate::session::{Checkpoint, PendingCall, RunRecord, SessionState, StopRequest};
use crate::time::Timestamp;
use crate::usage::UsageEntry;

pub use backlog::Backlog;
pub use commit::{
    Change, Commit, Committed, Fence, Field, InboxRow, Lease, LeaseRequest, Receipt, Unstage,
};
pub use due::{Due, DueCursor, DueKind, DuePage, DueQuery, DueSession};
pub use error::{Current, StoreError};
pub use header::{Header, LatestRun, PendingMark};
pub use key::SessionKey;
pub use mark::{Begun, EffectMark, ModelFailure, OpenMark};
pub use plan::{
    Headers, MAX_LABEL_BYTES, MAX_METADATA_BYTES, MAX_METADATA_KEYS, MAX_TAGS, Plan, plan,
};
pub use precondition::{CallStanding, EffectPlace, Precondition};
pub use query::{Lookup, Page, PageRoom, Paged, ParentFilter, PendingQuery, SessionQuery};
pub use row::Row;
pub use sessions::{BranchPoint, CasOutcome, NewCheckpoint, NewSession, Sessions, StatusContext};
pub use snapshot::{AnsweredCall, Family, Snapshot, Staged};
pub use writable::Writable;

/// What keeps sessions.
///
/// A commit is atomic: all of it is visible to every reader in every process at once, or none of it
/// ever. When `commit` has returned `Ok`, it is durable. When it has returned a refusal, nothing was
/// written. Commits of one session happen one after another; versions grow by one with each.
/// Nothing is visible before it is durable.
///
/// A root and the sessions under it belong together, and nothing else does: every commit and every
/// read of a session names the root, so that a store may keep each root in a place of its own.
/// Whoever names the wrong root finds nothing there.
///
/// A [`Page`] ends where its number of items or of bytes does, whichever comes first; [`Paged::of`] and
/// [`PageRoom`] measure it. A store reads no more of what is left out than it must.
///
/// Leases and due work are judged by one clock: the store's, where it has one. A store without a clock
/// goes by the time that each commit and each question carries.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait SessionStore: Send + Sync + fmt::Debug {
    /// Writes, if every precondition holds.
    ///
    /// # Errors
    /// [`StoreError::Refused`] and its kin when it does not fit; nothing is written then.
    async fn commit(&self, commit: Commit) -> Result<Receipt, StoreError>;

    /// A session with its state, pending calls, open step and latest run, as of one instant, and
    /// which of the open step's calls are answered. `None` when there is no such session under this
    /// root.
    async fn load(&self, session: SessionKey<'_>) -> Result<Option<Snapshot>, StoreError>;

    /// Messages, oldest first. A session that does not exist has none.
    async fn messages(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<Message>, StoreError>;

    /// The state as it was at a version.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when there is no such version.
    async fn state_at(
        &self,
        session: SessionKey<'_>,
        version: u64,
    ) -> Result<Arc<Value>, StoreError>;

    /// Runs, oldest first.
    async fn runs(
        &self,
        session: SessionKey<'_>,
        which: Lookup<RunId>,
    ) -> Result<Paged<RunRecord>, StoreError>;

    /// Checkpoints, the one that was written last first.
    async fn checkpoints(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CheckpointId>,
    ) -> Result<Paged<Checkpoint>, StoreError>;

    /// Calls that somebody outside has answered, in the order of their ids, however long ago. A
    /// session that does not exist has none.
    async fn answered(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CallId>,
    ) -> Result<Paged<AnsweredCall>, StoreError>;

    /// Children, kept writes, and call ids that only the past knows.
    async fn family(&self, session: SessionKey<'_>) -> Result<Family, StoreError>;

    /// Usage, oldest first.
    async fn usage(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<UsageEntry>, StoreError>;

    /// The root of a child; `None` for an id that no child has, a root's for one.
    ///
    /// It is a directory for callers who know an id and nothing else. A store that keeps each root by
    /// itself writes it before it makes the commit that creates a child. An entry may stay when that
    /// commit came to nothing, or the child is removed: it names a session that is not there, and
    /// whoever follows it is told so by the read. It must not keep another session of that id from
    /// being made or found.
    async fn root_of(&self, session: &SessionId) -> Result<Option<SessionId>, StoreError>;

    /// [`SessionStore::load`] for callers who know an id and nothing else. A root is found without
    /// looking into the directory.
    async fn find(&self, session: &SessionId) -> Result<Option<Snapshot>, StoreError> {
        if let Some(root) = self.load(session.as_root()).await? {
            return Ok(Some(root));
        }
        match self.root_of(session).await? {
            Some(root) => self.load(SessionKey::new(&root, session)).await,
            None => Ok(None),
        }
    }

    /// Sessions, newest first, without their content.
    async fn list(&self, query: &SessionQuery) -> Result<Paged<SessionState>, StoreError>;

    /// Calls that wait for an answer, across sessions, oldest first.
    async fn pending(&self, query: &PendingQuery) -> Result<Paged<PendingCall>, StoreError>;

    /// Sessions that need attention, most overdue first, and why.
    ///
    /// It reads work of the kinds and agents that are asked for and no other, so that what is due to
    /// others, however much, costs and hides nothing.
    async fn due(&self, query: &DueQuery) -> Result<DuePage, StoreError>;

    /// How much work waits at this instant, over all sessions.
    ///
    /// It is asked every few seconds by whoever watches the store: it counts in indexes, and its cost
    /// does not grow with sessions for which nothing waits.
    async fn backlog(&self, at: Timestamp) -> Result<Backlog, StoreError>;
}

/// Tells a run that it is asked to stop.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait WatchStops: Send + Sync + fmt::Debug {
    /// Resolves when there is a request to stop this run, wherever it was written; at once when
    /// there is one already. Safe to drop.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when there is no such session, at once or when it is removed.
    async fn stopped(
        &self,
        session: SessionKey<'_>,
        run: &RunId,
    ) -> Result<StopRequest, StoreError>;
}
