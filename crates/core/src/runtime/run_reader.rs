//! Reads what one run says, and no more.

use std::sync::Arc;

use super::backend::{Started, started};
use super::{Backend, RuntimeError, StartedRun};
use crate::session::{RunRecord, RunStatus};
use crate::store::{Lookup, SessionStore};
use crate::stream::{
    Chunk, ChunkPayload, ReadOutcome, Sequence, StreamItem, StreamReader, StreamStatus,
};

/// Reads the chunks of one run as they come, and ends when the run has ended, whatever else happens
/// in its session meanwhile or afterwards. Made by [`Handle::reader`](super::Handle::reader).
///
/// It gives the chunks of the run, and, when its session is a root, those of the session's children
/// while the run goes on. It owns what it needs.
#[derive(Debug)]
pub struct RunReader {
    store: Arc<dyn SessionStore>,
    run: StartedRun,
    reader: StreamReader,
    /// Whether it begins where the run does, and has not looked yet where that is.
    from_start: bool,
    is_root: bool,
    /// How the run ended, once that is known. What it said before is in the stream then.
    outcome: Option<RunRecord>,
    /// Whether the session's next run was seen to start: then this one has ended.
    overtaken: bool,
    ended: bool,
}

impl RunReader {
    /// Reads a run from a place on; without one, from where the run begins.
    #[must_use]
    pub fn new(backend: &Backend, run: StartedRun, after: Option<Sequence>) -> Self {
        let streams = Arc::clone(&backend.streams);
        let store = Arc::clone(&backend.store);
        let root = run.root_session_id.clone();
        Self {
            store: Arc::clone(&store),
            from_start: after.is_none(),
            is_root: run.key().is_root(),
            reader: StreamReader::new(streams, store, root, after.unwrap_or_default()),
            run,
            outcome: None,
            overtaken: false,
            ended: false,
        }
    }

    pub(super) fn run(&self) -> &StartedRun {
        &self.run
    }

    /// How the run ended, once the reader has come to its end.
    #[must_use]
    pub(crate) fn outcome(&self) -> Option<&RunRecord> {
        self.outcome.as_ref()
    }

    /// The sequence up to which the stream was read.
    #[must_use]
    pub fn cursor(&self) -> Sequence {
        self.reader.cursor()
    }

    /// The next item; `None` after the end of the run, and when its stream is gone. Safe to drop
    /// while it waits: nothing is lost.
    ///
    /// # Errors
    /// When the stream or the store cannot be read. The reader can be asked again.
    pub async fn next(&mut self) -> Result<Option<StreamItem>, RuntimeError> {
        self.find_start().await?;
        while !self.ended {
            if self.overtaken {
                let run = self.record().await?;
                return Ok(match run {
                    Some(run) => self.end(run),
                    None => self.gone(),
                });
            }
            match self.reader.step().await? {
                ReadOutcome::Item(item) => {
                    if let Some(item) = self.taken(item).await? {
                        return Ok(Some(item));
                    }
                }
                ReadOutcome::Drained(info) => {
                    if let Some(run) = self.outcome.take() {
                        return Ok(self.end(run));
                    }
                    match self.started().await? {
                        Started::Unknown => return Ok(self.gone()),
                        // What it said last may have come after the last look.
                        Started::Run(run) if run.status.is_ended() => {
                            self.outcome = Some(*run);
                        }
                        Started::Run(_) | Started::Waits => self.reader.wait(info).await?,
                    }
                }
            }
        }
        Ok(None)
    }

    /// The next item that is in the stream already; `None` when there is none. For a run that stands
    /// still: what it said before is not waited for.
    ///
    /// # Errors
    /// As [`RunReader::next`].
    pub async fn next_at_hand(&mut self) -> Result<Option<StreamItem>, RuntimeError> {
        self.find_start().await?;
        while !self.ended && !self.overtaken {
            let ReadOutcome::Item(item) = self.reader.step().await? else {
                return Ok(None);
            };
            if let Some(item) = self.taken(item).await? {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    /// An item, if it is for whoever reads this run.
    async fn taken(&mut self, item: StreamItem) -> Result<Option<StreamItem>, RuntimeError> {
        let StreamItem::Chunk(stored) = &item else {
            self.ended = matches!(item, StreamItem::Gone { .. });
            return Ok(Some(item));
        };
        match self.whose(&stored.chunk) {
            Whose::Ours => return Ok(Some(item)),
            Whose::Others => {}
            Whose::Another => self.overtaken = self.came_before(stored.sequence).await?,
        }
        Ok(None)
    }

    fn whose(&self, chunk: &Chunk) -> Whose {
        let base = &chunk.base;
        if base.run_id == self.run.run_id {
            return Whose::Ours;
        }
        if base.session_id == self.run.session_id {
            return match chunk.payload {
                ChunkPayload::RunStarted { .. } => Whose::Another,
                _ => Whose::Others,
            };
        }
        if self.is_root {
            Whose::Ours
        } else {
            Whose::Others
        }
    }

    /// Goes to where the run begins, if it is to begin there. A run that has not started yet is waited for.
    async fn find_start(&mut self) -> Result<(), RuntimeError> {
        let mut known = None;
        while self.from_start {
            let start = match self.started().await? {
                Started::Run(run) => run.start_sequence,
                Started::Unknown => 0,
                Started::Waits => {
                    // The stream is looked at before the run is: its start is not missed.
                    match known.take() {
                        Some(known) => self.reader.wait(known).await?,
                        None => known = Some(self.reader.info().await?),
                    }
                    continue;
                }
            };
            self.reader.skip_to(Sequence(start));
            self.from_start = false;
        }
        Ok(())
    }

    fn end(&mut self, run: RunRecord) -> Option<StreamItem> {
        self.ended = true;
        let status = status(run.status);
        self.outcome = Some(run);
        Some(StreamItem::End(status))
    }

    /// The session was removed, and its stream with it.
    fn gone(&mut self) -> Option<StreamItem> {
        self.ended = true;
        Some(StreamItem::Gone { now: None })
    }

    /// Whether the run began before this place, where another of its session begins. They come one
    /// after another, so it has ended then.
    async fn came_before(&self, place: Sequence) -> Result<bool, RuntimeError> {
        Ok(match self.started().await? {
            Started::Run(run) => run.start_sequence < place.0,
            Started::Waits => false,
            Started::Unknown => true,
        })
    }

    async fn started(&self) -> Result<Started, RuntimeError> {
        Ok(started(&*self.store, self.run.key(), &self.run.run_id).await?)
    }

    async fn record(&self) -> Result<Option<RunRecord>, RuntimeError> {
        let run = Lookup::One(self.run.run_id.clone());
        let found = self.store.runs(self.run.key(), run).await?;
        Ok(found.items.into_iter().next())
    }
}

/// Whose chunk it is.
enum Whose {
    Ours,
    Others,
    /// The beginning of another run of the same session.
    Another,
}

/// The status of a stream whose latest run ended with this status.
fn status(run: RunStatus) -> StreamStatus {
    match run {
        RunStatus::Failed => StreamStatus::Failed,
        RunStatus::Completed | RunStatus::Interrupted | RunStatus::Running => StreamStatus::Ended,
        _ => StreamStatus::Paused,
    }
}
