//! Streams in memory beside a store with an outbox.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::notifiers::Notifiers;
use super::streams::Log;
use crate::id::SessionId;
use crate::store::StoreError;
use crate::stream::{
    Chunk, DeltaGate, Incarnation, OutboxEntry, OutboxPosition, Sequence, StoredChunk, StreamError,
    StreamInfo, StreamLimits, StreamLog, StreamManager, StreamRepair, StreamWriter,
};

/// The number of positions of entries that are kept.
const POSITIONS: usize = 64;

/// Streams in memory, for tests of stores whose streams are elsewhere. Clones are the same streams.
#[derive(Debug, Clone, Default)]
pub struct MemoryLog {
    inner: Arc<Mutex<HashMap<SessionId, Logged>>>,
    notifiers: Notifiers,
}

/// The stream of a root, and what it was told.
#[derive(Debug, Default)]
struct Logged {
    /// Exists once something was written to it.
    log: Option<Log>,
    incarnation: Incarnation,
    gates: BTreeMap<SessionId, DeltaGate>,
    /// The number of the last entry.
    relayed: u64,
    /// Whether the stream has begun anew, and was not told its status since.
    lacks_status: bool,
    positions: VecDeque<(u64, Sequence)>,
}

impl Logged {
    fn take(&mut self, number: u64, entry: &OutboxEntry) {
        if number <= self.relayed {
            return;
        }
        let is_lost = entry.previous > self.relayed;
        self.relayed = number;
        if entry.ends || entry.incarnation != self.incarnation {
            self.log = None;
            self.gates.clear();
            self.incarnation = entry.incarnation;
            self.lacks_status = false;
        }
        if is_lost && !entry.ends {
            self.begin_anew(number);
        }
        for (session, gate) in &entry.gates {
            match gate {
                Some(gate) => drop(self.gates.insert(session.clone(), gate.clone())),
                None => drop(self.gates.remove(session)),
            }
        }
        if entry.says_something() {
            let log = self.log();
            if let Some(rewind) = &entry.rewind {
                log.rewind(rewind);
            }
            log.append(entry.chunks.clone(), false);
            if let Some(status) = entry.status {
                log.status = status;
                self.lacks_status = false;
            }
        }
        if self.positions.len() == POSITIONS {
            self.positions.pop_front();
        }
        let last = self.log.as_ref().map_or(Sequence::START, Log::last);
        self.positions.push_back((number, last));
    }

    /// Begins a stream that has lost something, above all sequences that it may have had.
    fn begin_anew(&mut self, number: u64) {
        self.gates.clear();
        self.positions.clear();
        let mut log = Log::new(self.incarnation);
        log.begin_after(Sequence(number << 32));
        self.log = Some(log);
        self.lacks_status = true;
    }

    /// The last entry that was written.
    fn position(&self) -> Option<OutboxPosition> {
        (self.relayed > 0).then_some(OutboxPosition {
            incarnation: self.incarnation,
            number: self.relayed,
        })
    }

    fn seen(&self) -> Option<OutboxPosition> {
        self.position().filter(|_| !self.lacks_status)
    }

    fn log(&mut self) -> &mut Log {
        let incarnation = self.incarnation;
        self.log.get_or_insert_with(|| Log::new(incarnation))
    }
}

impl MemoryLog {
    /// Creates an empty place for streams.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Logged>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(&self, root: &SessionId, look: impl FnOnce(&mut Log) -> R) -> Option<R> {
        let mut inner = self.lock();
        inner.get_mut(root)?.log.as_mut().map(look)
    }

    fn change(&self, root: &SessionId, change: impl FnOnce(&mut Log)) -> Result<(), StreamError> {
        let missing = || StoreError::NotFound {
            session: root.clone(),
        };
        Ok(self.with(root, change).ok_or_else(missing)?)
    }

    fn write(
        &self,
        writer: &StreamWriter,
        write: impl FnOnce(&mut Log),
    ) -> Result<Sequence, StreamError> {
        let last = {
            let mut inner = self.lock();
            let logged = inner.entry(writer.root.clone()).or_default();
            let gate = |session| logged.gates.get(session);
            DeltaGate::admit(writer, gate(&writer.session), gate(&writer.root))?;
            let log = logged.log();
            write(log);
            log.last()
        };
        self.notifiers.of(&writer.root).ring();
        Ok(last)
    }
}

