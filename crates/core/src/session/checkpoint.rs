//! Checkpoints: places to go back to.

use serde::{Deserialize, Serialize};

use super::SessionStatus;
use crate::id::{CheckpointId, RunId, SessionId, StepId};
use crate::stored::Stored;
use crate::time::Timestamp;

/// What a session was at the end of a step: a count of messages and a version of the state, never
/// copies of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Checkpoint {
    /// Names it.
    pub id: CheckpointId,
    /// Whose it is.
    pub session_id: SessionId,
    /// The run that wrote it.
    pub run_id: RunId,
    /// The steps of the turn so far. Not monotonic across turns.
    pub step_count: u32,
    /// How many messages there were.
    pub message_count: usize,
    /// Which version of the state it was.
    pub state_version: u64,
    /// The session's status.
    pub status: SessionStatus,
    /// The open step, when the run paused in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_step: Option<StepId>,
    /// When it was written.
    pub timestamp: Timestamp,
}

impl Stored for Checkpoint {
    const KIND: &'static str = "checkpoint";
    const VERSION: u32 = 1;
}

impl Checkpoint {
    /// A checkpoint at the end of a step.
    #[must_use]
    pub fn new(
        id: CheckpointId,
        session_id: SessionId,
        run_id: RunId,
        status: SessionStatus,
        timestamp: Timestamp,
    ) -> Self {
        Self {
            id,
            session_id,
            run_id,
            step_count: 0,
            message_count: 0,
            state_version: 0,
            status,
            open_step: None,
            timestamp,
        }
    }
}

/// What wrote a session's latest checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointSource {
    /// The end of a step.
    Staging,
    /// A save of the whole state.
    Save,
}
