//! The event of an effect whose commit was made, from what it left behind.

use crate::machine::{Effect, EffectKind, Event, Happened, OpenRef, Settled, Standing};
use crate::session::RunStatus;
use crate::store::Snapshot;

/// The event that an effect gave when its commit was made; `None` while it was not.
pub(super) fn recorded(effect: &Effect, snapshot: &Snapshot) -> Option<Event> {
    let at = &effect.at;
    let run = snapshot.run.as_ref()?;
    let open = snapshot
        .open_step
        .as_ref()
        .filter(|open| open.step == at.step);
    let ended = run.status.is_ended().then_some(run.status);
    let settled = (run.step_count >= at.step && open.is_none())
        .then(|| Happened::Settled(Settled::new(run.step_count, run.corrections, ended)));
    let what = match &effect.kind {
        EffectKind::Model { .. } => match open {
            Some(open) => Some(Happened::Replied {
                open: OpenRef::of(open),
            }),
            None => settled,
        },
        EffectKind::Tool { index, .. } => match open {
            Some(open) => {
                let call = open.calls.get(usize::try_from(*index).ok()?)?;
                let standing = Standing::of(call);
                let size = call
                    .result
                    .as_ref()
                    .map_or(0, |result| result.content.len());
                (standing == Standing::Terminal || standing.is_awaiting())
                    .then(|| Happened::called(*index, standing, size, call.fatal.is_some()))
            }
            None => settled,
        },
        EffectKind::Settle {} => settled,
        EffectKind::End { .. } => ended
            .filter(|status| *status != RunStatus::Running)
            .map(|status| Happened::Ended { status }),
        EffectKind::Sleep { .. } | EffectKind::Children {} => None,
    }?;
    let stop = snapshot.stop.as_ref();
    let stop = stop.is_some_and(|stop| stop.run_id == at.run_id);
    Some(Event::of(at, what).with_stop(stop))
}
