//! Requests to stop a run.

use serde::{Deserialize, Serialize};

use crate::id::RunId;
use crate::stored::Stored;
use crate::time::Timestamp;

/// How a run is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopKind {
    /// It ends where it is, keeps what it has, and can be continued.
    Interrupt,
    /// It fails.
    Abort,
}

/// A durable request to stop one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct StopRequest {
    /// The run; another run of the session does not heed it.
    pub run_id: RunId,
    /// How.
    pub kind: StopKind,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when.
    pub requested_at: Timestamp,
}

impl Stored for StopRequest {
    const KIND: &'static str = "stop";
    const VERSION: u32 = 1;
}

impl StopRequest {
    /// A request without a reason.
    #[must_use]
    pub fn new(run_id: RunId, kind: StopKind, requested_at: Timestamp) -> Self {
        Self {
            run_id,
            kind,
            reason: None,
            requested_at,
        }
    }
}
