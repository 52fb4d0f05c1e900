//! The text of a run with its corrections, as a stream that owns what it needs.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::ChunkStream;
use crate::error::Error;
use crate::id::RunId;
use crate::stream::ChunkPayload;

/// A change to the text that a reader of a run shows.
///
/// ```
/// use helix_agents::TextEvent;
///
/// fn apply(event: TextEvent, shown: &mut String) {
///     match event {
///         TextEvent::Delta(piece) => shown.push_str(&piece),
///         TextEvent::Truncate(length) => shown.truncate(length),
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextEvent {
    /// The next piece of the text, to be appended.
    Delta(String),
    /// The reply was discarded in the middle, because a model call failed or its process died. Keep this
    /// many bytes of the text and remove the rest: [`String::truncate`] does it. If the call is made
    /// again, its text follows from the beginning.
    Truncate(usize),
}

/// The text of a run piece by piece, and where a discarded reply must be removed again. Made by
/// [`Handle::text_events`](super::Handle::text_events).
///
/// Applying every event to an empty string gives the text of the steps that are in the history, and of
/// the reply in progress. It ends as [`TextStream`](super::TextStream) does.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::TextEvent;
///
/// async fn text_of(run: &Handle<String>) -> Result<String, Error> {
///     let (mut text, mut events) = (String::new(), run.text_events());
///     while let Some(event) = events.next().await {
///         match event? {
///             TextEvent::Delta(piece) => text.push_str(&piece),
///             TextEvent::Truncate(length) => text.truncate(length),
///         }
///     }
///     Ok(text)
/// }
/// ```
#[derive(Debug)]
pub struct TextEventStream {
    chunks: ChunkStream,
    run: RunId,
    /// The length of the text so far, in bytes.
    length: usize,
    /// The part of it that belongs to committed steps, which are never discarded.
    committed: usize,
    is_over: bool,
}

impl TextEventStream {
    pub(super) fn new(chunks: ChunkStream, run: RunId) -> Self {
        Self {
            chunks,
            run,
            length: 0,
            committed: 0,
            is_over: false,
        }
    }

    /// Why the run failed, if it did.
    fn failure(&self) -> Option<Error> {
        let run = self.chunks.run()?;
        let error = run.error.clone()?;
        Some(
            Error::from(error)
                .in_session(&run.session_id)
                .of_run(&run.id),
        )
    }

    /// Returns the change that a chunk of the run makes to the text, if any.
    fn event(&mut self, payload: ChunkPayload) -> Option<TextEvent> {
        match payload {
            ChunkPayload::TextDelta { delta } => {
                self.length += delta.len();
                return Some(TextEvent::Delta(delta));
            }
            ChunkPayload::StepCommitted { .. } => self.committed = self.length,
            ChunkPayload::StepDiscarded { .. } | ChunkPayload::StreamResync { .. }
                if self.length > self.committed =>
            {
                self.length = self.committed;
                return Some(TextEvent::Truncate(self.committed));
            }
            _ => {}
        }
        None
    }
}

impl Stream for TextEventStream {
    type Item = Result<TextEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        while !this.is_over {
            let Poll::Ready(chunk) = Pin::new(&mut this.chunks).poll_next(cx) else {
                return Poll::Pending;
            };
            match chunk {
                None => {
                    this.is_over = true;
                    return Poll::Ready(this.failure().map(Err));
                }
                Some(Err(error)) => {
                    this.is_over = true;
                    return Poll::Ready(Some(Err(error)));
                }
                Some(Ok(stored)) if stored.chunk.base.run_id == this.run => {
                    if let Some(event) = this.event(stored.chunk.payload) {
                        return Poll::Ready(Some(Ok(event)));
                    }
                }
                Some(Ok(_)) => {}
            }
        }
        Poll::Ready(None)
    }
}
