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

/// About how many bytes are sent together.
const PIECE_BYTES: usize = 32 * 1024;

/// What a reader is sent; an error breaks its connection off.
type Piece = Result<Bytes, ApiError>;

/// Why nothing more is sent.
enum Stop {
    /// The reader is gone, or was told that nothing more comes.
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

    /// Sends until the stream ends, the reader goes, or the server closes. What is closed by the
    /// server has no end frame: to its reader it is a drop, and it comes back elsewhere.
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
            // The reader may be gone already.
            let _ = self.send.send(Err(error)).await;
        }
    }

    async fn pump(&mut self) -> Stop {
        loop {
            if let Err(stop) = self.read_to_the_end().await {
                return stop;
            }
            match self.end().await {
                Ok(true) => return Stop::Done,
                // A run was started in the meantime; it is read too.
                Ok(false) => {}
                Err(stop) => return stop,
            }
        }
    }

    /// Sends what there is and what comes, until nothing more comes for now.
    async fn read_to_the_end(&mut self) -> Result<(), Stop> {
        if !self.has_run {
            return Ok(());
        }
        let streams = Arc::clone(self.app.streams());
        let mut reader = StreamReader::new(Arc::clone(&streams), self.root.clone(), self.cursor);
        if let Some(stream) = self.stream {
            reader = reader.of(stream);
        }
        let mut frames = Frames::default();
        loop {
            let until = Instant::now() + self.app.keep_alive;
            let Ok(item) = timeout_at(until, reader.next()).await else {
                self.still_there().await?;
                self.send(Bytes::from_static(KEEP_ALIVE)).await?;
                continue;
            };
            let is_over = match item? {
                Some(StreamItem::Chunk(stored)) => {
                    frames.chunk(&stored).map_err(|error| unwritten(&error))?;
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

    /// Says that the stream is gone: there is no end that could be told, and what another stream of
    /// that name holds is not for this reader.
    async fn gone(&self, mut frames: Frames, now: Option<Incarnation>) -> Result<(), Stop> {
        frames.gone(now);
        let (chunks, bytes) = frames.take();
        self.send(bytes).await?;
        self.app.metrics.chunks_sent(chunks);
        Err(Stop::Done)
    }

    /// The session, unless it was removed.
    async fn still_there(&self) -> Result<Snapshot, Stop> {
        let found = self
            .app
            .store()
            .load(SessionKey::new(&self.root, &self.session))
            .await?;
        let gone = || ApiError::not_found("the session was removed while it was read");
        Ok(found.ok_or_else(gone)?)
    }

    /// Sends the end, unless there is more after all.
    async fn end(&mut self) -> Result<bool, Stop> {
        let found = self.still_there().await?;
        self.has_run = found.run.is_some();
        // Looked at after the session: what happened between the two is read first, and a session
        // that somebody made anew has another stream.
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
            .map_err(|error| unwritten(&error))?;
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

fn unwritten(error: &serde_json::Error) -> ApiError {
    ApiError::internal(format!("a chunk cannot be written as JSON: {error}"))
}
