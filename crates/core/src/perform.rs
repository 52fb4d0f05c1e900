//! Performs effects: where all user code runs and everything is written.
//!
//! [`perform`] is the one implementation of what an [`Effect`] means. A host decides only where and
//! when it is called. An effect ends in at most one commit, which counts once however often, late, or
//! beside itself the effect is performed; performing one again whose commit was made gives the event
//! that it gave, and runs nothing.

mod after_step;
mod applied;
mod attempt;
mod budget;
mod children;
mod closing;
mod commit;
mod deltas;
mod end;
mod ending;
mod error;
mod executable;
mod guard;
mod hold;
mod hooks;
mod intents;
mod memory;
mod model;
mod opening;
mod patches;
mod patience;
mod ports;
mod reading;
mod recorded;
mod reply;
mod scope;
mod settle;
mod shown;
mod sleep;
mod stops;
mod tool;
mod view;

use crate::error::Coded;
use crate::machine::{Effect, EffectKind, Event, EventKind};

pub use attempt::Attempt;
pub use children::{awaited_child, ports_of_child, stop_children};
pub use error::PerformError;
pub use hold::Hold;
pub use ports::{Models, Ports, STOP_GRACE};
pub use stops::stop_requested;

use scope::{Scope, chunk_base};
use view::SessionView;

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
    let base = chunk_base(&effect.at);
    let scope = Scope {
        effect,
        ports,
        base: &base,
    };
    let performed = match &effect.kind {
        EffectKind::Model { .. } => model::perform(scope, attempt).await,
        EffectKind::Tool { index, unknown } => {
            tool::perform(scope, *index, *unknown, attempt).await
        }
        EffectKind::Settle {} => settle::perform(scope).await,
        EffectKind::Sleep { until } => return sleep::perform(scope, *until).await,
        // Rare and large: it would make the future of every effect larger.
        EffectKind::End { as_ } => return Box::pin(end::perform(scope, as_)).await,
        EffectKind::Child { index } => Box::pin(tool::take_child(scope, *index)).await,
        EffectKind::Children {} => Err(PerformError::NotBuilt { what: "children" }),
    };
    match performed {
        Err(error) if error.is_permanent() => Ok(broke(scope, &error)),
        other => other,
    }
}

/// The event of an effect that cannot be performed.
fn broke(scope: Scope<'_>, error: &PerformError) -> Event {
    let at = scope.at();
    tracing::error!(
        event = "effect.broke",
        session = %at.session_id,
        run = %at.run_id,
        step = at.step,
        %error,
    );
    let index = match &scope.effect.kind {
        EffectKind::Tool { index, .. } | EffectKind::Child { index } => Some(*index),
        _ => None,
    };
    scope.event(EventKind::broke(error.to_record(), index))
}
