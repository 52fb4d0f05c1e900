//! Says durably that a call begins, where others may have begun it.

use super::called;
use crate::machine::{CallStatus, Event};
use crate::perform::reading::Reading;
use crate::perform::scope::{EffectContext, Scope};
use crate::perform::{PerformError, SessionView};
use crate::session::EffectState;
use crate::store::Snapshot;

/// How often somebody else may be faster.
const MAX_TRIES: usize = 5;

/// The outcome of a claim.
pub(super) enum Claimed {
    /// The call is this attempt's.
    Mine {
        /// Whether somebody had begun it before.
        was_begun: bool,
    },
    /// The call has its result already, or waits for somebody; this is its event.
    Recorded(Event),
}

/// Claims a call: attempts before this one can neither stream nor commit any more.
pub(super) async fn claim(
    scope: Scope<'_>,
    view: &mut SessionView,
    index: u32,
) -> Result<Claimed, PerformError> {
    let by = scope.ports.ids.next("claim");
    for _ in 0..MAX_TRIES {
        let (call, open) = called(scope, view, index)?;
        let (id, mut claimed) = (call.id.clone(), open.clone());
        let was_begun = CallStatus::of(open) != CallStatus::Ready;
        if let Some(record) = &mut claimed.effect {
            record.attempts += 1;
            record.claim = Some(by.clone());
            // One that was begun stays one of unknown outcome.
            record.state = match was_begun {
                true => EffectState::Unknown,
                false => EffectState::Started,
            };
        }
        let cx = EffectContext::new(scope, view);
        let commit = || cx.begin().set_call(index, &id, &claimed);
        let is_mine = |found: &Snapshot| is_claimed(found, index, &by).then_some(());
        match scope.make(commit, is_mine).await {
            Ok(_) => {
                view.set_call(&id, claimed);
                return Ok(Claimed::Mine { was_begun });
            }
            Err(PerformError::Overtaken { .. }) => {}
            Err(error) => return Err(error),
        }
        // Somebody else was faster: with a claim of its own, or with a result.
        match scope.judge(scope.snapshot().await?)? {
            Reading::Recorded(event) => return Ok(Claimed::Recorded(event)),
            Reading::View(found) => *view = found,
        }
    }
    Err(scope.overtaken())
}

fn is_claimed(found: &Snapshot, index: u32, by: &str) -> bool {
    let step = found.open_step.as_ref();
    let call = step.and_then(|step| step.call_at(index));
    let record = call.and_then(|(_, call)| call.effect.as_ref());
    record.is_some_and(|record| record.claim.as_deref() == Some(by))
}
