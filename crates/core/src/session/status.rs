//! The statuses of sessions and runs.

use serde::{Deserialize, Serialize};

/// The status of a session.
///
/// A session that waits for a client or a person is `active`; its pending calls show that it waits.
///
/// ```
/// use helix_agents::{SessionQuery, SessionStatus};
///
/// let failed = SessionQuery { status: vec![SessionStatus::Failed], ..SessionQuery::default() };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionStatus {
    /// A run is running, or waits for an answer.
    Active,
    /// The last turn is completed. The session can be continued.
    Completed,
    /// The last turn failed. It can be retried.
    Failed,
    /// The last turn was stopped. The session can be continued.
    Interrupted,
    /// A budget is used up.
    Paused,
}

/// The status of a run.
///
/// ```
/// use helix_agents::RunStatus;
///
/// assert!(RunStatus::Completed.is_ended());
/// assert!(RunStatus::SuspendedClientTool.is_suspended());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunStatus {
    /// The run is running.
    Running,
    /// The run completed its turn.
    Completed,
    /// The run failed.
    Failed,
    /// The run was stopped.
    Interrupted,
    /// The run ended because calls wait for a client or a person.
    SuspendedClientTool,
    /// The run ended because child sessions wait.
    SuspendedAwaitingChildren,
    /// The run ended because calls wait while other calls of the step are finished.
    SuspendedStepPartial,
}

impl RunStatus {
    /// Whether the run ended because calls or children wait.
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
