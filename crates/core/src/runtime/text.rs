//! The text of a run, as a stream that owns what it needs.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::{TextEvent, TextEventStream};
use crate::error::Error;

/// The text of a run, piece by piece. Made by [`Handle::text`](super::Handle::text).
///
/// It ends when the run has ended: completed, interrupted or waiting for somebody, as
/// [`Handle::outcome`](super::Handle::outcome) says. A failed run ends it with the error.
///
/// Pieces are given as they come, and none is taken back: when a model call fails in the middle of a
/// reply and is retried, the pieces of the failed attempt are followed by the whole text of the next
/// one. [`Handle::text_events`](super::Handle::text_events) also tells where to remove them.
///
/// ```
/// use helix_agents::prelude::*;
///
/// async fn print(run: &Handle<String>) -> Result<(), Error> {
///     let mut text = run.text();
///     while let Some(piece) = text.next().await {
///         print!("{}", piece?);
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct TextStream {
    events: TextEventStream,
}

impl TextStream {
    pub(super) fn new(events: TextEventStream) -> Self {
        Self { events }
    }
}

impl Stream for TextStream {
    type Item = Result<String, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Poll::Ready(event) = Pin::new(&mut self.events).poll_next(cx) else {
                return Poll::Pending;
            };
            let piece = match event {
                Some(Ok(TextEvent::Truncate(_))) => continue,
                Some(Ok(TextEvent::Delta(piece))) => Some(Ok(piece)),
                Some(Err(error)) => Some(Err(error)),
                None => None,
            };
            return Poll::Ready(piece);
        }
    }
}
