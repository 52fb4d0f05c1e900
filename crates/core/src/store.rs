//! The storage port for sessions.
//!
//! A store offers reads and one write. [`SessionStore::commit`] changes several sessions of one root
//! or nothing at all; every named operation ([`Sessions`]) is written once, on top of it. The rules
//! of a commit are a pure function, [`plan`], so a backend only has to read headers, call it, and
//! write the result in one atomic step.

mod backlog;
mod commit;
mod due;
mod error;
mod header;
mod key;
mod mark;
mod per_session;
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
pub use commit::{Change, Commit, Fence, Lease, LeaseRequest, Receipt, SessionReceipt, Unstage};
// Contents of a commit and of a header, which `plan` reads and stores pass on unread.
#[doc(hidden)]
pub use commit::{Field, InboxRow};
pub use due::{DueCursor, DueKind, DuePage, DueQuery, DueReason, DueSession};
pub use error::{CurrentSession, StoreError};
#[doc(hidden)]
pub use header::PendingCallMark;
pub use header::{Header, LatestRun};
pub use key::SessionKey;
#[doc(hidden)]
pub use mark::{EffectMark, ModelFailure, OpenStepMark, RepeatedAttempt};
pub use per_session::PerSession;
pub use plan::{
    Headers, MAX_LABEL_BYTES, MAX_METADATA_BYTES, MAX_METADATA_KEYS, MAX_TAGS, Plan, plan,
};
pub use precondition::Precondition;
#[doc(hidden)]
pub use precondition::{EffectPosition, PendingStatus};
pub use query::{Lookup, Page, PageRoom, Paged, ParentFilter, PendingQuery, SessionQuery};
pub use row::Row;
pub(crate) use sessions::{BranchContent, Reach, WorkingChild, drop_messages};
pub use sessions::{BranchPoint, NewCheckpoint, NewSession, Sessions};
// For writes outside of a run, which only the contract tests make.
#[doc(hidden)]
pub use sessions::{CasOutcome, StatusContext};
pub use snapshot::{AnsweredCall, SessionExtras, Snapshot, Staged};
pub use writable::CheckWritable;

/// Durable storage of sessions and everything that belongs to them.
///
/// A commit is atomic: every reader in every process sees all of it at once, or none of it. When
/// `commit` has returned `Ok`, the commit is durable. When it has returned a refusal, nothing was
/// written. Commits of one session are serialized; each raises its version by one. Nothing is
/// visible before it is durable.
///
/// A root and the sessions under it form one unit: every commit and every read of a session names the
/// root, so a store may keep each root in a separate place. Under a wrong root a session is not found.
///
/// A [`Page`] ends at its number of items or at its number of bytes, whichever comes first;
/// [`Paged::of`] and [`PageRoom`] measure it. A store reads as little as possible of the
/// items beyond the page.
///
/// A list has one order, the same in every read and every process, so that pages together are the list.
/// Where the documentation of a list leaves ties open, as between sessions created in the same
/// instant, a store breaks them as it likes, but always in the same way: by the id, or by a number that it
/// assigns. Lists in the order of writing, as of messages, runs, usage and children, have no ties: they are
/// ordered by a number that the store assigns, never by a time.
///
/// Leases and due work are judged by one clock: the store's, if it has one. A store without a clock
/// uses the time that each commit and each query carries.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait SessionStore: Send + Sync + fmt::Debug {
    /// Writes the commit if every precondition holds.
    ///
    /// # Errors
    /// [`StoreError::Refused`] and the other refusals if it does not apply; nothing is written then.
    async fn commit(&self, commit: Commit) -> Result<Receipt, StoreError>;

    /// Loads a session with its state, pending calls, open step and latest run, as of one
    /// instant, and which calls of the open step are answered. Returns `None` if the session does
    /// not exist under this root.
    async fn load(&self, session: SessionKey<'_>) -> Result<Option<Snapshot>, StoreError>;

    /// Lists messages, oldest first. A session that does not exist has none.
    async fn messages(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<Message>, StoreError>;

    /// Returns the state at a version.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if the version does not exist.
    async fn state_at(
        &self,
        session: SessionKey<'_>,
        version: u64,
    ) -> Result<Arc<Value>, StoreError>;

    /// Lists runs, oldest first, or looks one up by its id.
    async fn runs(
        &self,
        session: SessionKey<'_>,
        which: Lookup<RunId>,
    ) -> Result<Paged<RunRecord>, StoreError>;

    /// Lists checkpoints, the most recently written first, or looks one up by its id.
    async fn checkpoints(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CheckpointId>,
    ) -> Result<Paged<Checkpoint>, StoreError>;

    /// Lists calls that were answered from outside the run, ordered by id, including those answered
    /// long ago. A session that does not exist has none.
    async fn answered(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CallId>,
    ) -> Result<Paged<AnsweredCall>, StoreError>;

    /// Returns a session's child references, staged writes and retired call ids.
    async fn extras(&self, session: SessionKey<'_>) -> Result<SessionExtras, StoreError>;

    /// Lists usage entries, oldest first.
    async fn usage(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<UsageEntry>, StoreError>;

    /// Returns the root of a child session; `None` for an id that no child has, including
    /// that of a root.
    ///
    /// This is a directory for callers that know only an id. A store that keeps each root
    /// separately writes the entry before it makes the commit that creates the child. An entry may
    /// remain after that commit was refused or the child was deleted: it then names a session that
    /// does not exist, which the read that follows reports. It must not prevent another session
    /// with that id from being created or found.
    async fn root_of(&self, session: &SessionId) -> Result<Option<SessionId>, StoreError>;

    /// Does what [`SessionStore::load`] does, for callers that know only an id. A root is found
    /// without a look into the directory.
    async fn find(&self, session: &SessionId) -> Result<Option<Snapshot>, StoreError> {
        if let Some(root) = self.load(session.as_root()).await? {
            return Ok(Some(root));
        }
        match self.root_of(session).await? {
            Some(root) => self.load(SessionKey::new(&root, session)).await,
            None => Ok(None),
        }
    }

    /// Lists sessions, newest first by `created_at`, as their headers hold them: without messages, state
    /// and pending calls. At most [`Page::MAX`] at once ([`Page::capped`]).
    async fn list(&self, query: &SessionQuery) -> Result<Paged<SessionState>, StoreError>;

    /// Lists calls that wait for an answer, across sessions, oldest first by `created_at`. At most
    /// [`Page::MAX`] at once ([`Page::capped`]).
    async fn pending(&self, query: &PendingQuery) -> Result<Paged<PendingCall>, StoreError>;

    /// Lists sessions with due work, most overdue first, with the reasons. Ties are ordered by the id of
    /// the session, as [`DueCursor`] is.
    ///
    /// It reads work of the requested kinds and agents only, so that any amount of other due work
    /// neither slows it down nor hides a result.
    async fn due(&self, query: &DueQuery) -> Result<DuePage, StoreError>;

    /// Counts the work that is waiting at this instant, over all sessions.
    ///
    /// Monitoring calls it every few seconds: it counts in indexes, and its cost does not grow with
    /// sessions that have nothing waiting.
    async fn backlog(&self, at: Timestamp) -> Result<Backlog, StoreError>;
}

/// Notifies a run of requests to stop it.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait WatchStops: Send + Sync + fmt::Debug {
    /// Resolves when this run has a stop request, whichever process wrote it; at once if it already
    /// has one. Safe to drop.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist, or as soon as it is deleted.
    async fn stopped(
        &self,
        session: SessionKey<'_>,
        run: &RunId,
    ) -> Result<StopRequest, StoreError>;
}
