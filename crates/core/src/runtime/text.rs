//! The text of a run, as a stream that owns what it needs.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::ChunkStream;
use crate::error::Error;
use crate::id::RunId;
use crate::stream::ChunkPayload;

/// What the agent says in a run, piece by piece.
///
/// It ends when the run has ended: completed, interrupted or waiting for somebody, as
/// [`Handle::outcome`](super::Handle::outcome) says. A failed run ends it with the error. When an
/// attempt of a model call fails in the middle of a reply, the next attempt says it from the beginning;
/// [`ChunkStream`] tells where.
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
    chunks: ChunkStream,
    run: RunId,
    is_over: bool,
}

impl TextStream {
    pub(super) fn new(chunks: ChunkStream, run: RunId) -> Self {
        Self {
            chunks,
            run,
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
}

impl Stream for TextStream {
    type Item = Result<String, Error>;

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
                    if let ChunkPayload::TextDelta { delta, .. } = stored.chunk.payload {
                        return Poll::Ready(Some(Ok(delta)));
                    }
                }
                Some(Ok(_)) => {}
            }
        }
        Poll::Ready(None)
    }
}
