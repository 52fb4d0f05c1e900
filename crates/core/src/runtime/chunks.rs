//! The chunks of a run or of a session, as a stream that owns what it needs.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::{Backend, RunReader, Runtime, RuntimeError};
use crate::error::Error;
use crate::id::SessionId;
use crate::session::RunRecord;
use crate::store::{SessionStore, StoreError};
use crate::stream::{
    Sequence, StoredChunk, StreamError, StreamItem, StreamManager, StreamReader, StreamStatus,
};

#[cfg(not(target_arch = "wasm32"))]
type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;
#[cfg(target_arch = "wasm32")]
type Pending<T> = Pin<Box<dyn Future<Output = T>>>;

/// Everything that a reader of a run or of a session is told, in order, each chunk with its sequence.
///
/// It ends when the run has ended, or, for a session, when nothing more comes for now. A failure to
/// read is its last item: `runtime.chunks(&session, stream.cursor())` continues after what was read. It
/// borrows nothing, so it can be the body of an answer.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::ChunkPayload;
///
/// async fn follow(runtime: &dyn Runtime, session: &SessionId, seen: u64) -> Result<(), Error> {
///     let mut chunks = runtime.chunks(session, seen);
///     while let Some(stored) = chunks.next().await {
///         let stored = stored?;
///         if let ChunkPayload::TextDelta { delta } = &stored.chunk.payload {
///             println!("{}: {delta}", stored.sequence);
///         }
///     }
///     Ok(())
/// }
/// ```
pub struct ChunkStream {
    state: State,
    cursor: Sequence,
    trimmed: Option<Sequence>,
    status: Option<StreamStatus>,
    run: Option<RunRecord>,
}

/// A source, and what it gave.
type Read = (Box<Source>, Result<Option<StreamItem>, Error>);

enum State {
    Idle(Box<Source>),
    Reading(Pending<Read>),
    Failed(Error),
    Over,
}

enum Source {
    Run {
        reader: Box<RunReader>,
        /// Resolves when nobody here performs the run any more.
        ended: Option<Pending<Result<RunRecord, RuntimeError>>>,
        /// Why it stands still, once it does. What it said before is still to be read.
        left: Option<RuntimeError>,
    },
    Session {
        store: Arc<dyn SessionStore>,
        streams: Arc<dyn StreamManager>,
        session: SessionId,
        after: Sequence,
        reader: Option<Box<StreamReader>>,
    },
}

impl ChunkStream {
    pub(super) fn of_run(runtime: Arc<dyn Runtime>, reader: RunReader) -> Self {
        let run = reader.run().clone();
        let ended: Pending<_> = Box::pin(async move { runtime.ended(&run).await });
        Self::of(Source::Run {
            reader: Box::new(reader),
            ended: Some(ended),
            left: None,
        })
    }

    pub(super) fn of_session(backend: &Backend, session: SessionId, after: Sequence) -> Self {
        Self::of(Source::Session {
            store: Arc::clone(&backend.store),
            streams: Arc::clone(&backend.streams),
            session,
            after,
            reader: None,
        })
    }

    pub(super) fn failed(error: Error) -> Self {
        Self::new(State::Failed(error))
    }

    fn of(source: Source) -> Self {
        Self::new(State::Idle(Box::new(source)))
    }

    fn new(state: State) -> Self {
        Self {
            state,
            cursor: Sequence::START,
            trimmed: None,
            status: None,
            run: None,
        }
    }

    /// The sequence of the last chunk that was given.
    #[must_use]
    pub fn cursor(&self) -> Sequence {
        self.cursor
    }

    /// The last sequence of those that were asked for and are not kept any more.
    #[must_use]
    pub fn trimmed(&self) -> Option<Sequence> {
        self.trimmed
    }

    /// Why nothing more comes, after the end: the turn is over, failed, or waits for somebody.
    #[must_use]
    pub fn status(&self) -> Option<StreamStatus> {
        self.status
    }

    /// The record of the run, after its end.
    pub(super) fn run(&self) -> Option<&RunRecord> {
        self.run.as_ref()
    }
}