#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
impl StreamManager for MemoryLog {
    fn limits(&self) -> StreamLimits {
        StreamLimits::default()
    }

    async fn append_deltas(
        &self,
        writer: &StreamWriter,
        chunks: Vec<Chunk>,
    ) -> Result<Sequence, StreamError> {
        self.limits().check(&chunks)?;
        self.write(writer, |log| log.append(chunks, true))
    }

    async fn discard_deltas(
        &self,
        writer: &StreamWriter,
        after: Sequence,
        say: Chunk,
    ) -> Result<Sequence, StreamError> {
        self.write(writer, |log| log.discard(&writer.session, after, say))
    }

    async fn read(
        &self,
        root: &SessionId,
        after: Sequence,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StreamError> {
        let read = self.with(root, |log| log.read(after, limit));
        Ok(read.unwrap_or_default())
    }

    async fn info(&self, root: &SessionId) -> Result<Option<StreamInfo>, StreamError> {
        Ok(self.with(root, |log| log.info()))
    }

    async fn changed(
        &self,
        root: &SessionId,
        known: Option<StreamInfo>,
    ) -> Result<(), StreamError> {
        loop {
            let heard = self.notifiers.of(root).heard();
            if StreamInfo::differs(self.info(root).await?, known) {
                return Ok(());
            }
            heard.await;
        }
    }

    async fn condense(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        self.change(root, |log| log.condense(up_to))
    }

    async fn trim(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        self.change(root, |log| log.trim(up_to))
    }
}

#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
impl StreamLog for MemoryLog {
    async fn relay(
        &self,
        root: &SessionId,
        entries: &[(u64, OutboxEntry)],
    ) -> Result<Option<Sequence>, StreamError> {
        let end = {
            let mut inner = self.lock();
            let logged = inner.entry(root.clone()).or_default();
            for (number, entry) in entries {
                logged.take(*number, entry);
            }
            let last = entries.last().map(|(number, _)| *number);
            let is_last = last == Some(logged.relayed) && !logged.lacks_status;
            let end = logged.positions.back().filter(|_| is_last);
            end.map(|(_, position)| *position)
        };
        self.notifiers.of(root).ring();
        Ok(end)
    }

    async fn position(
        &self,
        root: &SessionId,
        number: u64,
    ) -> Result<Option<Sequence>, StreamError> {
        let inner = self.lock();
        let logged = inner.get(root);
        let known = logged.and_then(|logged| logged.positions.iter().find(|(n, _)| *n == number));
        Ok(known.map(|(_, position)| *position))
    }

    async fn seen(&self, root: &SessionId) -> Result<Option<OutboxPosition>, StreamError> {
        let inner = self.lock();
        Ok(inner.get(root).and_then(Logged::seen))
    }

    async fn repair(
        &self,
        root: &SessionId,
        seen: Option<OutboxPosition>,
        repair: Option<&StreamRepair>,
    ) -> Result<bool, StreamError> {
        let is_as_seen = {
            let mut inner = self.lock();
            let logged = inner.entry(root.clone()).or_default();
            let is_as_seen = logged.seen() == seen;
            match repair.filter(|_| is_as_seen) {
                Some(repair) => {
                    let OutboxPosition {
                        incarnation,
                        number,
                    } = repair.position;
                    if logged.position() != Some(repair.position) {
                        logged.incarnation = incarnation;
                        logged.relayed = number;
                        logged.begin_anew(number);
                    }
                    if std::mem::take(&mut logged.lacks_status) {
                        logged.log().status = repair.status;
                    }
                    logged.gates.extend(repair.gates.clone());
                }
                None if is_as_seen => {
                    logged.log = None;
                    logged.gates.clear();
                    logged.lacks_status = false;
                }
                None => {}
            }
            is_as_seen
        };
        self.notifiers.of(root).ring();
        Ok(is_as_seen)
    }

    /// A stream in memory loses nothing while somebody waits.
    async fn changed_or_quiet(
        &self,
        root: &SessionId,
        known: Option<StreamInfo>,
    ) -> Result<bool, StreamError> {
        self.changed(root, known).await?;
        Ok(true)
    }
}
