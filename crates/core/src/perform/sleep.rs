//! Waits, unless the run is asked to stop.

use super::PerformError;
use super::scope::Scope;
use crate::first::{First, first};
use crate::machine::{Event, EventKind};
use crate::time::Timestamp;

pub(super) async fn perform(scope: Scope<'_>, until: Timestamp) -> Result<Event, PerformError> {
    let slept = scope.event(EventKind::Slept {});
    let over = scope.ports.clock.sleep_until(until);
    if matches!(first(scope.stop_requested(), over).await, First::One(())) {
        return Ok(slept.with_stop(true));
    }
    let stop = scope.snapshot().await?.stop;
    Ok(slept.with_stop(scope.is_stopped_by(stop.as_ref())))
}
