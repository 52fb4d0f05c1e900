//! Reads a reply while it comes.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use crate::first::{First, first};
use crate::message::AssistantMessage;
use crate::model::{
    EventStream, ModelError, ModelErrorKind, ModelEvent, ModelReply, ReplyBuilder, TokenUsage,
};
use crate::perform::PerformError;
use crate::perform::deltas::Deltas;
use crate::perform::guard::{Panicked, caught_now};
use crate::perform::shown::Shown;
use crate::time::Timestamp;

/// How a reply ended.
pub(super) enum ReplyEnd {
    Whole(ModelReply),
    /// The call failed, after it had used these tokens.
    Failed(ModelError, Option<TokenUsage>),
    /// The run was asked to stop: this is what the model has said by then, and the tokens that are known
    /// to be used.
    Stopped(Option<AssistantMessage>, Option<TokenUsage>),
}

/// Reads a reply to its end, or until the run is asked to stop, and streams what it says.
pub(super) async fn stream(
    mut events: EventStream<'_>,
    mut builder: ReplyBuilder,
    deltas: &mut Deltas<'_>,
    deadline: Option<Timestamp>,
    stop: impl Future<Output = ()>,
) -> Result<ReplyEnd, PerformError> {
    let (clock, ids) = (deltas.clock(), deltas.ids());
    let mut shown = Shown::default();
    let mut stop = pin!(stop);
    loop {
        let wake = || match (deltas.due(), deadline) {
            (Some(due), Some(deadline)) => Some(due.min(deadline)),
            (one, other) => one.or(other),
        };
        let event = match at_once(&mut events).await {
            Some(event) => event,
            None => {
                let wake = wake();
                let woken = async {
                    match wake {
                        Some(wake) => clock.sleep_until(wake).await,
                        None => std::future::pending().await,
                    }
                };
                // The timer is set before the stream is asked again: what comes meanwhile waits. What the
                // model has said is taken before a stop is heeded.
                match first(first(woken, next(&mut events)), stop.as_mut()).await {
                    First::One(First::Other(event)) => event,
                    First::Other(()) => {
                        let usage = builder.usage();
                        return Ok(ReplyEnd::Stopped(builder.into_partial(), usage));
                    }
                    First::One(First::One(())) if deadline.is_some_and(|at| at <= clock.now()) => {
                        let error = ModelError::new(
                            ModelErrorKind::Transport,
                            "the model did not finish in the time that its settings allow",
                        );
                        return Ok(ReplyEnd::Failed(error, builder.usage()));
                    }
                    First::One(First::One(())) => {
                        deltas.flush().await?;
                        continue;
                    }
                }
            }
        };
        let pushed = match event {
            None => {
                let usage = builder.usage();
                return Ok(match builder.finish() {
                    Ok(reply) => ReplyEnd::Whole(reply),
                    Err(error) => ReplyEnd::Failed(error, usage),
                });
            }
            Some(event) => event.and_then(|event| builder.push(event, ids)),
        };
        match pushed {
            Ok(delta) => {
                if let Some(payload) = delta.and_then(|delta| shown.of(delta)) {
                    deltas.push(payload);
                }
            }
            Err(error) => return Ok(ReplyEnd::Failed(error, builder.usage())),
        }
    }
}

/// One item of a stream of events; `None`: it is over.
type Streamed = Option<Result<ModelEvent, ModelError>>;

/// The next event.
pub(super) async fn next(events: &mut EventStream<'_>) -> Streamed {
    std::future::poll_fn(|cx| poll(events, cx)).await
}

/// The next event, if it is there already: then no timer is needed.
async fn at_once(events: &mut EventStream<'_>) -> Option<Streamed> {
    std::future::poll_fn(|cx| {
        Poll::Ready(match poll(events, cx) {
            Poll::Ready(event) => Some(event),
            Poll::Pending => None,
        })
    })
    .await
}

/// A panic of the adapter is its error.
fn poll(events: &mut EventStream<'_>, cx: &mut Context<'_>) -> Poll<Streamed> {
    let events: Pin<&mut _> = events.as_mut();
    match caught_now(|| events.poll_next(cx)) {
        Ok(poll) => poll,
        Err(panicked) => Poll::Ready(Some(Err(adapter_panicked(&panicked)))),
    }
}

pub(super) fn adapter_panicked(panicked: &Panicked) -> ModelError {
    ModelError::new(
        ModelErrorKind::Invalid,
        format!("the model's adapter failed: {panicked}"),
    )
}
