//! Waits, unless the run is asked to stop.

use super::PerformError;
use super::clocked::{First, first};
use super::scope::Scope;
use crate::machine::{Event, EventKind};
use crate::time::Timestamp;

pub(super) async fn perform(scope: Scope<'_>, until: Timestamp) -> Result<Event, PerformError> {
    let (at, ports) = (scope.at(), scope.ports);
    let slept = scope.event(EventKind::Slept {});
    if let Some(stops) = &ports.stops {
        let stopped = async {
            match stops.stopped(at.key(), &at.run_id).await {
                Ok(_) => {}
                // Whoever cannot hear looks when the wait is over.
                Err(_) => std::future::pending().await,
            }
        };
        let over = ports.clock.sleep_until(until);
        if matches!(first(stopped, over).await, First::One(())) {
            return Ok(slept.with_stop(true));
        }
    } else {
        ports.clock.sleep_until(until).await;
    }
    let stop = scope.snapshot().await?.stop;
    Ok(slept.with_stop(scope.is_stopped_by(stop.as_ref())))
}
