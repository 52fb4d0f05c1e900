//! Performs effects: where all user code runs and everything is written.
//!
//! [`perform`] is the one implementation of what an [`Effect`] means. A host decides only where and
//! when it is called. An effect ends in at most one commit; performing one again whose commit was
//! made gives the event that it gave, and runs nothing.

mod applied;
mod attempt;
mod clocked;
mod deltas;
mod end;
mod error;
mod executable;
mod guard;
mod hooks;
mod intents;
mod model;
mod patches;
mod ports;
mod recorded;
mod reply;
mod settle;
mod shown;
mod tool;
mod work;

use crate::machine::{Effect, EffectKind, Event, Happened};

pub use attempt::Attempt;
pub use error::PerformError;
pub use ports::{Models, Ports};

/// Performs an effect and gives its event.
///
/// # Errors
/// [`PerformError`] when the run was taken over, or the store cannot be reached: the run is then as
/// it was, and can be taken over.
pub async fn perform(
    effect: &Effect,
    attempt: Attempt,
    ports: &Ports,
) -> Result<Event, PerformError> {
    let _ = attempt;
    match &effect.kind {
        EffectKind::Model { .. } => model::perform(effect, ports).await,
        EffectKind::Tool { index, unknown } => tool::perform(effect, *index, *unknown, ports).await,
        EffectKind::Settle {} => settle::perform(effect, ports).await,
        EffectKind::Sleep { until } => {
            ports.clock.sleep_until(*until).await;
            Ok(Event::of(&effect.at, Happened::Slept {}))
        }
        EffectKind::End { as_ } => end::perform(effect, as_, ports).await,
        EffectKind::Children {} => Err(PerformError::NotBuilt { what: "children" }),
    }
}
