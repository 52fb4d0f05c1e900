//! A store whose streams are stored elsewhere.

mod behind;
mod mending;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use self::behind::Behind;
use super::{
    Chunk, Outbox, RelayLeftovers, Sequence, StoredChunk, StreamError, StreamInfo, StreamLimits,
    StreamLog, StreamManager, StreamStatus, StreamWriter,
};
use crate::id::{CallId, CheckpointId, RunId, SessionId};
use crate::message::Message;
use crate::session::{Checkpoint, PendingCall, RunRecord, SessionState};
use crate::store::{
    AnsweredCall, Backlog, Commit, DuePage, DueQuery, Lookup, Page, Paged, PendingQuery, Receipt,
    SessionExtras, SessionKey, SessionQuery, SessionStore, Snapshot, StoreError,
};
use crate::time::Timestamp;
use crate::usage::UsageEntry;

/// How many entries of an outbox are relayed at once.
const ENTRIES: usize = 64;

/// A store of sessions with an outbox, and the streams of its sessions in another place.
///
/// A commit leaves its chunks in the outbox, as a part of the commit, and then they are relayed to the stream. Where that
/// fails, or the process ends before, they stay in the outbox. Every commit and every delta of the root relays them
/// first, whichever process makes it, and [`RelayLeftovers`] does so for roots that nobody writes to. So a stream has each
/// chunk once, in the order of the commits, and no delta before a chunk of an earlier commit of its run.
///
/// Streams that lose something are no reason for a run to fail, or for a reader to wait for ever. They begin anew
/// ([`StreamLog`]) when the next commit is relayed, when a writer is refused that the store would not refuse, or when
/// somebody has waited for a while; readers are told that chunks are missing. What was committed is in the store.
#[derive(Debug, Clone)]
pub struct Relayed {
    store: Arc<dyn SessionStore>,
    outbox: Arc<dyn Outbox>,
    log: Arc<dyn StreamLog>,
    /// The roots whose outboxes this process could not relay.
    behind: Arc<Behind>,
}

impl Relayed {
    /// Stores sessions in `store`, whose outbox this is, and streams in `log`.
    #[must_use]
    pub fn new(
        store: Arc<dyn SessionStore>,
        outbox: Arc<dyn Outbox>,
        log: Arc<dyn StreamLog>,
    ) -> Self {
        Self {
            store,
            outbox,
            log,
            behind: Arc::default(),
        }
    }

    /// Relays what is in the outbox of a root. Returns the number of the last entry, if there was one, and the end of
    /// the stream right after it.
    async fn relay(&self, root: &SessionId) -> Result<(u64, Option<Sequence>), StreamError> {
        let (after, end) = self.relay_entries(root).await?;
        if after > 0 && end.is_none() {
            self.tell_status(root).await;
        }
        Ok((after, end))
    }

    /// The same, whatever the stream lacks then.
    async fn relay_entries(
        &self,
        root: &SessionId,
    ) -> Result<(u64, Option<Sequence>), StreamError> {
        let (mut after, mut end) = (0, None);
        loop {
            let entries = self.outbox.entries(root, after, ENTRIES).await?;
            let Some((last, _)) = entries.last() else {
                break;
            };
            after = *last;
            end = self.log.relay(root, &entries).await?;
            self.outbox.relayed(root, after).await?;
            if entries.len() < ENTRIES {
                break;
            }
        }
        self.behind.is_relayed(root);
        Ok((after, end))
    }

    /// Relays what this process could not relay before, so that it reads its own commits.
    async fn relay_own(&self, root: &SessionId) -> Result<(), StreamError> {
        if self.behind.has_left(root) {
            self.relay(root).await?;
        }
        Ok(())
    }

    /// Relays an entry, and returns the end of the stream right after it.
    async fn deliver(&self, root: &SessionId, number: u64) -> Result<Sequence, StreamError> {
        let (last, end) = self.relay(root).await?;
        let position = match end.filter(|_| last == number) {
            Some(end) => Some(end),
            // Somebody else relayed it, or has left more since.
            None => self.log.position(root, number).await?,
        };
        Ok(position.unwrap_or(Sequence::START))
    }
}

#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
impl SessionStore for Relayed {
    /// The receipt has the position of the commit in the stream, or the start of the stream if that is not known: the
    /// commit left nothing for the stream, or the stream cannot be reached, and what it says is relayed later.
    async fn commit(&self, commit: Commit) -> Result<Receipt, StoreError> {
        let root = commit.root.clone();
        let mut receipt = self.store.commit(commit).await?;
        let number = receipt.sequence;
        if number.is_start() {
            // A lease is renewed in time, whatever becomes of the streams.
            return Ok(receipt);
        }
        let position = self.deliver(&root, number.0).await;
        receipt.sequence = position.unwrap_or_else(|error| {
            tracing::warn!(event = "outbox.not_relayed", session = %root, %error);
            self.behind.leaves(root);
            Sequence::START
        });
        Ok(receipt)
    }

    async fn load(&self, session: SessionKey<'_>) -> Result<Option<Snapshot>, StoreError> {
        self.store.load(session).await
    }

