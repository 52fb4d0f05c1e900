//! References to the sessions of sub-agents.

use serde::{Deserialize, Serialize};

use crate::id::{CallId, RunId, SessionId};
use crate::stored::Stored;
use crate::time::Timestamp;

/// The lifetime of a child session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildMode {
    /// The child answers one call and ends.
    #[default]
    Ephemeral,
    /// The child stays and can receive further messages.
    Persistent,
}

/// Where a child session runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildLocation {
    /// The child is in this store.
    #[default]
    Local,
    /// The child is on another server.
    Remote,
}

/// The status of a child, as its parent knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChildStatus {
    /// The child is running.
    Running,
    /// The child waits for a client or a person.
    Suspended,
    /// The child completed with its output.
    Completed,
    /// The child failed.
    Failed,
    /// The child was stopped.
    Interrupted,
}

/// The reference to a child session, as its parent stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubSessionRef {
    /// The id of the child session.
    pub session_id: SessionId,
    /// The agent of the child.
    pub agent_type: String,
    /// The call that created it.
    pub tool_call_id: CallId,
    /// The last known status of the child.
    pub status: ChildStatus,
    /// The lifetime of the child.
    #[serde(default)]
    pub mode: ChildMode,
    /// The name of a persistent child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether the calls that give a persistent child something to do wait for its outcome.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocking: bool,
    /// Where the child runs. Never changes.
    #[serde(default)]
    pub location: ChildLocation,
    /// The child's run for this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// When the child was created.
    pub created_at: Timestamp,
}

impl Stored for SubSessionRef {
    const KIND: &'static str = "child";
    const VERSION: u32 = 1;
}

impl SubSessionRef {
    /// Creates the reference to a local child that is running.
    #[must_use]
    #[doc(hidden)]
    pub fn new(
        session_id: SessionId,
        agent_type: impl Into<String>,
        tool_call_id: CallId,
        created_at: Timestamp,
    ) -> Self {
        Self {
            session_id,
            agent_type: agent_type.into(),
            tool_call_id,
            status: ChildStatus::Running,
            mode: ChildMode::default(),
            name: None,
            blocking: false,
            location: ChildLocation::default(),
            run_id: None,
            created_at,
        }
    }

    /// Notes what a run of the child has come to.
    #[must_use]
    pub(crate) fn noted(mut self, run: &RunId, status: ChildStatus) -> Self {
        self.run_id = Some(run.clone());
        self.status = status;
        self
    }
}

/// The name and the mode of a persistent child in its parent. They never change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PersistentChild {
    /// The name by which its parent addresses it.
    pub name: String,
    /// Whether the calls that give it something to do wait for its outcome. If not, the parent is told of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocking: bool,
    /// The call that created it.
    pub tool_call_id: CallId,
    /// The sessions above its parent that record what it uses, too, nearest first: those for which persistent children
    /// work in between.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<SessionAbove>,
}

/// A session that records what a persistent child uses that is further down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionAbove {
    /// The session.
    pub session_id: SessionId,
    /// The agent of its own child, under whose name it records the usage.
    pub agent_type: String,
}

impl SessionAbove {
    /// Names a session, and the agent of the child through which others work for it.
    #[must_use]
    pub fn new(session_id: SessionId, agent_type: impl Into<String>) -> Self {
        Self {
            session_id,
            agent_type: agent_type.into(),
        }
    }
}

impl PersistentChild {
    /// Creates the description of a persistent child.
    #[must_use]
    pub fn new(name: impl Into<String>, blocking: bool, tool_call_id: CallId) -> Self {
        Self {
            name: name.into(),
            blocking,
            tool_call_id,
            above: Vec::new(),
        }
    }
}

/// The stable address of a persistent child: that of its parent, and its name there. Only through the parent does it
/// lead to the session of the child, whose id is minted.
#[must_use]
pub fn companion_address(parent: &SessionId, name: &str) -> String {
    format!("{parent}-agent-{name}")
}

/// A child that a suspended run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChildWait {
    /// The id of the child session.
    pub session_id: SessionId,
    /// The agent of the child.
    pub agent_type: String,
    /// The instant since which the run waits.
    pub since: Timestamp,
}

impl ChildWait {
    /// Creates a wait for a child.
    #[must_use]
    pub fn new(session_id: SessionId, agent_type: impl Into<String>, since: Timestamp) -> Self {
        Self {
            session_id,
            agent_type: agent_type.into(),
            since,
        }
    }
}
