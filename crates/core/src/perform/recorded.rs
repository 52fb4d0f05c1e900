//! The event of an effect whose commit was made, from what it left behind.

use super::scope::Scope;
use crate::machine::{CallStatus, EffectKind, Event, EventKind, OpenStepRef, TurnProgress};
use crate::session::RunStatus;
use crate::store::Snapshot;

/// The event that an effect gave when its commit was made; `None` while it was not, and when later
/// effects have left nothing to tell it by.
pub(super) fn recorded(scope: Scope<'_>, snapshot: &Snapshot) -> Option<Event> {
    let at = scope.at();
    let run = snapshot.run.as_ref()?;
    let open = snapshot
        .open_step
        .as_ref()
        .filter(|open| open.step == at.step);
    let ended = run.status.is_ended().then_some(run.status);
    let settled = (run.step_count >= at.step && open.is_none())
        .then(|| EventKind::Settled(TurnProgress::new(run.step_count, run.corrections, ended)));
    let is_last = snapshot.mark.effect == at.n;
    let what = match &scope.effect.kind {
        EffectKind::Model { .. } => match open {
            Some(open) => Some(EventKind::Replied {
                open: OpenStepRef::of(open),
            }),
            None => settled.or_else(|| {
                let failure = snapshot.mark.failure.as_deref();
                let gave_nothing = || match failure {
                    Some(failure) => EventKind::model_failed(failure.clone()),
                    None => EventKind::Cut {},
                };
                is_last.then(gave_nothing)
            }),
        },
        EffectKind::Tool { index, .. } => match open {
            Some(open) => {
                let (_, call) = open.call_at(*index)?;
                let is_open = CallStatus::of(call).is_to_be_run();
                (!is_open)
                    .then(|| EventKind::called(open, *index))
                    .flatten()
            }
            None => settled,
        },
        EffectKind::Child { index } => match open {
            Some(open) => {
                let (_, call) = open.call_at(*index)?;
                let is_open = CallStatus::of(call).is_unfinished();
                (!is_open)
                    .then(|| EventKind::called(open, *index))
                    .flatten()
            }
            None => settled,
        },
        EffectKind::Settle {} => settled,
        EffectKind::End { .. } => match (ended, open) {
            (Some(status), _) if status != RunStatus::Running => Some(EventKind::Ended { status }),
            // It was to pause, and took answers that had come instead.
            (_, Some(open)) if is_last => Some(EventKind::Answered {
                open: OpenStepRef::of(open),
            }),
            _ => None,
        },
        EffectKind::Sleep { .. } | EffectKind::Children {} => None,
    }?;
    let stop = scope.is_stopped_by(snapshot.stop.as_ref());
    let event = scope.event(what).with_stop(stop);
    Some(event.with_messages(!snapshot.inbox.is_empty()))
}
