//! The function that decides the next effects of a run.

use std::time::Duration;

use super::{
    AgentLimits, CallStatus, Effect, EffectKind, Event, EventKind, OpenStepRef, RunEnd, RunState,
    TurnProgress,
};
use crate::error::ErrorRecord;
use crate::session::CallPhase;
use crate::time::Timestamp;

/// The maximum wait between two attempts of a model call, unless the provider asks for more.
const MAX_BACK_OFF: Duration = Duration::from_secs(60);

/// Returns the state and the effects that follow an event.
///
/// The same state and event always give the same state and effects. Effects returned together may
/// be performed in any order and at the same time. An event that belongs to no effect in progress,
/// for example a repeated one, changes nothing.
#[must_use]
pub fn decide(facts: &AgentLimits, mut state: RunState, event: Event) -> (RunState, Vec<Effect>) {
    if !state.accepts(&event) {
        return (state, Vec::new());
    }
    state.stop |= event.stop;
    state.messages_wait = event.messages_wait;
    let effects = match event.what {
        EventKind::Started {} | EventKind::Slept {} | EventKind::Cut {} => next(facts, &mut state),
        EventKind::Replied { open } => {
            state.has_begun();
            state.open = Some(open);
            next(facts, &mut state)
        }
        EventKind::ModelFailed {
            error,
            now,
            retry_after_ms,
        } => after_failure(facts, &mut state, error, now, retry_after_ms),
        EventKind::Called {
            index,
            standing,
            fatal,
            finishes,
            ..
        } => {
            let first = state.first && state.awaits_child(index);
            state.has_begun();
            // Nobody was notified by the end of a child.
            state.first = first;
            if let Some(open) = &mut state.open {
                open.calls.set(index, standing);
                open.fatal |= fatal;
                if finishes {
                    open.calls.end_phase(CallPhase::Finish);
                }
            }
            next(facts, &mut state)
        }
        EventKind::BudgetExhausted {} => {
            let as_ = if state.stop {
                RunEnd::Stopped {}
            } else {
                RunEnd::BudgetExhausted {}
            };
            state.exclusive(EffectKind::End { as_ })
        }
        EventKind::Broke { error, index } => {
            if let (Some(index), Some(open)) = (index, &mut state.open) {
                open.calls.set(index, CallStatus::Unknown);
            }
            state.broken.get_or_insert(error);
            next(facts, &mut state)
        }
        EventKind::Settled(settled) => {
            state.has_begun();
            state.settle(&settled);
            next(facts, &mut state)
        }
        EventKind::Answered { open } => {
            state.open = Some(open);
            next(facts, &mut state)
        }
        EventKind::Ended { status } => {
            state.ended = Some(status);
            Vec::new()
        }
    };
    (state, effects)
}

impl RunState {
    /// Whether the event belongs to an effect in progress.
    fn accepts(&mut self, event: &Event) -> bool {
        if self.is_ended() {
            return false;
        }
        match &event.what {
            EventKind::Started {} => self.effects == 0,
            EventKind::Called { index, .. }
            | EventKind::Broke {
                index: Some(index), ..
            } => event.step == self.steps + 1 && self.awaits(*index, event),
            // A call that settled its step reports the step itself, and no other call is running then.
            EventKind::Settled(_) if self.doing.is_none() => {
                let open = self.open.as_ref();
                event.step == self.steps + 1
                    && open.is_some_and(|open| open.calls.any(CallStatus::is_in_progress))
            }
            _ => {
                let is_answer = self.doing == Some(event.n);
                if is_answer {
                    self.doing = None;
                }
                is_answer
            }
        }
    }

    /// Whether the event of a call is one that the run waits for.
    fn awaits(&mut self, index: u32, event: &Event) -> bool {
        let call = self.open.as_ref().and_then(|open| open.calls.get(index));
        match call.map(|call| call.standing) {
            Some(CallStatus::Running) => true,
            // The start of the child may be reported again, and so may an earlier pause of it.
            Some(CallStatus::ChildAwaited) => {
                let is_awaited = self.awaited.get(&index) == Some(&event.n);
                if is_awaited {
                    self.awaited.remove(&index);
                }
                is_awaited
            }
            _ => false,
        }
    }

