//! A signal that says: stop what you are doing.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

#[derive(Debug, Default)]
struct Shared {
    aborted: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The side that stops.
#[derive(Debug, Clone, Default)]
pub struct AbortHandle {
    shared: Arc<Shared>,
}

impl AbortHandle {
    /// A handle and nothing stopped yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The side to look at.
    #[must_use]
    pub fn signal(&self) -> AbortSignal {
        AbortSignal {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Stops. Stopping twice is the same as once.
    pub fn abort(&self) {
        self.shared.aborted.store(true, Ordering::Release);
        let wakers = std::mem::take(&mut self.shared.waiting().wakers);
        wakers.into_values().for_each(Waker::wake);
    }
}

/// The side that is told to stop. Clones tell the same thing.
#[derive(Debug, Clone, Default)]
pub struct AbortSignal {
    shared: Arc<Shared>,
}

impl AbortSignal {
    /// Whether to stop.
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.shared.aborted.load(Ordering::Acquire)
    }

    /// Resolves when it is time to stop, at once when it already is.
    pub fn aborted(&self) -> Aborted {
        Aborted {
            shared: Arc::clone(&self.shared),
            key: None,
        }
    }
}

/// The future of [`AbortSignal::aborted`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Aborted {
    shared: Arc<Shared>,
    key: Option<u64>,
}

impl Future for Aborted {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let shared = Arc::clone(&self.shared);
        let mut waiting = shared.waiting();
        // Looked at under the lock: an abort either sees our waker or is seen here.
        if shared.aborted.load(Ordering::Acquire) {
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

impl Drop for Aborted {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.shared.waiting().wakers.remove(&key);
        }
    }
}
