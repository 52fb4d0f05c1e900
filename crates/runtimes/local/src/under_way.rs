//! The effects of a run that are in progress.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

/// Futures that are polled together; each is dropped when it is done.
///
/// A run mostly has one effect in progress. That one is polled by itself: a set of one future wakes its
/// own task again after every poll.
pub(crate) struct UnderWay<F> {
    /// Its memory is used again for the next one.
    alone: Pin<Box<Option<F>>>,
    others: FuturesUnordered<F>,
}

impl<F: Future> UnderWay<F> {
    pub(crate) fn new() -> Self {
        Self {
            alone: Box::pin(None),
            others: FuturesUnordered::new(),
        }
    }

    pub(crate) fn extend(&mut self, futures: impl Iterator<Item = F>) {
        for future in futures {
            if self.alone.is_none() && self.others.is_empty() {
                self.alone.set(Some(future));
            } else {
                self.others.push(future);
            }
        }
    }

    /// Returns the next output, or `None` if nothing is in progress.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<F::Output>> {
        if let Some(alone) = self.alone.as_mut().as_pin_mut()
            && let Poll::Ready(output) = alone.poll(cx)
        {
            self.alone.set(None);
            return Poll::Ready(Some(output));
        }
        match self.others.poll_next_unpin(cx) {
            Poll::Ready(None) if self.alone.is_some() => Poll::Pending,
            next => next,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn set(futures: Vec<BoxFuture<'static, u8>>) -> UnderWay<BoxFuture<'static, u8>> {
        let mut set = UnderWay::new();
        set.extend(futures.into_iter());
        set
    }

    #[test]
    fn a_single_future_that_waits_does_not_wake_its_task() {
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut cx = Context::from_waker(&waker);
        let mut set = set(vec![pending().boxed()]);
        for _ in 0..3 {
            assert_eq!(set.poll_next(&mut cx), Poll::Pending);
        }
        assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn every_output_is_given_once_and_then_there_is_none() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut set = set(vec![ready(1).boxed(), ready(2).boxed(), ready(3).boxed()]);
        let mut outputs: Vec<_> = (0..4).map(|_| set.poll_next(&mut cx)).collect();
        outputs.sort_by_key(|output| format!("{output:?}"));
        let given = [1, 2, 3].map(|n| Poll::Ready(Some(n)));
        assert_eq!(outputs[1..], given);
        assert_eq!(outputs[0], Poll::Ready(None));
        // The set can be filled again.
        set.extend([ready(4).boxed()].into_iter());
        assert_eq!(set.poll_next(&mut cx), Poll::Ready(Some(4)));
    }

    #[test]
    fn one_that_waits_does_not_hide_the_others() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut first = set(vec![pending().boxed(), ready(2).boxed()]);
        assert_eq!(first.poll_next(&mut cx), Poll::Ready(Some(2)));
        assert_eq!(first.poll_next(&mut cx), Poll::Pending);
        let mut last = set(vec![ready(1).boxed(), pending().boxed()]);
        assert_eq!(last.poll_next(&mut cx), Poll::Ready(Some(1)));
        assert_eq!(last.poll_next(&mut cx), Poll::Pending);
    }
}
