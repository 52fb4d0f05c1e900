//! Waits, unless the run is asked to stop.

use super::clocked::{First, first};
use super::work::read;
use super::{PerformError, Ports};
use crate::machine::{Effect, Event, Happened};
use crate::time::Timestamp;

pub(super) async fn perform(
    effect: &Effect,
    until: Timestamp,
    ports: &Ports,
) -> Result<Event, PerformError> {
    let at = &effect.at;
    let slept = Event::of(at, Happened::Slept {});
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
    let stop = read(at, ports).await?.stop;
    let stop = stop.is_some_and(|stop| stop.run_id == at.run_id);
    Ok(slept.with_stop(stop))
}
