//! Begins a model call that may have been begun before.

use crate::perform::deltas::discard_orphans;
use crate::perform::patience::patiently;
use crate::perform::scope::Scope;
use crate::perform::{Attempt, PerformError, SessionView};
use crate::store::{Change, Precondition, RepeatedAttempt, Snapshot};
use crate::stream::Sequence;

/// How often somebody else may begin at the same time.
const MAX_TRIES: usize = 5;

/// Begins a model call that may have been begun before: nothing more is taken from earlier attempts,
/// and what they streamed is thrown away.
pub(super) async fn begin_again(
    scope: Scope<'_>,
    view: &mut SessionView,
    attempt: Attempt,
) -> Result<(), PerformError> {
    let (at, ports) = (scope.at(), scope.ports);
    let by = ports.ids.next("attempt");
    for _ in 0..MAX_TRIES {
        let root = &at.root_session_id;
        let info = patiently(ports, || ports.streams.info(root)).await?;
        let end = info.map_or(Sequence::START, |info| info.last);
        let mark = scope.snapshot().await?.mark;
        let before = mark.begun_at(at.n);
        let last = mark.attempt_at(at.n);
        // The first of several attempts notes nothing: what it streamed lies after the run's
        // beginning. Where nobody tells, everybody notes.
        let unnoted = match attempt {
            Attempt::Untold => end,
            Attempt::First | Attempt::Repeat => Sequence(view.run.start_sequence),
        };
        let after = before.map_or(unnoted, |begun| begun.after);
        let begun = RepeatedAttempt::new(at.n, last + 1, after, &by);
        let now = scope.now();
        let commit = || {
            scope
                .fenced_commit(now)
                .when(Precondition::Effect(scope.place(last)))
                .change(Change::Begin(begun.clone()))
        };
        let is_begun = |found: &Snapshot| {
            let noted = found.mark.begun.as_ref();
            noted.is_some_and(|noted| *noted == begun).then_some(())
        };
        match scope.make(commit, is_begun).await {
            Ok(_) => {}
            // Somebody else began it at the same time; or it is committed.
            Err(PerformError::Overtaken { .. }) if mark.effect < at.n => continue,
            Err(error) => return Err(error),
        }
        view.attempt = begun.attempt;
        return discard_orphans(scope, view.attempt, after).await;
    }
    Err(scope.overtaken())
}
