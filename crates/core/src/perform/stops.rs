//! Hears that a run is asked to stop, while one of its effects goes on.

use std::time::Duration;

use super::scope::Scope;
use crate::id::RunId;
use crate::store::{SessionKey, WatchStops};
use crate::time::Clock;

/// The wait before a watch that failed is begun again.
const DEAF: Duration = Duration::from_millis(250);

/// Resolves when a run is asked to stop, whichever process asks; never once the session is gone. Safe to
/// drop. For hosts that listen once for a whole run, and say it in [`Ports::stop`](super::Ports::stop).
#[doc(hidden)]
pub async fn stop_requested(
    stops: &dyn WatchStops,
    session: SessionKey<'_>,
    run: &RunId,
    clock: &dyn Clock,
) {
    loop {
        match stops.stopped(session, run).await {
            Ok(_) => return,
            Err(error) if error.may_pass() => {
                let again = clock.now().saturating_add(DEAF);
                clock.sleep_until(again).await;
            }
            Err(_) => return std::future::pending().await,
        }
    }
}

impl Scope<'_> {
    /// Resolves when the run is asked to stop. Where nobody listens, never. Safe to drop.
    pub(super) async fn stop_requested(self) {
        let (at, ports) = (self.at(), self.ports);
        match (&ports.stop, &ports.stops) {
            (Some(signal), _) => signal.aborted().await,
            (None, Some(stops)) => {
                let (stops, clock) = (stops.as_ref(), ports.clock.as_ref());
                stop_requested(stops, at.key(), &at.run_id, clock).await;
            }
            (None, None) => std::future::pending().await,
        }
    }
}
