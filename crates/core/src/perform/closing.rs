//! Closes an open step whose calls do not all have results.

use super::PerformError;
use super::commit::EffectCommit;
use super::patience::patiently;
use super::scope::Scope;
use crate::entries::{BegunCalls, LEFT_BEHIND, Overdue, close_calls, take_answers};
use crate::session::{OpenCall, OpenStep, StopKind};
use crate::store::{Reach, Sessions, Snapshot, WorkingChild};

/// The rule for calls that have no result when their step is closed.
#[derive(Clone, Copy)]
pub(super) struct Closing {
    /// Which calls count as begun.
    pub(super) begun: BegunCalls,
    /// The reason that the model is told for calls that were not executed.
    pub(super) why: &'static str,
}

/// Closes an open step: takes the answers that came and that nobody took, and tells the truth about
/// every call that has no result. A run that ends loses no answer, and leaves no child behind that was not asked to
/// stop. Gives the closed step, and the commit with what closing it takes.
pub(super) async fn close<'a>(
    scope: Scope<'_>,
    open: &OpenStep,
    commit: EffectCommit<'a>,
    closing: Closing,
) -> Result<(OpenStep, EffectCommit<'a>), PerformError> {
    let (at, base, now) = (scope.at(), scope.base, commit.now());
    let Closing { begun, why } = closing;
    let found = scope.snapshot().await?;
    let waits = |call: &OpenCall| call.child.is_some() && call.result.is_none();
    let left = match found
        .open_step
        .iter()
        .any(|step| step.calls.iter().any(waits))
    {
        // Boxed: every end holds this future, and few runs have children.
        true => Box::pin(left_children(scope, &found)).await?,
        false => Vec::new(),
    };
    let session = found.state;
    let commit = commit.with(|commit| {
        let left = left.iter();
        left.fold(commit, |commit, child| {
            child.stop_as_read(commit, StopKind::Interrupt, LEFT_BEHIND)
        })
    });
    let taken = take_answers(&session, open, &at.run_id, now, Overdue::IsLeft);
    let commit = commit.with(|commit| taken.write(commit, &at.session_id, base, now));
    let mut step = taken.step;
    let commit = commit.with(|commit| close_calls(commit, &session, &mut step, begun, why, base));
    Ok((step, commit))
}

/// The children for which the run waits. One that began, or went on, beside a stop of the run has not heard of it.
async fn left_children(
    scope: Scope<'_>,
    found: &Snapshot,
) -> Result<Vec<WorkingChild>, PerformError> {
    let ports = scope.ports;
    let sessions = Sessions::new(ports.store.as_ref(), ports.clock.as_ref());
    patiently(ports, || sessions.working_children(found, Reach::Awaited)).await
}
