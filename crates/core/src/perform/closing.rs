//! Closes an open step whose calls do not all have results.

use super::PerformError;
use super::commit::EffectCommit;
use super::scope::Scope;
use crate::entries::{BegunCalls, Overdue, close_calls, take_answers};
use crate::session::OpenStep;

/// The rule for calls that have no result when their step is closed.
#[derive(Clone, Copy)]
pub(super) struct Closing {
    /// Which calls count as begun.
    pub(super) begun: BegunCalls,
    /// The reason that the model is told for calls that were not executed.
    pub(super) why: &'static str,
}

/// Closes an open step: takes the answers that came and that nobody took, and tells the truth about
/// every call that has no result. A run that ends loses no answer. Gives the closed step, and the
/// commit with what closing it takes.
pub(super) async fn close<'a>(
    scope: Scope<'_>,
    open: &OpenStep,
    commit: EffectCommit<'a>,
    closing: Closing,
) -> Result<(OpenStep, EffectCommit<'a>), PerformError> {
    let (at, base, now) = (scope.at(), scope.base, commit.now());
    let Closing { begun, why } = closing;
    let session = scope.snapshot().await?.state;
    let taken = take_answers(&session, open, &at.run_id, now, Overdue::IsLeft);
    let commit = commit.with(|commit| taken.write(commit, &at.session_id, base, now));
    let mut step = taken.step;
    let commit = commit.with(|commit| close_calls(commit, &session, &mut step, begun, why, base));
    Ok((step, commit))
}