    /// Whether the call waits for a child.
    fn awaits_child(&self, index: u32) -> bool {
        let call = self.open.as_ref().and_then(|open| open.calls.get(index));
        call.is_some_and(|call| call.standing == CallStatus::ChildAwaited)
    }

    fn has_begun(&mut self) {
        self.first = false;
        self.resync = false;
        self.attempt = 1;
    }

    fn settle(&mut self, settled: &TurnProgress) {
        self.open = None;
        self.awaited.clear();
        self.steps = settled.steps;
        self.corrections = settled.corrections;
        self.ended = settled.ended;
    }

    /// Returns an exclusive effect, which nothing else runs beside.
    fn exclusive(&mut self, kind: EffectKind) -> Vec<Effect> {
        let at = self.at();
        self.doing = Some(at.n);
        let first = self.first;
        vec![Effect { at, first, kind }]
    }
}

/// Returns the next effects after an event was applied.
fn next(facts: &AgentLimits, state: &mut RunState) -> Vec<Effect> {
    if state.is_ended() {
        return Vec::new();
    }
    // Children are awaited whatever else is to come: they work, or were asked to stop.
    let mut effects = await_children(state);
    if let Some(error) = &state.broken {
        let open = state.open.as_ref();
        let running = open.is_some_and(|open| open.calls.any(CallStatus::is_in_progress));
        // Running calls are awaited, so that their outcome is known.
        if running {
            return effects;
        }
        let error = error.clone();
        return state.exclusive(EffectKind::End {
            as_: RunEnd::Failed { error },
        });
    }
    let Some(open) = state.open.take() else {
        if state.stop {
            return state.exclusive(EffectKind::End {
                as_: RunEnd::Stopped {},
            });
        }
        return ask_model(facts, state);
    };
    let (open, more) = next_in_step(state, open);
    state.open = Some(open);
    if more.iter().any(|effect| effect.first) {
        // That one notifies the hooks.
        effects.iter_mut().for_each(|effect| effect.first = false);
    }
    effects.extend(more);
    effects
}

/// Returns the effects that take the outcomes of children for which nobody waits yet.
fn await_children(state: &mut RunState) -> Vec<Effect> {
    let Some(mut open) = state.open.take() else {
        return Vec::new();
    };
    let mut awaited = Vec::new();
    for index in 0..open.calls.len() {
        let call = open.calls.get(index);
        if call.is_some_and(|call| call.standing == CallStatus::ChildStarted) {
            open.calls.set(index, CallStatus::ChildAwaited);
            // Which of them notifies the hooks is not known before one settles the step.
            let first = state.first;
            let kind = EffectKind::Child { index };
            let at = state.at();
            state.awaited.insert(index, at.n);
            awaited.push(Effect { at, first, kind });
        }
    }
    state.open = Some(open);
    awaited
}