impl Stream for ChunkStream {
    type Item = Result<StoredChunk, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            let mut reading = match std::mem::replace(&mut this.state, State::Over) {
                State::Over => return Poll::Ready(None),
                State::Failed(error) => return Poll::Ready(Some(Err(error))),
                State::Idle(mut source) => Box::pin(async move {
                    let item = source.next().await;
                    (source, item)
                }) as Pending<_>,
                State::Reading(reading) => reading,
            };
            let Poll::Ready((source, item)) = reading.as_mut().poll(cx) else {
                this.state = State::Reading(reading);
                return Poll::Pending;
            };
            match item {
                Ok(Some(StreamItem::Chunk(chunk))) => {
                    this.cursor = chunk.sequence;
                    this.state = State::Idle(source);
                    return Poll::Ready(Some(Ok(chunk)));
                }
                Ok(Some(StreamItem::Trimmed { up_to })) => {
                    this.trimmed = Some(up_to);
                    this.state = State::Idle(source);
                }
                Ok(Some(StreamItem::End(status))) => {
                    this.status = Some(status);
                    this.run = source.outcome();
                }
                Ok(Some(StreamItem::Gone { .. })) => {
                    let session = source.session().clone();
                    let error = StoreError::NotFound { session };
                    return Poll::Ready(Some(Err(error.into())));
                }
                Ok(None) => {}
                Err(error) => {
                    let error = error.in_session(source.session());
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

impl Source {
    fn session(&self) -> &SessionId {
        match self {
            Self::Run { reader, .. } => &reader.run().session_id,
            Self::Session { session, .. } => session,
        }
    }

    fn outcome(&self) -> Option<RunRecord> {
        match self {
            Self::Run { reader, .. } => reader.outcome().cloned(),
            Self::Session { .. } => None,
        }
    }

    async fn next(&mut self) -> Result<Option<StreamItem>, Error> {
        match self {
            Self::Run {
                reader,
                ended,
                left,
            } => next_of_run(reader, ended, left).await,
            Self::Session {
                store,
                streams,
                session,
                after,
                reader,
            } => {
                let found = match reader {
                    Some(reader) => reader,
                    None => {
                        let found = store.find(session).await?;
                        let found = found.ok_or_else(|| StoreError::NotFound {
                            session: session.clone(),
                        })?;
                        let root = found.state.root().clone();
                        let made =
                            StreamReader::new(Arc::clone(streams), Arc::clone(store), root, *after);
                        reader.insert(Box::new(made))
                    }
                };
                next_of_session(found, session).await.map_err(Error::from)
            }
        }
    }
}

/// The next item of a run. When nobody performs the run any more and it has not ended, what it said
/// before, and then the reason.
async fn next_of_run(
    reader: &mut RunReader,
    ended: &mut Option<Pending<Result<RunRecord, RuntimeError>>>,
    left: &mut Option<RuntimeError>,
) -> Result<Option<StreamItem>, Error> {
    if left.is_none() {
        let mut next = pin!(reader.next());
        let item = poll_fn(|cx| {
            if let Poll::Ready(item) = next.as_mut().poll(cx) {
                return Poll::Ready(Some(item));
            }
            let Some(Poll::Ready(record)) = ended.as_mut().map(|ended| ended.as_mut().poll(cx))
            else {
                return Poll::Pending;
            };
            *ended = None;
            match record {
                Ok(_) => Poll::Pending,
                Err(error) => {
                    *left = Some(error);
                    Poll::Ready(None)
                }
            }
        });
        if let Some(item) = item.await {
            return Ok(item?);
        }
    }
    if let Some(item) = reader.next_at_hand().await? {
        return Ok(Some(item));
    }
    match left.take() {
        Some(error) => Err(error.into()),
        None => Ok(None),
    }
}

/// The next item of a session: of a root, those of its children, too.
async fn next_of_session(
    reader: &mut StreamReader,
    session: &SessionId,
) -> Result<Option<StreamItem>, StreamError> {
    loop {
        let item = reader.next().await?;
        match &item {
            Some(StreamItem::Chunk(stored))
                if reader.root() != session && stored.chunk.base.session_id != *session => {}
            _ => return Ok(item),
        }
    }
}

impl fmt::Debug for ChunkStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkStream")
            .field("cursor", &self.cursor)
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}
