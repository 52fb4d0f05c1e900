//! The chunks that say how a run goes.

use helix_agents_core::stream::{Chunk, ChunkPayload, Sequence};

use super::{StreamTransformer, Tell};
use crate::UiChunk;
use crate::data::{
    CheckpointCreatedData, ExecutorSupersededData, RunInterruptedData, RunPausedData,
    RunResumedData, RunStartedData, StateConflictData, StepCommittedData, StepDiscardedData,
    StreamResyncData,
};

impl StreamTransformer {
    /// Chunks that say how the run goes.
    pub(super) fn control(&mut self, at: Sequence, chunk: &Chunk, out: &mut Vec<UiChunk>) {
        let is_past = self.options.is_past(at);
        match &chunk.payload {
            ChunkPayload::RunStarted { trigger, turn } => out.tell(&RunStartedData {
                run_id: chunk.base.run_id.clone(),
                turn: *turn,
                trigger: *trigger,
            }),
            ChunkPayload::RunResumed {} => out.tell(&RunResumedData {}),
            ChunkPayload::RunPaused {
                status,
                tool_call_ids,
            } => {
                self.close_step(out);
                out.tell(&RunPausedData {
                    status: *status,
                    tool_call_ids: tool_call_ids.clone(),
                });
            }
            ChunkPayload::RunInterrupted { reason } => {
                self.close_step(out);
                let reason = reason.clone();
                out.tell(&RunInterruptedData { reason });
            }
            ChunkPayload::CheckpointCreated { checkpoint_id } => {
                let checkpoint_id = checkpoint_id.clone();
                out.tell(&CheckpointCreatedData { checkpoint_id });
            }
            ChunkPayload::StepCommitted { message_count } => {
                self.close_step(out);
                let message_count = *message_count;
                out.tell(&StepCommittedData { message_count });
            }
            ChunkPayload::StateConflict { conflicts } => {
                let conflicts = conflicts.clone();
                out.tell(&StateConflictData { conflicts });
            }
            ChunkPayload::StepDiscarded { reason } => {
                let was_shown = self.step_has_content || self.options.may_show(self.step_begun, at);
                self.discard(out);
                let reason = reason.clone();
                out.tell(&StepDiscardedData {
                    reason: reason.clone(),
                });
                if was_shown && !is_past {
                    out.tell(&StreamResyncData { reason });
                }
            }
            ChunkPayload::StreamResync { reason } => {
                self.discard(out);
                // A message that takes the place of another one has nothing to take back.
                let was_shown = self.has_content || self.options.may_show(self.step_begun, at);
                if was_shown && !is_past {
                    let reason = reason.clone();
                    out.tell(&StreamResyncData { reason });
                }
            }
            ChunkPayload::ExecutorSuperseded {} => out.tell(&ExecutorSupersededData {}),
            _ => {}
        }
        let is_boundary = matches!(
            chunk.payload,
            ChunkPayload::RunStarted { .. }
                | ChunkPayload::RunPaused { .. }
                | ChunkPayload::StepCommitted { .. }
                | ChunkPayload::StepDiscarded { .. }
                | ChunkPayload::StreamResync { .. }
        );
        if is_boundary {
            self.step_begun = at;
        }
    }
}
