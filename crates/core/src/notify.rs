//! Wakes tasks that wait for a change.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

#[derive(Debug, Default)]
struct Shared {
    /// The number of notifications so far. It changes only while `waiting` is locked.
    epoch: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    wakers: BTreeMap<u64, Waker>,
}

/// A notification source. A [`Heard`] that was created before a notification receives it.
#[derive(Debug, Clone, Default)]
pub struct Notify {
    shared: Arc<Shared>,
}

impl Notify {
    /// Creates a notification source.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        let waiting = self.shared.waiting.lock();
        waiting.unwrap_or_else(PoisonError::into_inner)
    }

    fn epoch(&self) -> u64 {
        self.shared.epoch.load(Ordering::Acquire)
    }

    /// Wakes all waiting tasks.
    pub fn ring(&self) {
        let wakers = {
            let mut waiting = self.lock();
            self.shared.epoch.fetch_add(1, Ordering::Release);
            std::mem::take(&mut waiting.wakers)
        };
        wakers.into_values().for_each(Waker::wake);
    }

    /// Resolves at the first notification after this call. Call it before checking the condition,
    /// and await it afterwards: a change in between is not missed.
    pub fn heard(&self) -> Heard {
        Heard {
            notify: self.clone(),
            epoch: self.epoch(),
            registered: None,
        }
    }
}

/// The future of [`Notify::heard`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Heard {
    notify: Notify,
    epoch: u64,
    /// The place of its waker among those that wait, and the waker.
    registered: Option<(u64, Waker)>,
}

impl Future for Heard {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.notify.epoch() != this.epoch {
            return Poll::Ready(());
        }
        // Most polls are about something else that the same task waits for. Its waker stays registered until
        // the next notification, so nothing is locked that many tasks share.
        let known = this.registered.as_ref();
        if known.is_some_and(|(_, waker)| waker.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        let mut waiting = this.notify.lock();
        if this.notify.epoch() != this.epoch {
            return Poll::Ready(());
        }
        let place = known.map_or_else(
            || {
                waiting.next += 1;
                waiting.next
            },
            |(place, _)| *place,
        );
        let waker = cx.waker().clone();
        waiting.wakers.insert(place, waker.clone());
        drop(waiting);
        this.registered = Some((place, waker));
        Poll::Pending
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        if let Some((place, _)) = self.registered {
            self.notify.lock().wakers.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Wakes {
        fn count(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_task_that_is_polled_for_other_reasons_is_woken_once() {
        let notify = Notify::new();
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut cx = Context::from_waker(&waker);
        let mut heard = pin!(notify.heard());
        for _ in 0..3 {
            assert_eq!(heard.as_mut().poll(&mut cx), Poll::Pending);
        }
        assert_eq!(notify.lock().wakers.len(), 1);
        notify.ring();
        assert_eq!(wakes.count(), 1);
        assert_eq!(heard.as_mut().poll(&mut cx), Poll::Ready(()));
    }

    #[test]
    fn the_task_that_polled_last_is_woken() {
        let notify = Notify::new();
        let wakes: [Arc<Wakes>; 2] = Default::default();
        let mut heard = pin!(notify.heard());
        for wakes in &wakes {
            let waker = Waker::from(Arc::clone(wakes));
            let polled = heard.as_mut().poll(&mut Context::from_waker(&waker));
            assert_eq!(polled, Poll::Pending);
        }
        notify.ring();
        assert_eq!(wakes.each_ref().map(|wakes| wakes.count()), [0, 1]);
    }

    #[test]
    fn nobody_waits_after_a_drop() {
        let notify = Notify::new();
        let mut heard = Box::pin(notify.heard());
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(heard.as_mut().poll(&mut cx), Poll::Pending);
        drop(heard);
        assert!(notify.lock().wakers.is_empty());
    }

    #[test]
    fn a_notification_before_the_first_poll_is_heard() {
        let notify = Notify::new();
        let heard = pin!(notify.heard());
        notify.ring();
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(heard.poll(&mut cx), Poll::Ready(()));
    }
}
