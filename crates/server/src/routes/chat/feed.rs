//! Moves a bubble from the store to one client.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use helix_agents_core::ApprovalId;
use helix_agents_core::runtime::{RunReader, StartedRun};
use helix_agents_core::session::{RunRecord, RunStatus};
use helix_agents_core::store::{Lookup, SessionKey};
use helix_agents_core::stream::{Sequence, StoredChunk, StreamItem, StreamReader};
use helix_agents_wire::{
    DataChunk, FinishReason, SSE_HEADERS, SseWriter, StreamTransformer, ToolKinds,
    TransformerOptions, UiChunk,
};
use serde_json::json;
use tokio::sync::mpsc::{self, Sender};
use tokio::time::{Instant, timeout_at};

use super::bubble::Bubble;
use super::calls::Calls;
use crate::ApiError;
use crate::builder::App;
use crate::serve::Closing;
use crate::view::{PendingView, all_pending, answered_calls};

/// The approximate number of bytes that are sent together.
const PIECE_BYTES: usize = 32 * 1024;
/// The number of pieces that are buffered for a client.
const AHEAD: usize = 2;
/// The comment that keeps an idle stream open.
const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// A piece of the response body; an error closes the connection.
type Piece = Result<Bytes, ApiError>;

/// What a client is sent.
#[derive(Debug, Clone)]
pub(super) enum Feed {
    /// A bubble, up to the end of this run.
    Bubble(BubbleFeed),
    /// These chunks and nothing else.
    Chunks(Vec<UiChunk>),
}

/// A bubble, up to the end of a run.
#[derive(Debug, Clone)]
pub(super) struct BubbleFeed {
    /// The run to whose end it is read. It may not have started yet.
    pub(super) run: StartedRun,
    /// Whether the client is told which message this is; without, it goes on where it is.
    pub(super) start: Start,
    /// What the client has: nothing up to here is sent.
    pub(super) seen: Option<Sequence>,
    /// Up to here the stream is the past, in which only these requests for approval are open.
    pub(super) past: Option<(Sequence, Vec<ApprovalId>)>,
    /// The calls that the client has of the message that it goes on with; `None` if it has all that it was told.
    pub(super) calls: Option<Box<Calls>>,
    /// What is told first.
    pub(super) first: Vec<UiChunk>,
}

/// How a stream begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Start {
    /// With the message's own id.
    OwnId,
    /// With the id that the client knows it by.
    Named(String),
    /// Without a start: the client goes on with the message that it has.
    Nothing,
}

impl BubbleFeed {
    /// A bubble from its beginning on.
    pub(super) fn whole(run: StartedRun) -> Self {
        Self {
            run,
            start: Start::OwnId,
            seen: None,
            past: None,
            calls: None,
            first: Vec::new(),
        }
    }
}

impl Feed {
    /// Answers a request with the stream.
    pub(super) fn answer(
        self,
        app: &App,
        session: &str,
        closing: Option<Extension<Closing>>,
    ) -> Response {
        let closing = closing
            .map(|Extension(closing)| closing)
            .unwrap_or_default();
        let (send, receive) = mpsc::channel(AHEAD);
        let pump = Pump::new(app.clone(), send);
        tokio::spawn(pump.run(self, closing));
        let pieces = stream::unfold(receive, async |mut receive| {
            let piece = receive.recv().await?;
            Some((piece, receive))
        });
        let mut response = Body::from_stream(pieces).into_response();
        let headers = response.headers_mut();
        for (name, value) in SSE_HEADERS {
            headers.insert(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        if let Ok(session) = HeaderValue::from_str(session) {
            headers.insert(SESSION_ID, session);
        }
        response
    }
}

/// The header that names the session of a chat.
const SESSION_ID: HeaderName = HeaderName::from_static("x-session-id");

/// The reason why sending stops.
enum Stop {
    /// The client has everything, or is gone.
    Done,
    /// The stream cannot be read.
    Broken(ApiError),
}

impl<E: Into<ApiError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Broken(error.into())
    }
}

/// What a client has of a bubble.
struct Seen {
    /// Nothing up to here is sent.
    up_to: Sequence,
    /// Whether the step that is open there was ended for the client.
    ends_step: bool,
}

struct Pump {
    app: App,
    writer: SseWriter,
    chunks: u64,
    calls: Option<Box<Calls>>,
    send: Sender<Piece>,
}

