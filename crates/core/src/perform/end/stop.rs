//! Stops a run that was asked to.

use super::{Ending, finish};
use crate::entries::ended;
use crate::error::{ErrorCode, ErrorRecord};
use crate::machine::{At, Effect, Event, Happened};
use crate::perform::settle::{Settling, settle, with_answers};
use crate::perform::work::{Work, base, read, say, then};
use crate::perform::{PerformError, Ports};
use crate::session::{CallState, OpenStep, StopKind, StopRequest};
use crate::state::StepWrites;
use crate::step::{synthesize_not_executed_result, synthesize_unknown_result};
use crate::store::{Change, Commit, Field};

/// Ends the run because it was asked to stop. What the open step has is kept.
pub(super) async fn stop(
    effect: &Effect,
    ports: &Ports,
    work: &Work,
) -> Result<Event, PerformError> {
    let at = &effect.at;
    let request = read(at, ports).await?.stop;
    let request = request.unwrap_or_else(|| {
        StopRequest::new(at.run_id.clone(), StopKind::Interrupt, ports.clock.now())
    });
    let ending = match request.kind {
        StopKind::Interrupt => Ending::Interrupted {
            reason: request.reason,
        },
        StopKind::Abort => {
            let reason = request.reason;
            let reason = reason.unwrap_or_else(|| "the run was aborted".to_owned());
            tracing::info!(event = "client_tool.aborted", session = %at.session_id, run = %at.run_id);
            Ending::Failed {
                error: ErrorRecord::new(ErrorCode::FrameworkCancelled, reason),
            }
        }
    };
    let status = ending.status();
    let Some(open) = &work.open else {
        return finish(effect, ports, work, ending).await;
    };
    // An answer that was accepted is kept; a call that was agreed to is not begun any more.
    let (mut open, commit) = with_answers(at, ports, open).await?;
    let commit = pair_stopped(commit, at, &mut open);
    let settling = Settling {
        after: Some(open.start_sequence),
        open,
        writes: StepWrites::default(),
        output: None,
        commit,
        base: base(at),
        greet: false,
        ending: Some(ending),
    };
    let event = settle(effect, ports, work, settling).await?;
    Ok(Event {
        what: Happened::Ended { status },
        ..event
    })
}

/// Gives every call without a result the truth about it.
fn pair_stopped(mut commit: Commit, at: &At, open: &mut OpenStep) -> Commit {
    let calls: Vec<_> = open.message.tool_calls().cloned().collect();
    for (call, open) in calls.iter().zip(&mut open.calls) {
        if open.result.is_some() {
            continue;
        }
        let waits = matches!(
            open.state,
            CallState::AwaitingClient | CallState::AwaitingApproval
        );
        if waits {
            let owner = Field::CallOwner(call.id.clone(), None);
            commit = then(commit, at, [Change::RemovePending(call.id.clone())])
                .then_in(at.root_session_id.clone(), Change::Set(owner));
        }
        let was_started = open
            .effect
            .as_ref()
            .is_some_and(|effect| effect.attempts > 0);
        let result = if was_started {
            synthesize_unknown_result(&call.id, &call.name)
        } else {
            synthesize_not_executed_result(&call.id, &call.name, "the run was stopped.")
        };
        let now = commit.at;
        commit = say(commit, &base(at), now, [ended(&result)]);
        open.settle(result);
    }
    commit
}
