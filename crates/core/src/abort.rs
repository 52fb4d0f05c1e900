//! A signal that asks running code to stop.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::first::first;
use crate::notify::Notify;

#[derive(Debug, Default)]
struct Shared {
    aborted: AtomicBool,
    notify: Notify,
}

/// The sending side of an abort signal.
#[derive(Debug, Clone, Default)]
pub struct AbortHandle {
    shared: Arc<Shared>,
}

impl AbortHandle {
    /// Creates a handle that is not aborted.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the receiving side.
    #[must_use]
    pub fn signal(&self) -> AbortSignal {
        AbortSignal {
            shared: Arc::clone(&self.shared),
            above: None,
        }
    }

    /// Returns a receiving side that is also sent what `above` is sent.
    #[must_use]
    pub(crate) fn signal_under(&self, above: &AbortSignal) -> AbortSignal {
        AbortSignal {
            shared: Arc::clone(&self.shared),
            above: Some(Arc::clone(&above.shared)),
        }
    }

    /// Sends the signal. Sending it again has no effect.
    pub fn abort(&self) {
        self.shared.aborted.store(true, Ordering::Release);
        self.shared.notify.ring();
    }
}

/// The receiving side of an abort signal. Clones share one signal.
#[derive(Debug, Clone, Default)]
pub struct AbortSignal {
    shared: Arc<Shared>,
    /// A signal that counts as this one.
    above: Option<Arc<Shared>>,
}

impl AbortSignal {
    /// Whether the signal was sent.
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        let mut all = std::iter::once(&self.shared).chain(&self.above);
        all.any(|one| one.aborted.load(Ordering::Acquire))
    }

    /// Resolves when the signal is sent, at once if it already was.
    pub fn aborted(&self) -> impl Future<Output = ()> + Send + 'static {
        let signal = self.clone();
        async move {
            loop {
                let heard = signal.shared.notify.heard();
                let above = signal.above.as_ref().map(|one| one.notify.heard());
                if signal.is_aborted() {
                    return;
                }
                match above {
                    Some(above) => {
                        first(heard, above).await;
                    }
                    None => heard.await,
                }
            }
        }
    }
}
