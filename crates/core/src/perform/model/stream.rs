//! Reads a reply while it comes.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use crate::message::AssistantMessage;
use crate::model::{
    EventStream, ModelError, ModelErrorKind, ModelEvent, ModelReply, ReplyBuilder, TokenUsage,
};
use crate::perform::PerformError;
use crate::perform::deltas::Deltas;
use crate::perform::guard::{Panicked, caught_now};
use crate::perform::shown::Shown;
use crate::time::{Clock, Timestamp};

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
    let mut timer = Timer::new(clock);
    loop {
        let wake = match (deltas.due(), deadline) {
            (Some(due), Some(deadline)) => Some(due.min(deadline)),
            (one, other) => one.or(other),
        };
        let heard = poll_fn(|cx| {
            // What is there already is taken before a timer is set, and before a stop is heeded.
            if let Poll::Ready(event) = poll(&mut events, cx) {
                return Poll::Ready(Heard::Event(event));
            }
            if timer.poll(wake, cx).is_ready() {
                return Poll::Ready(Heard::Due);
            }
            stop.as_mut().poll(cx).map(|()| Heard::Stop)
        });
        let event = match heard.await {
            Heard::Event(event) => event,
            Heard::Due if deadline.is_some_and(|at| at <= clock.now()) => {
                let error = ModelError::new(
                    ModelErrorKind::Transport,
                    "the model did not finish in the time that its settings allow",
                );
                return Ok(ReplyEnd::Failed(error, builder.usage()));
            }
            Heard::Due => {
                deltas.flush().await?;
                continue;
            }
            Heard::Stop => {
                let usage = builder.usage();
                return Ok(ReplyEnd::Stopped(builder.into_partial(), usage));
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
    poll_fn(|cx| poll(events, cx)).await
}

/// The next thing to heed while a reply comes.
enum Heard {
    Event(Streamed),
    /// The instant has come at which deltas are written, or the deadline.
    Due,
    Stop,
}

/// A timer that is set again only for another instant. Setting one interrupts the wait of the host's threads,
/// and a reply waits once for each of its events.
struct Timer<'a> {
    clock: &'a dyn Clock,
    set: Option<(Timestamp, Sleep<'a>)>,
}

#[cfg(not(target_arch = "wasm32"))]
type Sleep<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
#[cfg(target_arch = "wasm32")]
type Sleep<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

impl<'a> Timer<'a> {
    fn new(clock: &'a dyn Clock) -> Self {
        Self { clock, set: None }
    }

    /// Is ready from the instant `at` on; without one, never.
    fn poll(&mut self, at: Option<Timestamp>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = at else {
            self.set = None;
            return Poll::Pending;
        };
        let sleep = match &mut self.set {
            Some((set, sleep)) if *set == at => sleep,
            set => &mut set.insert((at, self.clock.sleep_until(at))).1,
        };
        let woken = sleep.as_mut().poll(cx);
        if woken.is_ready() {
            self.set = None;
        }
        woken
    }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;

    use async_trait::async_trait;

    use super::*;

    /// A clock that stands still, and counts how often somebody waits.
    #[derive(Debug, Default)]
    struct Counting(AtomicUsize);

    #[async_trait]
    impl Clock for Counting {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(10)
        }

        async fn sleep_until(&self, deadline: Timestamp) {
            self.0.fetch_add(1, Ordering::Relaxed);
            if deadline > self.now() {
                std::future::pending::<()>().await;
            }
        }
    }

    #[test]
    fn a_timer_is_set_once_for_each_instant() {
        let clock = Counting::default();
        let mut cx = Context::from_waker(Waker::noop());
        let mut timer = Timer::new(&clock);
        let at = |millis| Some(Timestamp::from_millis(millis));
        let mut set = |at: Option<Timestamp>, polls: usize| {
            let polled: Vec<_> = (0..polls).map(|_| timer.poll(at, &mut cx)).collect();
            (polled, clock.0.swap(0, Ordering::Relaxed))
        };
        assert_eq!(set(None, 3), (vec![Poll::Pending; 3], 0));
        assert_eq!(set(at(20), 3), (vec![Poll::Pending; 3], 1));
        assert_eq!(set(at(15), 3), (vec![Poll::Pending; 3], 1), "another one");
        assert_eq!(set(None, 1), (vec![Poll::Pending], 0), "none any more");
        assert_eq!(set(at(15), 1), (vec![Poll::Pending], 1), "set again");
        assert_eq!(set(at(10), 2), (vec![Poll::Ready(()); 2], 2), "over");
    }
}
