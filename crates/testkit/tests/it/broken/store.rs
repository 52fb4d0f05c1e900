//! A store with one defect, or none.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::message::Message;
use helix_agents_core::session::{
    Checkpoint, CheckpointSource, PendingCall, RunRecord, SessionState, StopRequest,
};
use helix_agents_core::store::{
    AnsweredCall, Backlog, Change, Commit, DuePage, DueQuery, Lookup, Page, Paged, PendingQuery,
    Receipt, SessionExtras, SessionKey, SessionQuery, SessionStore, Snapshot, StoreError,
    WatchStops,
};
use helix_agents_core::stream::{
    Chunk, Sequence, StoredChunk, StreamError, StreamInfo, StreamLimits, StreamManager,
    StreamWriter,
};
use helix_agents_core::time::Timestamp;
use helix_agents_core::usage::UsageEntry;
use helix_agents_core::{CallId, CheckpointId, RunId, SessionId};
use serde_json::Value;

/// One deliberate defect of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defect {
    /// Preconditions are not looked at.
    LostPrecondition,
    /// Changes are made one after another instead of together.
    TornCommit,
    /// The last of several changes is forgotten.
    ShortCommit,
    /// The latest checkpoint is taken for the one with the most steps.
    StalePointer,
    /// Only checkpoints at the end of a step move the pointer.
    PointerOfOnePath,
    /// A run that is updated is taken for the latest one.
    LatestRunOnly,
    /// Chunks are numbered by their place in what is left.
    ReusedSequence,
    /// Chunks are shown before their commit is judged.
    EarlyChunk,
    /// Nothing is written to the disk.
    NotDurable,
    /// A commit is written to the disk when the next one comes.
    LateCommit,
    /// Deltas are not written to the disk.
    LostDeltas,
    /// Condensing removes events of tools, too.
    CondensedTooMuch,
    /// Condensing is not told to readers.
    SecretlyCondensed,
    /// The disk knows nothing of sessions that were deleted, not even their fences.
    ForgottenFence,
}

/// An acknowledged write, as the journal of a disk has it.
#[derive(Debug, Clone)]
enum Write {
    Commit(Commit),
    Deltas(StreamWriter, Vec<Chunk>),
}

impl Write {
    fn deletes(&self) -> bool {
        let is_deletion = |(_, change): &(SessionId, Change)| *change == Change::Delete;
        matches!(self, Self::Commit(commit) if commit.changes.iter().any(is_deletion))
    }
}

/// The part of a store that outlives it: the data, and a journal of the writes that made them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk {
    data: MemoryStore,
    journal: Arc<Mutex<Vec<Write>>>,
}

impl Disk {
    fn note(&self, write: Write) {
        self.journal.lock().unwrap().push(write);
    }

    /// The data that a store with this defect finds when it is opened.
    async fn read(&self, defect: Option<Defect>) -> MemoryStore {
        let mut journal = self.journal.lock().unwrap().clone();
        match defect {
            Some(Defect::NotDurable) => journal.clear(),
            Some(Defect::LateCommit) => {
                journal.pop_if(|last| matches!(last, Write::Commit(_)));
            }
            Some(Defect::LostDeltas) => journal.retain(|write| matches!(write, Write::Commit(_))),
            Some(Defect::ForgottenFence) => {
                if let Some(last) = journal.iter().rposition(Write::deletes) {
                    journal.drain(..=last);
                }
            }
            _ => return self.data.clone(),
        }
        let store = MemoryStore::new();
        for write in journal {
            match write {
                Write::Commit(commit) => drop(store.commit(commit).await.unwrap()),
                Write::Deltas(writer, chunks) => {
                    store.append_deltas(&writer, chunks).await.unwrap();
                }
            }
        }
        store
    }
}

/// The store in memory, with a defect.
#[derive(Debug, Default)]
pub(crate) struct Broken {
    inner: MemoryStore,
    disk: Disk,
    defect: Option<Defect>,
}

