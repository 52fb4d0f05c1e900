//! Tries again while a store cannot be reached.
//!
//! Reads, deltas and commits share this: what was paid for, and what runs, is not thrown away because
//! a store restarts or a file is locked for a while.

use std::future::Future;
use std::time::Duration;

use super::{PerformError, Ports};
use crate::store::StoreError;
use crate::stream::StreamError;
use crate::time::Timestamp;

/// How long something is tried again.
const PATIENCE: Duration = Duration::from_secs(60);
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// An error that may be gone a moment later.
pub(super) trait MayPass {
    /// Whether trying again may help.
    fn may_pass(&self) -> bool;
}

impl MayPass for StoreError {
    fn may_pass(&self) -> bool {
        Self::may_pass(self)
    }
}

impl MayPass for StreamError {
    fn may_pass(&self) -> bool {
        matches!(self, Self::Store(error) if error.may_pass())
    }
}

impl MayPass for PerformError {
    fn may_pass(&self) -> bool {
        match self {
            Self::Store(error) => error.may_pass(),
            Self::Stream(error) => error.may_pass(),
            _ => false,
        }
    }
}

/// The patience with one thing.
pub(super) struct Patience {
    until: Timestamp,
    wait: Duration,
}

impl Patience {
    pub(super) fn new(ports: &Ports) -> Self {
        Self {
            until: ports.clock.now().saturating_add(PATIENCE),
            wait: FIRST_WAIT,
        }
    }

    /// Waits before the next try.
    ///
    /// # Errors
    /// The error itself, when it does not pass or the patience is over.
    pub(super) async fn bear<E>(&mut self, error: E, ports: &Ports) -> Result<(), PerformError>
    where
        E: MayPass + std::fmt::Display + Into<PerformError>,
    {
        let now = ports.clock.now();
        if !error.may_pass() || now >= self.until {
            return Err(error.into());
        }
        tracing::warn!(event = "store.unavailable", %error);
        let wake = now.saturating_add(self.wait);
        self.wait = self.wait.saturating_mul(2).min(LONGEST_WAIT);
        ports.clock.sleep_until(wake).await;
        Ok(())
    }
}

/// Does something that can be done again without harm, until it is done or the patience is over.
pub(super) async fn patiently<T, E, F>(
    ports: &Ports,
    mut attempt: impl FnMut() -> F,
) -> Result<T, PerformError>
where
    F: Future<Output = Result<T, E>>,
    E: MayPass + std::fmt::Display + Into<PerformError>,
{
    let first = match attempt().await {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let mut patience = Patience::new(ports);
    patience.bear(first, ports).await?;
    loop {
        match attempt().await {
            Ok(value) => return Ok(value),
            Err(error) => patience.bear(error, ports).await?,
        }
    }
}
