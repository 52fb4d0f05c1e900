//! The writes of a step, applied to the state.

use std::sync::Arc;

use serde_json::Value;

use super::PerformError;
use super::hooks::Hooks;
use super::patches::{Streamed, corrections};
use super::scope::{EffectContext, Scope};
use crate::entries::may_have_begun;
use crate::session::{CallPhase, OpenCall, OpenStep};
use crate::state::{ArrayMode, StateConflict, StateTracker, StepWrites, Writer, merge_writes};
use crate::stream::ChunkPayload;

/// The writes of the calls of a step, merged and applied, and those that hooks add.
///
/// The state itself is not copied: what was written lies over it.
pub(super) struct Applied {
    before: Arc<Value>,
    state: StateTracker,
    pub(super) writes: StepWrites,
    conflicts: Vec<StateConflict>,
    /// Whether a call was begun by a process that is gone, which may have streamed patches.
    was_interrupted: bool,
}

impl Applied {
    /// Whether a step does nothing to the state, beside what hooks may write: nobody wrote, and readers
    /// have what is committed.
    pub(super) fn is_nothing(first: &StepWrites, open: &OpenStep) -> bool {
        let is_nothing = |call: &OpenCall| call.writes.is_empty() && !may_have_streamed(call);
        first.is_empty() && open.calls.iter().all(is_nothing)
    }

    /// Applies what an effect wrote, and then what the calls of the step wrote.
    pub(super) fn new(
        before: &Arc<Value>,
        first: StepWrites,
        open: &OpenStep,
    ) -> Result<Self, PerformError> {
        let merged = merge_writes(before, writers(open));
        let mut writes = first;
        writes.extend(merged.writes);
        Ok(Self {
            before: Arc::clone(before),
            state: StateTracker::after(Arc::clone(before), &writes, ArrayMode::Delta)?,
            writes,
            conflicts: merged.conflicts,
            was_interrupted: open.calls.iter().any(may_have_streamed),
        })
    }

    /// Hooks over the state as it is with all that was written.
    pub(super) fn hooks<'a>(&self, cx: EffectContext<'a>) -> Result<Hooks<'a>, PerformError> {
        Hooks::after(cx, &self.before, &self.writes)
    }

    /// Adds what hooks wrote on top.
    pub(super) fn add(&mut self, hooks: &Hooks<'_>) -> Result<(), PerformError> {
        let by_hooks = hooks.writes()?;
        self.state
            .update(|draft| by_hooks.iter().try_for_each(|op| draft.apply(op)))?;
        self.writes.extend(by_hooks);
        Ok(())
    }

    /// The writes, once the state is of no more use here: whoever holds it keeps others from
    /// changing it in place.
    pub(super) fn into_writes(self) -> StepWrites {
        self.writes
    }

    /// The chunks that bring readers from what they have, by what was streamed, to what is committed.
    pub(super) async fn told(
        &self,
        scope: Scope<'_>,
        streamed: Streamed<'_>,
    ) -> Result<Vec<ChunkPayload>, PerformError> {
        let mut told = Vec::new();
        if !self.writes.is_empty() || self.was_interrupted {
            let patches = corrections(scope, streamed, &self.before, &self.state).await?;
            if !patches.is_empty() {
                told.extend(scope.ports.bounds().state_patches(patches));
            }
        }
        if !self.conflicts.is_empty() {
            let conflicts = self.conflicts.clone();
            told.push(ChunkPayload::StateConflict { conflicts });
        }
        Ok(told)
    }
}

/// Whether a call may have streamed patches and not written them. One that a child works on streams none: that it
/// began is noted because a child is started once.
fn may_have_streamed(call: &OpenCall) -> bool {
    call.child.is_none() && may_have_begun(call)
}

/// The writes of each call, in the model's order.
pub(super) fn writers(open: &OpenStep) -> Vec<Writer> {
    let calls = open.calls().enumerate();
    calls
        .filter(|(_, (_, open))| !open.writes.is_empty())
        .map(|(order, (call, open))| {
            // A call of the last phase saw what the others wrote, so it comes after them.
            let order = match open.phase {
                CallPhase::Finish => order.saturating_add(usize::MAX / 2),
                CallPhase::Regular | CallPhase::Companion => order,
            };
            Writer {
                order,
                name: call.id.as_str().to_owned(),
                writes: open.writes.clone(),
            }
        })
        .collect()
}
