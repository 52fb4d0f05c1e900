//! Streams that have lost something are told what the store knows.

use super::Relayed;
use crate::id::SessionId;
use crate::session::{RunStatus, SessionStatus};
use crate::store::{SessionKey, Snapshot, StoreError};
use crate::stream::{
    DeltaGate, OutboxPosition, StreamError, StreamRepair, StreamStatus, StreamWriter,
};

/// How often it is looked again because others wrote meanwhile.
const TRIES: usize = 8;

/// What a writer is told whose stream has lost something.
#[derive(Debug, thiserror::Error)]
#[error("the stream had lost something and has begun anew; try again")]
struct BegunAnew;

/// What a process finds when it compares a stream with its store.
enum Found {
    /// The stream was told everything.
    Whole,
    /// Somebody writes: what was read does not belong together.
    Moved,
    /// The stream was told something now.
    Mended,
}

impl Relayed {
    /// Asks the store before a writer is refused: the stream may have lost what it was told.
    pub(super) async fn judged<T>(
        &self,
        writer: &StreamWriter,
        written: Result<T, StreamError>,
    ) -> Result<T, StreamError> {
        let is_refusal = matches!(
            written,
            Err(StreamError::Superseded { .. }
                | StreamError::Overtaken { .. }
                | StreamError::Store(StoreError::NotFound { .. }))
        );
        if is_refusal && self.mend(&writer.root, Some(writer)).await? {
            return Err(StreamError::Store(StoreError::Unavailable {
                backend: "streams",
                source: Box::new(BegunAnew),
            }));
        }
        written
    }

    /// Relays what the stream of a root was not told yet, and tells it what it has lost. Returns whether it may be
    /// another one than before.
    pub(super) async fn caught_up(&self, root: &SessionId) -> Result<bool, StreamError> {
        let head = self.outbox.head(root).await?;
        if head.is_some() && self.log.seen(root).await? == head {
            return Ok(false);
        }
        self.mend(root, None).await?;
        Ok(true)
    }

    /// Tells a stream its status that has begun anew without one. What was relayed is relayed all the same; whoever
    /// looks at the stream next tries again.
    pub(super) async fn tell_status(&self, root: &SessionId) {
        let told = match self.log.seen(root).await {
            Ok(Some(_)) => return,
            Ok(None) => self.mend(root, None).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = told {
            tracing::warn!(event = "stream.not_mended", session = %root, %error);
        }
    }

    async fn mend(
        &self,
        root: &SessionId,
        writer: Option<&StreamWriter>,
    ) -> Result<bool, StreamError> {
        for _ in 0..TRIES {
            match self.compare(root, writer).await? {
                Found::Whole => return Ok(false),
                Found::Mended => {
                    tracing::warn!(event = "stream.mended", session = %root);
                    return Ok(true);
                }
                Found::Moved => {}
            }
        }
        Ok(false)
    }

    /// Compares a stream with its store, and mends it. A writer is judged by the store.
    async fn compare(
        &self,
        root: &SessionId,
        writer: Option<&StreamWriter>,
    ) -> Result<Found, StreamError> {
        let head = self.outbox.head(root).await?;
        self.relay_entries(root).await?;
        let seen = self.log.seen(root).await?;
        let mut repair = match head {
            // Of a root without commits in the outbox, the stream knows nothing yet.
            None => return self.remove_if_deleted(root, seen).await,
            Some(_) if head == seen && writer.is_none() => return Ok(Found::Whole),
            Some(position) => StreamRepair::new(position, StreamStatus::Active),
        };
        let named = writer.map(|writer| &writer.session);
        for session in [root].into_iter().chain(named) {
            let key = SessionKey::new(root, session);
            let Some(snapshot) = self.store.load(key).await? else {
                continue;
            };
            if session == root {
                repair.status = status(&snapshot);
            }
            let gate = DeltaGate::of_snapshot(&snapshot);
            repair.gates.insert(session.clone(), gate);
        }
        // Nothing that is told now was left meanwhile.
        if self.outbox.head(root).await? != head {
            return Ok(Found::Moved);
        }
        if let Some(writer) = writer {
            let gate = |session| repair.gates.get(session);
            DeltaGate::admit(writer, gate(&writer.session), gate(root))?;
        }
        match self.log.repair(root, seen, Some(&repair)).await? {
            true => Ok(Found::Mended),
            false => Ok(Found::Moved),
        }
    }

    /// Removes the stream of a root that was deleted.
    async fn remove_if_deleted(
        &self,
        root: &SessionId,
        seen: Option<OutboxPosition>,
    ) -> Result<Found, StreamError> {
        if self.log.info(root).await?.is_none() || self.store.find(root).await?.is_some() {
            return Ok(Found::Whole);
        }
        match self.log.repair(root, seen, None).await? {
            true => Ok(Found::Mended),
            false => Ok(Found::Moved),
        }
    }
}

/// The status of the stream of a root.
fn status(root: &Snapshot) -> StreamStatus {
    let run = root.run.as_ref().map(|run| run.status);
    match (run, root.state.status) {
        (None | Some(RunStatus::Running), _) => StreamStatus::Active,
        (_, SessionStatus::Paused) => StreamStatus::Paused,
        (Some(status), _) if status.is_suspended() => StreamStatus::Paused,
        // Messages wait for a run that will start by itself.
        _ if !root.inbox.is_empty() => StreamStatus::Active,
        (Some(RunStatus::Failed), _) | (_, SessionStatus::Failed) => StreamStatus::Failed,
        _ => StreamStatus::Ended,
    }
}
