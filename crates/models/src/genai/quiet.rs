//! A stream that logs nothing.

use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};

use futures_util::Stream;
use tracing::dispatcher::{Dispatch, with_default};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

/// Polls a stream with a subscriber that keeps nothing. `genai` logs the bodies of failed responses, and those
/// may quote keys and prompts.
pub(super) struct Quiet<S>(pub(super) S);

impl<S: Stream + Unpin> Stream for Quiet<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        with_default(&SILENCE, || Pin::new(&mut self.0).poll_next(cx))
    }
}

/// It is a subscriber of its own, because the absence of one would be remembered by each place that logs for the
/// first time here, also for other streams.
static SILENCE: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Silent));

struct Silent;

impl Subscriber for Silent {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::never()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::OFF)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::{StreamExt, stream};

    use super::*;

    /// Counts what is logged.
    struct Counter(Arc<AtomicUsize>);

    impl Subscriber for Counter {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[tokio::test]
    async fn a_stream_logs_nothing_and_others_do() {
        let count = Arc::new(AtomicUsize::new(0));
        let _guard = tracing::subscriber::set_default(Counter(Arc::clone(&count)));
        let loud = || {
            Box::pin(stream::once(async {
                tracing::error!("the body of a response");
                7
            }))
        };
        assert_eq!(Quiet(loud()).next().await, Some(7));
        assert_eq!(count.load(Ordering::Relaxed), 0);
        assert_eq!(loud().next().await, Some(7));
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }
}