impl Broken {
    pub(crate) fn new(defect: Option<Defect>) -> Self {
        Self {
            inner: MemoryStore::new(),
            disk: Disk::default(),
            defect,
        }
    }

    /// Opens what is on a disk.
    pub(crate) async fn open(disk: &Disk, defect: Option<Defect>) -> Self {
        Self {
            inner: disk.read(defect).await,
            disk: disk.clone(),
            defect,
        }
    }

    /// A commit without changes, to be given some.
    fn emptied(commit: &Commit) -> Commit {
        Commit {
            changes: Vec::new(),
            chunks: Vec::new(),
            stream: None,
            rewind: None,
            ..commit.clone()
        }
    }

    async fn one_by_one(&self, commit: Commit) -> Result<Receipt, StoreError> {
        let mut receipt = self.inner.commit(Self::emptied(&commit)).await?;
        for change in commit.changes {
            let mut one = Commit::new(commit.root.clone(), commit.at);
            one.changes = vec![change];
            receipt = self.inner.commit(one).await?;
        }
        let mut told = Commit::new(commit.root, commit.at);
        (told.chunks, told.stream) = (commit.chunks, commit.stream);
        told.rewind = commit.rewind;
        let last = self.inner.commit(told).await?;
        receipt.sequence = last.sequence;
        Ok(receipt)
    }

    /// Makes updates of any run updates of the latest.
    async fn redirect_to_latest(&self, commit: &mut Commit) -> Result<(), StoreError> {
        for (session, change) in &mut commit.changes {
            let Change::Run(record) = change else {
                continue;
            };
            let key = SessionKey::new(&commit.root, session);
            let found = self.inner.load(key).await?;
            if let Some(latest) = found.and_then(|found| found.run) {
                record.id = latest.id;
            }
        }
        Ok(())
    }

    async fn chunks_first(&self, mut commit: Commit) -> Result<Receipt, StoreError> {
        let mut told = Commit::new(commit.root.clone(), commit.at);
        told.chunks = std::mem::take(&mut commit.chunks);
        self.inner.commit(told).await?;
        self.inner.commit(commit).await
    }

    /// The checkpoint that a store with this defect believes to be the latest.
    async fn mistaken(&self, session: SessionKey<'_>) -> Result<Option<CheckpointId>, StoreError> {
        let all = Lookup::Page(Page::ALL);
        let all = self.inner.checkpoints(session, all).await?.items;
        Ok(all
            .into_iter()
            .max_by_key(|one| one.step_count)
            .map(|one| one.id))
    }
}

#[async_trait]
impl SessionStore for Broken {
    async fn commit(&self, mut commit: Commit) -> Result<Receipt, StoreError> {
        match self.defect {
            Some(Defect::LostPrecondition) => commit.preconditions.clear(),
            Some(Defect::TornCommit) => return self.one_by_one(commit).await,
            Some(Defect::ShortCommit) if commit.changes.len() > 1 => {
                commit.changes.pop();
            }
            Some(Defect::PointerOfOnePath) => {
                let moves = |change: &Change| {
                    !matches!(change, Change::Checkpoint(_, CheckpointSource::Save))
                };
                commit.changes.retain(|(_, change)| moves(change));
            }
            Some(Defect::LatestRunOnly) => self.redirect_to_latest(&mut commit).await?,
            Some(Defect::EarlyChunk) => return self.chunks_first(commit).await,
            _ => {}
        }
        let receipt = self.inner.commit(commit.clone()).await?;
        self.disk.note(Write::Commit(commit));
        Ok(receipt)
    }

    async fn load(&self, session: SessionKey<'_>) -> Result<Option<Snapshot>, StoreError> {
        let mut found = self.inner.load(session).await?;
        if let (Some(found), Some(Defect::StalePointer)) = (&mut found, self.defect) {
            found.state.checkpoint_id = self.mistaken(session).await?;
        }
        Ok(found)
    }

