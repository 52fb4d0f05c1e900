//! Wakes tasks that wait for a change.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

#[derive(Debug, Default)]
struct Waiting {
    /// The number of notifications so far.
    epoch: u64,
    next: u64,
    wakers: BTreeMap<u64, Waker>,
}

/// A notification source. A [`Heard`] that was created before a notification receives it.
#[derive(Debug, Clone, Default)]
pub struct Notify {
    waiting: Arc<Mutex<Waiting>>,
}

impl Notify {
    /// Creates a notification source.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all waiting tasks.
    pub fn ring(&self) {
        let wakers = {
            let mut waiting = self.lock();
            waiting.epoch += 1;
            std::mem::take(&mut waiting.wakers)
        };
        wakers.into_values().for_each(Waker::wake);
    }

    /// Resolves at the first notification after this call. Call it before checking the condition,
    /// and await it afterwards: a change in between is not missed.
    pub fn heard(&self) -> Heard {
        let epoch = self.lock().epoch;
        Heard {
            notify: self.clone(),
            epoch,
            key: None,
        }
    }
}

/// The future of [`Notify::heard`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Heard {
    notify: Notify,
    epoch: u64,
    key: Option<u64>,
}

impl Future for Heard {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let notify = self.notify.clone();
        let mut waiting = notify.lock();
        if waiting.epoch != self.epoch {
            return Poll::Ready(());
        }
        let key = *self.key.get_or_insert_with(|| {
            waiting.next += 1;
            waiting.next
        });
        waiting.wakers.insert(key, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.notify.lock().wakers.remove(&key);
        }
    }
}
