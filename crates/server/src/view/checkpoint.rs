//! The JSON form of checkpoints.

use crate::view::schemas::SessionStatusSchema;
use helix_agents_core::session::{Checkpoint, SessionStatus};
use helix_agents_core::time::Timestamp;
use helix_agents_core::{CheckpointId, RunId};
use serde::Serialize;
use utoipa::ToSchema;

/// A checkpoint to which a session can return.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheckpointView {
    #[schema(value_type = String)]
    id: CheckpointId,
    #[schema(value_type = String)]
    run_id: RunId,
    step_count: u32,
    message_count: usize,
    #[schema(value_type = SessionStatusSchema)]
    status: SessionStatus,
    #[schema(value_type = u64)]
    timestamp: Timestamp,
}

impl From<Checkpoint> for CheckpointView {
    fn from(checkpoint: Checkpoint) -> Self {
        Self {
            id: checkpoint.id,
            run_id: checkpoint.run_id,
            step_count: checkpoint.step_count,
            message_count: checkpoint.message_count,
            status: checkpoint.status,
            timestamp: checkpoint.timestamp,
        }
    }
}
