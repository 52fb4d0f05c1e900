//! The statuses of sessions and runs.

use serde::{Deserialize, Serialize};

/// Where a session stands.
///
/// A session that waits for a client or a person is `active`; its pending entries are the signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionStatus {
    /// A run goes on, or waits for an answer.
    Active,
    /// The last turn is completed. It can be continued.
    Completed,
    /// The last turn failed. It can be retried.
    Failed,
    /// The last turn was stopped. It can be continued.
    Interrupted,
    /// A budget is used up.
    Paused,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunStatus {
    /// It goes on.
    Running,
    /// It ended its turn.
    Completed,
    /// It failed.
    Failed,
    /// It was stopped.
    Interrupted,
    /// It ended because calls wait for a client or a person.
    SuspendedClientTool,
    /// It ended because children wait.
    SuspendedAwaitingChildren,
    /// It ended because calls wait while siblings of theirs are finished.
    SuspendedStepPartial,
}

impl RunStatus {
    /// Whether the run ended because something waits.
    #[must_use]
    pub fn is_suspended(self) -> bool {
        matches!(
            self,
            Self::SuspendedClientTool
                | Self::SuspendedAwaitingChildren
                | Self::SuspendedStepPartial
        )
    }

    /// Whether the run has ended.
    #[must_use]
    pub fn is_ended(self) -> bool {
        self != Self::Running
    }
}
