//! Checkpoints: points of a session that it can be rewound to.

use serde::{Deserialize, Serialize};

use super::SessionStatus;
use crate::id::{CheckpointId, RunId, SessionId, StepId};
use crate::stored::Stored;
use crate::time::Timestamp;

/// A point in the history of a session: a message count and a state version, never copies of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// The id of the checkpoint.
    pub id: CheckpointId,
    /// The session to which it belongs.
    pub session_id: SessionId,
    /// The run that wrote it.
    pub run_id: RunId,
    /// The number of steps in the turn so far. Not monotonic across turns.
    pub step_count: u32,
    /// The number of messages at this point.
    pub message_count: usize,
    /// The version of the state at this point.
    pub state_version: u64,
    /// The status of the session at this point.
    pub status: SessionStatus,
    /// The open step, if the run suspended in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_step: Option<StepId>,
    /// When the checkpoint was written.
    pub timestamp: Timestamp,
}

impl Stored for Checkpoint {
    const KIND: &'static str = "checkpoint";
    const VERSION: u32 = 1;
}

/// The operation that wrote a session's latest checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointSource {
    /// The end of a step.
    Staging,
    /// A save of the whole state.
    Save,
}