/// Returns the next effects while a step is open.
fn next_in_step(state: &mut RunState, mut open: OpenStepRef) -> (OpenStepRef, Vec<Effect>) {
    let running = open.calls.any(CallStatus::is_in_progress);
    if open.fatal && !state.stop {
        // Calls begun before a crash are resolved first: their outcome belongs in the history.
        let all = (0u32..).zip(open.calls.as_slice());
        let begun = all.filter(|(_, call)| call.standing == CallStatus::Unknown);
        let begun: Vec<_> = begun.map(|(index, call)| (index, call.standing)).collect();
        if !begun.is_empty() {
            let effects = begun
                .into_iter()
                .map(|(index, call)| run_call(state, &mut open, index, call))
                .collect();
            return (open, effects);
        }
    }
    if open.fatal || state.stop {
        // No new call is started; running calls are awaited.
        let effects = if running {
            Vec::new()
        } else if open.fatal {
            state.exclusive(EffectKind::Settle {})
        } else {
            state.exclusive(EffectKind::End {
                as_: RunEnd::Stopped {},
            })
        };
        return (open, effects);
    }
    let mut effects = Vec::new();
    let is_companion = |phase| phase == CallPhase::Companion;
    let mut companions = open.calls.of_phase(is_companion);
    let mut companion_runs = companions.any(|(_, call)| call == CallStatus::Running);
    drop(companions);
    for index in 0..open.calls.len() {
        let call = open.calls.get(index);
        let Some(call) = call.filter(|call| call.standing.is_runnable()) else {
            continue;
        };
        let may_run = match call.phase {
            CallPhase::Regular => true,
            // One may address what the one before it has started.
            CallPhase::Companion => !std::mem::replace(&mut companion_runs, true),
            CallPhase::Finish => false,
        };
        if may_run {
            effects.push(run_call(state, &mut open, index, call.standing));
        }
    }
    if !effects.is_empty() {
        return (open, effects);
    }
    if running {
        return (open, Vec::new());
    }
    let is_awaiting = |(_, call): (u32, CallStatus)| call.is_awaiting();
    if open.calls.of_phase(CallPhase::is_first).any(is_awaiting) {
        let as_ = RunEnd::Suspended {};
        return (open, state.exclusive(EffectKind::End { as_ }));
    }
    // Every call of the first phase has its result: the finishing calls run one by one.
    let is_finishing = |phase| phase == CallPhase::Finish;
    let mut finishing = open.calls.of_phase(is_finishing);
    let next = finishing.find(|(_, call)| *call != CallStatus::Terminal);
    drop(finishing);
    let effects = match next {
        Some((index, call)) if call.is_runnable() => vec![run_call(state, &mut open, index, call)],
        Some(_) => {
            let as_ = RunEnd::Suspended {};
            state.exclusive(EffectKind::End { as_ })
        }
        None => state.exclusive(EffectKind::Settle {}),
    };
    (open, effects)
}

fn run_call(state: &mut RunState, open: &mut OpenStepRef, index: u32, call: CallStatus) -> Effect {
    open.calls.set(index, CallStatus::Running);
    // The first effect of a run notifies the hooks; the ones beside it do not notify them again.
    let first = std::mem::take(&mut state.first);
    Effect {
        at: state.at(),
        first,
        kind: EffectKind::Tool {
            index,
            unknown: call == CallStatus::Unknown,
        },
    }
}

fn ask_model(facts: &AgentLimits, state: &mut RunState) -> Vec<Effect> {
    // Steps in which the model is forced to give its output do not count against the limit.
    let forced = state.corrections > 0;
    let made = state.steps.saturating_sub(state.budget_from);
    let at_limit = |limit| made.saturating_add(1) >= limit;
    let kind = EffectKind::Model {
        attempt: state.attempt,
        last_step: !forced && facts.max_steps.is_some_and(at_limit),
        forced,
        corrections_left: facts
            .max_completion_retries
            .saturating_sub(state.corrections),
        resync: state.resync,
    };
    state.exclusive(kind)
}

fn after_failure(
    facts: &AgentLimits,
    state: &mut RunState,
    error: ErrorRecord,
    now: Timestamp,
    retry_after_ms: Option<u64>,
) -> Vec<Effect> {
    if state.stop {
        return state.exclusive(EffectKind::End {
            as_: RunEnd::Stopped {},
        });
    }
    if !error.retryable || state.attempt > facts.model_retries {
        let as_ = RunEnd::Failed { error };
        return state.exclusive(EffectKind::End { as_ });
    }
    let wait = retry_after_ms.map_or_else(|| back_off(state.attempt), Duration::from_millis);
    state.attempt += 1;
    // The failed attempt has notified the hooks, and discarded the deltas of itself and
    // of an earlier process.
    state.first = false;
    state.resync = false;
    let until = now.saturating_add(wait);
    state.exclusive(EffectKind::Sleep { until })
}

/// Returns 1, 2, 4 s and so on.
fn back_off(attempt: u32) -> Duration {
    let seconds = 1u64
        .checked_shl(attempt.saturating_sub(1))
        .unwrap_or(u64::MAX);
    Duration::from_secs(seconds).min(MAX_BACK_OFF)
}
