//! Rebuilding the state of a run from the store.

use std::collections::BTreeMap;

use super::{OpenStepRef, RunState};
use crate::session::{CallPhase, CallState, OpenStep};
use crate::store::{Fence, Receipt, Snapshot};

impl RunState {
    /// Sets the fence that a commit gave the run.
    #[must_use]
    #[doc(hidden)]
    pub fn fenced(mut self, receipt: &Receipt) -> Self {
        if let Some(session) = receipt.sessions.get(&self.session_id) {
            self.fence = session.fence;
        }
        self
    }

    /// Rebuilds the state of a session's latest run from its record and the open step alone.
    ///
    /// `fence` is the one under which the run continues. Returns `None` if the session has no run.
    #[must_use]
    pub fn of(snapshot: &Snapshot, fence: Fence) -> Option<Self> {
        let run = snapshot.run.as_ref()?;
        let step = snapshot.open_step.as_ref();
        Some(Self {
            session_id: run.session_id.clone(),
            root_session_id: snapshot.state.root().clone(),
            run_id: run.id.clone(),
            agent_type: snapshot.state.agent_type.clone(),
            fence,
            turn: run.turn,
            steps: run.step_count,
            corrections: run.corrections,
            budget_from: run.budget_from,
            attempt: 1,
            // A run has begun if a step of its own is open, or one was settled since it started.
            first: match step {
                Some(step) => step.run_id != run.id,
                None => run.step_count == run.steps_before,
            },
            resync: false,
            stop: snapshot
                .stop
                .as_ref()
                .is_some_and(|stop| stop.run_id == run.id),
            messages_wait: false,
            effects: 0,
            doing: None,
            open: step.map(|step| {
                let mut open = OpenStepRef::of(step);
                // Nothing is in progress yet: a call that was begun has an unknown outcome.
                open.calls.mark_running_unknown();
                open
            }),
            awaited: BTreeMap::new(),
            broken: None,
            ended: run.status.is_ended().then_some(run.status),
        })
    }
}

/// Returns the indices of the calls that count as started when the process that performed them is gone.
///
/// Nothing is written when a call starts. So every call that was next counts as started: all
/// runnable regular ones, or else the first of those that may finish the turn. A companion's call takes effect with
/// its commit, so one without a result was not started.
#[must_use]
pub(crate) fn started_calls(step: &OpenStep) -> Vec<usize> {
    let is_runnable = |state: CallState| matches!(state, CallState::Ready | CallState::Approved);
    let of_phase = |phase: CallPhase| {
        let calls = step.calls.iter().enumerate();
        calls.filter(move |(_, call)| call.phase == phase)
    };
    let is_open = |phase| of_phase(phase).any(|(_, call)| call.state != CallState::Terminal);
    let regular: Vec<usize> = of_phase(CallPhase::Regular)
        .filter(|(_, call)| is_runnable(call.state))
        .map(|(index, _)| index)
        .collect();
    if !regular.is_empty() || is_open(CallPhase::Regular) || is_open(CallPhase::Companion) {
        return regular;
    }
    let mut finishing = of_phase(CallPhase::Finish);
    let next = finishing.find(|(_, call)| call.state != CallState::Terminal);
    next.filter(|(_, call)| is_runnable(call.state))
        .map(|(index, _)| index)
        .into_iter()
        .collect()
}