    async fn messages(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<Message>, StoreError> {
        self.inner.messages(session, page).await
    }

    async fn state_at(
        &self,
        session: SessionKey<'_>,
        version: u64,
    ) -> Result<Arc<Value>, StoreError> {
        self.inner.state_at(session, version).await
    }

    async fn runs(
        &self,
        session: SessionKey<'_>,
        which: Lookup<RunId>,
    ) -> Result<Paged<RunRecord>, StoreError> {
        self.inner.runs(session, which).await
    }

    async fn checkpoints(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CheckpointId>,
    ) -> Result<Paged<Checkpoint>, StoreError> {
        self.inner.checkpoints(session, which).await
    }

    async fn answered(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CallId>,
    ) -> Result<Paged<AnsweredCall>, StoreError> {
        self.inner.answered(session, which).await
    }

    async fn extras(&self, session: SessionKey<'_>) -> Result<SessionExtras, StoreError> {
        self.inner.extras(session).await
    }

    async fn usage(
        &self,
        session: SessionKey<'_>,
        page: Page,
    ) -> Result<Paged<UsageEntry>, StoreError> {
        self.inner.usage(session, page).await
    }

    async fn root_of(&self, session: &SessionId) -> Result<Option<SessionId>, StoreError> {
        self.inner.root_of(session).await
    }

    async fn list(&self, query: &SessionQuery) -> Result<Paged<SessionState>, StoreError> {
        self.inner.list(query).await
    }

    async fn pending(&self, query: &PendingQuery) -> Result<Paged<PendingCall>, StoreError> {
        self.inner.pending(query).await
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage, StoreError> {
        self.inner.due(query).await
    }

    async fn backlog(&self, at: Timestamp) -> Result<Backlog, StoreError> {
        self.inner.backlog(at).await
    }
}

#[async_trait]
impl WatchStops for Broken {
    async fn stopped(
        &self,
        session: SessionKey<'_>,
        run: &RunId,
    ) -> Result<StopRequest, StoreError> {
        self.inner.stopped(session, run).await
    }
}

#[async_trait]
impl StreamManager for Broken {
    fn limits(&self) -> StreamLimits {
        self.inner.limits()
    }

    async fn append_deltas(
        &self,
        writer: &StreamWriter,
        chunks: Vec<Chunk>,
    ) -> Result<Sequence, StreamError> {
        let last = self.inner.append_deltas(writer, chunks.clone()).await?;
        self.disk.note(Write::Deltas(writer.clone(), chunks));
        Ok(last)
    }

    async fn discard_deltas(
        &self,
        writer: &StreamWriter,
        after: Sequence,
        say: Chunk,
    ) -> Result<Sequence, StreamError> {
        self.inner.discard_deltas(writer, after, say).await
    }

    async fn read(
        &self,
        root: &SessionId,
        after: Sequence,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StreamError> {
        if self.defect != Some(Defect::ReusedSequence) {
            return self.inner.read(root, after, limit).await;
        }
        let all = self.inner.read(root, Sequence::START, usize::MAX).await?;
        let anew = (1..).zip(all).map(|(number, mut stored)| {
            stored.sequence = Sequence(number);
            stored
        });
        Ok(anew
            .filter(|stored| stored.sequence > after)
            .take(limit)
            .collect())
    }

    async fn info(&self, root: &SessionId) -> Result<Option<StreamInfo>, StreamError> {
        self.inner.info(root).await
    }

    async fn changed(
        &self,
        root: &SessionId,
        known: Option<StreamInfo>,
    ) -> Result<(), StreamError> {
        self.inner.changed(root, known).await
    }

    async fn condense(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        match self.defect {
            Some(Defect::CondensedTooMuch) => self.inner.trim(root, up_to).await?,
            Some(Defect::SecretlyCondensed) => return Ok(()),
            _ => {}
        }
        self.inner.condense(root, up_to).await
    }

    async fn trim(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        self.inner.trim(root, up_to).await
    }
}
