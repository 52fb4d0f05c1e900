//! Says durably that a call begins, where others may have begun it.

use std::sync::Arc;

use super::missing;
use crate::machine::{Effect, Event, Standing};
use crate::perform::work::{Look, Work, judge, read};
use crate::perform::writing::{Made, begin, make, then};
use crate::perform::{PerformError, Ports};
use crate::session::{EffectState, OpenStep};
use crate::store::{Change, Snapshot};

/// How often somebody else may be faster.
const MAX_TRIES: usize = 5;

/// What became of a claim.
pub(super) enum Claimed {
    /// The call is this attempt's.
    Mine {
        /// Whether somebody had begun it before.
        was_begun: bool,
    },
    /// It has come to something already.
    Done(Event),
}

/// Claims a call: attempts before this one can neither stream nor commit any more.
pub(super) async fn claim(
    effect: &Effect,
    ports: &Ports,
    work: &mut Work,
    index: u32,
) -> Result<Claimed, PerformError> {
    let by = ports.ids.next("claim");
    for _ in 0..MAX_TRIES {
        let now = ports.clock.now();
        let mut step = OpenStep::clone(work.open_step(&effect.at)?);
        let found = usize::try_from(index).ok();
        let id = found.and_then(|place| step.call(place));
        let id = id.map(|(call, _)| call.id.clone());
        let slot = found.and_then(|place| step.calls.get_mut(place));
        let (Some(id), Some(slot)) = (id, slot) else {
            return Err(missing(effect));
        };
        let was_begun = Standing::of(slot) != Standing::Ready;
        if let Some(record) = &mut slot.effect {
            record.attempts += 1;
            record.claim = Some(by.clone());
            // One that was begun stays one of unknown outcome.
            record.state = match was_begun {
                true => EffectState::Unknown,
                false => EffectState::Started,
            };
        }
        let commit = || {
            let claimed = Change::OpenCall(index, id.clone(), Box::new(slot.clone()));
            then(begin(effect, work, now), &effect.at, [claimed])
        };
        let is_mine = |found: &Snapshot| is_claimed(found, index, &by).then_some(());
        match make(effect, ports, commit, is_mine).await {
            Ok(Made::Now(_) | Made::Before(())) => {
                work.open = Some(Arc::new(step));
                return Ok(Claimed::Mine { was_begun });
            }
            Err(PerformError::Overtaken { .. }) => {}
            Err(error) => return Err(error),
        }
        // Somebody else was faster: with a claim of its own, or with a result.
        let found = read(&effect.at, ports).await?;
        match judge(effect, found, ports)? {
            Look::Done(event) => return Ok(Claimed::Done(event)),
            Look::Work(found) => *work = *found,
        }
    }
    Err(PerformError::Overtaken {
        session: effect.at.session_id.clone(),
    })
}

fn is_claimed(found: &Snapshot, index: u32, by: &str) -> bool {
    let step = found.open_step.as_ref();
    let place = usize::try_from(index).ok();
    let call = step.and_then(|step| step.calls.get(place?));
    let record = call.and_then(|call| call.effect.as_ref());
    record.is_some_and(|record| record.claim.as_deref() == Some(by))
}
