//! Hears that a run is asked to stop, while one of its effects goes on.

use std::time::Duration;

use super::scope::Scope;

/// How long somebody who cannot hear waits before he listens again.
const DEAF: Duration = Duration::from_millis(250);

impl Scope<'_> {
    /// Resolves when the run is asked to stop, whichever process asks. Without the port for it, and once the
    /// session is gone, never. Safe to drop.
    pub(super) async fn stop_requested(self) {
        let (at, ports) = (self.at(), self.ports);
        if let Some(stops) = &ports.stops {
            loop {
                match stops.stopped(at.key(), &at.run_id).await {
                    Ok(_) => return,
                    Err(error) if error.may_pass() => {
                        let again = ports.clock.now().saturating_add(DEAF);
                        ports.clock.sleep_until(again).await;
                    }
                    Err(_) => break,
                }
            }
        }
        std::future::pending::<()>().await;
    }
}