impl Pump {
    fn new(app: App, send: Sender<Piece>) -> Self {
        app.metrics.stream_opened();
        Self {
            app,
            writer: SseWriter::default(),
            chunks: 0,
            calls: None,
            send,
        }
    }

    /// Sends until the run has ended, the client is gone, or the server shuts down. A stream that cannot go on breaks
    /// off: a body that ends neatly would say that the message is complete.
    async fn run(mut self, feed: Feed, closing: Closing) {
        let send = self.send.clone();
        let stop = tokio::select! {
            biased;
            () = closing.closed() => Stop::Broken(ApiError::overloaded("the server shuts down; connect again")),
            () = send.closed() => return,
            stop = self.pump(feed) => match stop {
                Ok(()) => Stop::Done,
                Err(stop) => stop,
            },
        };
        if let Stop::Broken(error) = stop {
            tracing::debug!(event = "chat.broken", %error);
            // The client may be gone.
            let _ = self.send.send(Err(error)).await;
        }
    }

    async fn pump(&mut self, feed: Feed) -> Result<(), Stop> {
        match feed {
            Feed::Chunks(chunks) => self.write(&chunks, None)?,
            Feed::Bubble(feed) => self.bubble(feed).await?,
        }
        self.writer.done();
        self.flush().await
    }

    async fn bubble(&mut self, feed: BubbleFeed) -> Result<(), Stop> {
        self.calls = feed.calls;
        let backend = self.app.runtime.backend();
        let (streams, store) = (Arc::clone(&backend.streams), Arc::clone(&backend.store));
        let mut reader = RunReader::new(backend, feed.run.clone(), None);
        // A run that waits for the end of another has no bubble before it starts.
        let mut held = VecDeque::new();
        while held.is_empty() {
            match self.next(reader.next()).await? {
                Some(item) => held.push_back(item),
                None => return self.gone(),
            }
        }
        let Some(run) = self.record(&feed.run).await? else {
            return self.gone();
        };
        let bubble = Bubble::of(&run);
        let tools = ToolKinds::of_agents(self.app.runtime.agents());
        let mut options = TransformerOptions::new(feed.run.session_id.clone()).tools(tools);
        if let Some((up_to, open)) = feed.past {
            options = options.replaying(up_to, open);
        }
        if let (Start::Nothing, Some(seen)) = (&feed.start, feed.seen) {
            options = options.continuing(seen);
        }
        let mut transformer = StreamTransformer::new(options);
        let was_told = feed.seen.is_some() && matches!(feed.start, Start::Named(_));
        let start = match feed.start {
            Start::OwnId => Some(transformer.start(bubble.id)),
            Start::Named(id) => Some(transformer.start(id)),
            Start::Nothing => None,
        };
        self.write(start.as_slice(), None)?;
        self.write(&feed.first, None)?;
        let mut seen = Seen {
            up_to: feed.seen.unwrap_or(bubble.after),
            // The message that is continued was told to its end, which closed the step.
            ends_step: was_told,
        };

        // What earlier runs of the turn said.
        let own = Sequence(run.start_sequence);
        if bubble.after < own {
            let root = feed.run.root_session_id.clone();
            let mut before = StreamReader::new(streams, store, root, bubble.after);
            while let Some(item) = self.next(before.next()).await? {
                match item {
                    StreamItem::Chunk(stored) if stored.sequence <= own => {
                        self.chunk(&mut transformer, &stored, &mut seen)?;
                        if before.fetched() == 0 || self.writer.len() >= PIECE_BYTES {
                            self.flush().await?;
                        }
                    }
                    StreamItem::Trimmed { up_to } if up_to < own => {}
                    _ => break,
                }
            }
        }
        loop {
            let item = match held.pop_front() {
                Some(item) => Some(item),
                None => match reader.next_at_hand().await? {
                    Some(item) => Some(item),
                    None => {
                        self.flush().await?;
                        self.next(reader.next()).await?
                    }
                },
            };
            match item {
                Some(StreamItem::Chunk(stored)) => {
                    self.chunk(&mut transformer, &stored, &mut seen)?;
                }
                Some(StreamItem::Trimmed { .. }) => {}
                Some(StreamItem::End(_)) => break,
                _ => return self.gone(),
            }
            if self.writer.len() >= PIECE_BYTES {
                self.flush().await?;
            }
        }
        self.end(&mut transformer, &feed.run).await
    }

