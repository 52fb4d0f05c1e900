//! A signal that says: stop what you are doing.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::notify::Notify;

#[derive(Debug, Default)]
struct Shared {
    aborted: AtomicBool,
    bell: Notify,
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
        self.shared.bell.ring();
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
    pub fn aborted(&self) -> impl Future<Output = ()> + Send + 'static {
        let signal = self.clone();
        async move {
            loop {
                let heard = signal.shared.bell.heard();
                if signal.is_aborted() {
                    return;
                }
                heard.await;
            }
        }
    }
}