    async fn messages(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<Message>, StoreError> {
        self.store.messages(session, page).await
    }

    async fn state_at(
        &self,
        session: SessionKey<'_>,
        version: u64,
    ) -> Result<Arc<Value>, StoreError> {
        self.store.state_at(session, version).await
    }

    async fn runs(
        &self,
        session: SessionKey<'_>,
        which: Lookup<RunId>,
    ) -> Result<Paged<RunRecord>, StoreError> {
        self.store.runs(session, which).await
    }

    async fn checkpoints(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CheckpointId>,
    ) -> Result<Paged<Checkpoint>, StoreError> {
        self.store.checkpoints(session, which).await
    }

    async fn answered(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CallId>,
    ) -> Result<Paged<AnsweredCall>, StoreError> {
        self.store.answered(session, which).await
    }

    async fn extras(&self, session: SessionKey<'_>) -> Result<SessionExtras, StoreError> {
        self.store.extras(session).await
    }

    async fn usage(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<UsageEntry>, StoreError> {
        self.store.usage(session, page).await
    }

    async fn root_of(&self, session: &SessionId) -> Result<Option<SessionId>, StoreError> {
        self.store.root_of(session).await
    }

    async fn find(&self, session: &SessionId) -> Result<Option<Snapshot>, StoreError> {
        self.store.find(session).await
    }

    async fn list(&self, query: &SessionQuery) -> Result<Paged<SessionState>, StoreError> {
        self.store.list(query).await
    }

    async fn pending(&self, query: &PendingQuery) -> Result<Paged<PendingCall>, StoreError> {
        self.store.pending(query).await
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage, StoreError> {
        self.store.due(query).await
    }

    async fn backlog(&self, at: Timestamp) -> Result<Backlog, StoreError> {
        self.store.backlog(at).await
    }
}

#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
impl StreamManager for Relayed {
    fn limits(&self) -> StreamLimits {
        self.log.limits()
    }

    async fn append_deltas(
        &self,
        writer: &StreamWriter,
        chunks: Vec<Chunk>,
    ) -> Result<Sequence, StreamError> {
        self.relay(&writer.root).await?;
        let written = self.log.append_deltas(writer, chunks).await;
        self.judged(writer, written).await
    }

    async fn discard_deltas(
        &self,
        writer: &StreamWriter,
        after: Sequence,
        say: Chunk,
    ) -> Result<Sequence, StreamError> {
        self.relay(&writer.root).await?;
        let written = self.log.discard_deltas(writer, after, say).await;
        self.judged(writer, written).await
    }

    async fn read(
        &self,
        root: &SessionId,
        after: Sequence,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StreamError> {
        self.relay_own(root).await?;
        self.log.read(root, after, limit).await
    }

    async fn info(&self, root: &SessionId) -> Result<Option<StreamInfo>, StreamError> {
        self.relay_own(root).await?;
        let info = self.log.info(root).await?;
        match info.map(|info| info.status) {
            // Somebody writes, or waits: what was lost is noticed then.
            Some(StreamStatus::Active) => Ok(info),
            // It may be at rest only because it has lost what followed. It can be read all the same.
            Some(_) => match self.caught_up(root).await {
                Ok(true) => self.log.info(root).await,
                Ok(false) => Ok(info),
                Err(error) => {
                    tracing::debug!(event = "stream.not_checked", session = %root, %error);
                    Ok(info)
                }
            },
            // Nothing was ever said, or everything was lost.
            None if self.caught_up(root).await? => self.log.info(root).await,
            None => Ok(None),
        }
    }

    async fn catch_up(&self, root: &SessionId) -> Result<(), StreamError> {
        self.relay(root).await?;
        Ok(())
    }

    async fn changed(
        &self,
        root: &SessionId,
        known: Option<StreamInfo>,
    ) -> Result<(), StreamError> {
        while !self.log.changed_or_quiet(root, known).await? {
            if let Err(error) = self.caught_up(root).await {
                // The stream can be read all the same.
                tracing::debug!(event = "stream.not_checked", session = %root, %error);
            }
        }
        Ok(())
    }

    async fn condense(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        self.log.condense(root, up_to).await
    }

    async fn trim(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        self.log.trim(root, up_to).await
    }
}

#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
impl RelayLeftovers for Relayed {
    async fn relay_leftovers(&self, limit: usize) -> Result<usize, StreamError> {
        let before = self.behind.now();
        let wanted = limit.saturating_add(before.failed());
        let roots = self.outbox.waiting(wanted).await?;
        if roots.len() < wanted {
            self.behind.only_these_wait(&before, &roots);
        }
        let (mut relayed, mut failed) = (0, None);
        for root in before.failed_last(&roots).take(limit) {
            match self.relay(root).await {
                Ok(_) => relayed += 1,
                // The others do not wait for it.
                Err(error) => {
                    tracing::warn!(event = "outbox.not_relayed", session = %root, %error);
                    self.behind.fails(root);
                    failed = Some(error);
                }
            }
        }
        match failed {
            Some(error) if relayed == 0 => Err(error),
            _ => Ok(relayed),
        }
    }
}
