//! Requests to stop a run.

use serde::{Deserialize, Serialize};

use crate::error::{ErrorCode, ErrorRecord};
use crate::id::RunId;
use crate::stored::Stored;
use crate::time::Timestamp;

/// The way in which a run is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopKind {
    /// The run ends where it is, keeps its results, and can be continued.
    Interrupt,
    /// The run fails.
    Abort,
}

/// A durable request to stop one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct StopRequest {
    /// The run to stop; it does not affect another run of the session.
    pub run_id: RunId,
    /// The way in which to stop the run.
    pub kind: StopKind,
    /// The reason that the caller gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the stop was requested.
    pub requested_at: Timestamp,
}

impl Stored for StopRequest {
    const KIND: &'static str = "stop";
    const VERSION: u32 = 1;
}

impl StopRequest {
    /// Creates a stop request without a reason.
    #[must_use]
    #[doc(hidden)]
    pub fn new(run_id: RunId, kind: StopKind, requested_at: Timestamp) -> Self {
        Self {
            run_id,
            kind,
            reason: None,
            requested_at,
        }
    }

    /// Returns the error of the run that an abort ends.
    pub(crate) fn abort_error(&self) -> ErrorRecord {
        let reason = self.reason.as_deref().unwrap_or("the run was aborted");
        ErrorRecord::new(ErrorCode::FrameworkCancelled, reason)
    }
}
