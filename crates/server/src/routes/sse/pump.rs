//! Moves a session's chunks from the store to one reader.

use std::sync::Arc;

use axum::body::Bytes;
use helix_agents_core::SessionId;
use helix_agents_core::store::{SessionKey, Snapshot};
use helix_agents_core::stream::{Incarnation, Sequence, StreamItem, StreamReader, StreamStatus};
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, timeout_at};

use super::frames::{Frames, KEEP_ALIVE};
use crate::ApiError;
use crate::builder::App;
use crate::serve::Closing;
use crate::view::OutcomeView;

/// The approximate number of bytes that are sent together.
const PIECE_BYTES: usize = 32 * 1024;

/// A piece of the response body; an error closes the connection.
type Piece = Result<Bytes, ApiError>;

/// The reason why sending stops.
enum Stop {
    /// The reader disconnected, or was told that the stream ended.
    Done,
    /// The stream cannot be read.
    Broken(ApiError),
}

impl<E: Into<ApiError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Broken(error.into())
    }
}

/// Moves a session's chunks from the store to one reader.
pub(super) struct Pump {
    app: App,
    session: SessionId,
    root: SessionId,
    has_run: bool,
    /// The stream that is read, once there is one.
    stream: Option<Incarnation>,
    cursor: Sequence,
    send: Sender<Piece>,
}

impl Pump {
    pub(super) fn new(
        app: App,
        found: &Snapshot,
        stream: Option<Incarnation>,
        after: Sequence,
        send: Sender<Piece>,
    ) -> Self {
        app.metrics.stream_opened();
        Self {
            app,
            session: found.state.session_id.clone(),
            root: found.state.root().clone(),
            has_run: found.run.is_some(),
            stream,
            cursor: after,
            send,
        }
    }

    /// Sends until the stream ends, the reader disconnects, or the server shuts down. In the last
    /// case there is no end frame, so that the reader reconnects.
    pub(super) async fn run(mut self, closing: Closing) {
        let send = self.send.clone();
        let stop = tokio::select! {
            biased;
            () = closing.closed() => return,
            () = send.closed() => return,
            stop = self.pump() => stop,
        };
        if let Stop::Broken(error) = stop {
            tracing::warn!(event = "sse.broken", session = %self.session, %error);
            // The reader may have disconnected.
            let _ = self.send.send(Err(error)).await;
        }
    }

    async fn pump(&mut self) -> Stop {
        loop {
            if let Err(stop) = self.send_available().await {
                return stop;
            }
            match self.end().await {
                Ok(true) => return Stop::Done,
                // Another run was started meanwhile; it is sent too.
                Ok(false) => {}
                Err(stop) => return stop,
            }
        }
    }

    /// Sends stored and new chunks, until no run is active.
    async fn send_available(&mut self) -> Result<(), Stop> {
        if !self.has_run {
            return Ok(());
        }
        let streams = Arc::clone(self.app.streams());
        let store = Arc::clone(&self.app.runtime.backend().store);
        let mut reader =
            StreamReader::new(Arc::clone(&streams), store, self.root.clone(), self.cursor);
        if let Some(stream) = self.stream {
            reader = reader.of(stream);
        }
        let mut frames = Frames::default();
        loop {
            let until = Instant::now() + self.app.keep_alive;
            let Ok(item) = timeout_at(until, reader.next()).await else {
                self.load_session().await?;
                self.send(Bytes::from_static(KEEP_ALIVE)).await?;
                continue;
            };
            let is_over = match item? {
                Some(StreamItem::Chunk(stored)) => {
                    frames
                        .chunk(&stored)
                        .map_err(|error| serialization_error(&error))?;
                    false
                }
                Some(StreamItem::Trimmed { up_to }) => {
                    frames.trimmed(up_to);
                    false
                }
                Some(StreamItem::Gone { now }) => return self.gone(frames, now).await,
                _ => true,
            };
            self.cursor = reader.cursor();
            self.stream = reader.incarnation();
            let is_piece = reader.fetched() == 0 || frames.len() >= PIECE_BYTES;
            if (is_over || is_piece) && !frames.is_empty() {
                let (chunks, bytes) = frames.take();
                self.send(bytes).await?;
                self.app.metrics.chunks_sent(chunks);
            }
            if is_over {
                return Ok(());
            }
        }
    }

    /// Tells the reader that the stream was deleted: it has no outcome, and a new stream of the
    /// same name is not for this reader.
    async fn gone(&self, mut frames: Frames, now: Option<Incarnation>) -> Result<(), Stop> {
        frames.gone(now);
        let (chunks, bytes) = frames.take();
        self.send(bytes).await?;
        self.app.metrics.chunks_sent(chunks);
        Err(Stop::Done)
    }

    /// Returns the session, or an error if it was deleted.
    async fn load_session(&self) -> Result<Snapshot, Stop> {
        let found = self
            .app
            .store()
            .load(SessionKey::new(&self.root, &self.session))
            .await?;
        let gone = || ApiError::not_found("the session was deleted while it was read");
        Ok(found.ok_or_else(gone)?)
    }

    /// Sends the outcome, unless there are more chunks; returns whether it did.
    async fn end(&mut self) -> Result<bool, Stop> {
        let found = self.load_session().await?;
        self.has_run = found.run.is_some();
        // Read after the session: chunks written between the two reads are sent first, and a
        // session that was deleted and created again has another stream.
        let streams = self.app.streams();
        let info = streams.info(&self.root).await?;
        let now = info.map(|info| info.incarnation);
        if self.stream.is_some() && self.stream != now {
            self.gone(Frames::default(), now).await?;
        }
        if self.has_run {
            let is_active = info.is_some_and(|info| info.status == StreamStatus::Active);
            if is_active || !streams.read(&self.root, self.cursor, 1).await?.is_empty() {
                return Ok(false);
            }
        }
        let mut frames = Frames::default();
        frames
            .end(&OutcomeView::of(&found))
            .map_err(|error| serialization_error(&error))?;
        self.send(frames.take().1).await?;
        Ok(true)
    }

    async fn send(&self, bytes: Bytes) -> Result<(), Stop> {
        self.send.send(Ok(bytes)).await.map_err(|_| Stop::Done)
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        self.app.metrics.stream_closed();
    }
}

fn serialization_error(error: &serde_json::Error) -> ApiError {
    ApiError::internal(format!("a chunk cannot be written as JSON: {error}"))
}