    /// Ends the message as its run has ended.
    async fn end(
        &mut self,
        transformer: &mut StreamTransformer,
        run: &StartedRun,
    ) -> Result<(), Stop> {
        let Some(record) = self.record(run).await? else {
            return self.gone();
        };
        let mut last = Vec::new();
        let reason = match record.status {
            RunStatus::Completed => FinishReason::Stop,
            RunStatus::Failed => {
                if let Some(error) = &record.error {
                    last.extend(transformer.fail(&error.message, error.code.as_str()));
                }
                FinishReason::Error
            }
            status if status.is_suspended() => {
                let store = self.app.store();
                let calls = all_pending(store, &run.root_session_id).await?;
                last.extend(transformer.end_step());
                let key = SessionKey::new(&run.root_session_id, &run.session_id);
                if let Some(found) = store.load(key).await? {
                    let answered = answered_calls(store, &found.state, &calls).await?;
                    last.extend(answered.iter().flat_map(|call| transformer.answered(call)));
                }
                let calls: Vec<_> = calls.into_iter().map(PendingView::from).collect();
                last.push(DataChunk::transient("pending", json!(calls)).into());
                FinishReason::ToolCalls
            }
            _ => FinishReason::Other,
        };
        last.extend(transformer.finalize(reason));
        self.write(&last, None)
    }

    /// The session was removed while it was read.
    fn gone(&mut self) -> Result<(), Stop> {
        let error_text = "The conversation was deleted.".to_owned();
        self.write(&[UiChunk::Error { error_text }], None)
    }

    fn chunk(
        &mut self,
        transformer: &mut StreamTransformer,
        stored: &StoredChunk,
        seen: &mut Seen,
    ) -> Result<(), Stop> {
        let is_new = stored.sequence > seen.up_to;
        if is_new && std::mem::take(&mut seen.ends_step) {
            transformer.end_step();
        }
        let chunks = transformer.transform(stored);
        if is_new {
            self.write(&chunks, Some(stored.sequence))?;
            self.chunks += 1;
        }
        Ok(())
    }

    fn write(&mut self, chunks: &[UiChunk], sequence: Option<Sequence>) -> Result<(), Stop> {
        let taken: Vec<_>;
        let chunks = match &mut self.calls {
            Some(calls) => {
                let can_take = |chunk: &&UiChunk| calls.take(chunk);
                taken = chunks.iter().filter(can_take).cloned().collect();
                &taken
            }
            None => chunks,
        };
        self.writer.chunks(chunks, sequence).map_err(|error| {
            ApiError::internal(format!("a chunk cannot be written as JSON: {error}")).into()
        })
    }

    async fn record(&self, run: &StartedRun) -> Result<Option<RunRecord>, Stop> {
        let key = SessionKey::new(&run.root_session_id, &run.session_id);
        let which = Lookup::One(run.run_id.clone());
        let found = self.app.store().runs(key, which).await?;
        Ok(found.items.into_iter().next())
    }

    /// Waits for the next item, and keeps the connection open meanwhile.
    async fn next<T, E>(
        &mut self,
        item: impl Future<Output = Result<Option<T>, E>>,
    ) -> Result<Option<T>, Stop>
    where
        Stop: From<E>,
    {
        let mut item = std::pin::pin!(item);
        loop {
            let until = Instant::now() + self.app.keep_alive.max(Duration::from_millis(1));
            match timeout_at(until, &mut item).await {
                Ok(item) => return Ok(item?),
                Err(_) => {
                    let alive = Ok(Bytes::from_static(KEEP_ALIVE));
                    self.send.send(alive).await.map_err(|_| Stop::Done)?;
                }
            }
        }
    }

    /// Sends what was written.
    async fn flush(&mut self) -> Result<(), Stop> {
        if self.writer.is_empty() {
            return Ok(());
        }
        let bytes = Bytes::from(self.writer.take());
        self.send.send(Ok(bytes)).await.map_err(|_| Stop::Done)?;
        self.app
            .metrics
            .chunks_sent(std::mem::take(&mut self.chunks));
        Ok(())
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.app.metrics.stream_closed();
    }
}
