//! Performs effects: where all user code runs and everything is written.
//!
//! [`perform`] is the one implementation of what an [`Effect`] means. A host decides only where and
//! when it is called. An effect ends in at most one commit, which counts once however often, late, or
//! beside itself the effect is performed; performing one again whose commit was made gives the event
//! that it gave, and runs nothing.

mod applied;
mod attempt;
mod clocked;
mod deltas;
mod end;
mod error;
mod executable;
mod guard;
mod hold;
mod hooks;
mod intents;
mod model;
mod patches;
mod patience;
mod ports;
mod recorded;
mod reply;
mod settle;
mod shown;
mod sleep;
mod tool;
mod work;
mod writing;

use crate::error::Coded;
use crate::machine::{Effect, EffectKind, Event, Happened};

pub use attempt::Attempt;
pub use error::PerformError;
pub use hold::Hold;
pub use ports::{Models, Ports};

/// Performs an effect and gives its event. `attempt` says whether it may have been begun before.
///
/// # Errors
/// [`PerformError`] when the run was taken over, another attempt was faster, or the store cannot be
/// reached: the run is then as it was, and can be taken over. An effect that cannot be performed
/// however often it is tried gives an event that says so, and the run ends as failed.
pub async fn perform(
    effect: &Effect,
    attempt: Attempt,
    ports: &Ports,
) -> Result<Event, PerformError> {
    let performed = match &effect.kind {
        EffectKind::Model { .. } => model::perform(effect, attempt, ports).await,
        EffectKind::Tool { index, unknown } => {
            tool::perform(effect, *index, *unknown, attempt, ports).await
        }
        EffectKind::Settle {} => settle::perform(effect, ports).await,
        EffectKind::Sleep { until } => return sleep::perform(effect, *until, ports).await,
        EffectKind::End { as_ } => return end::perform(effect, as_, ports).await,
        EffectKind::Children {} => Err(PerformError::NotBuilt { what: "children" }),
    };
    match performed {
        Err(error) if error.is_permanent() => Ok(broke(effect, &error)),
        other => other,
    }
}

/// The event of an effect that cannot be performed.
fn broke(effect: &Effect, error: &PerformError) -> Event {
    let at = &effect.at;
    tracing::error!(
        event = "effect.broke",
        session = %at.session_id,
        run = %at.run_id,
        step = at.step,
        %error,
    );
    let index = match &effect.kind {
        EffectKind::Tool { index, .. } => Some(*index),
        _ => None,
    };
    Event::of(at, Happened::broke(error.to_record(), index))
}
