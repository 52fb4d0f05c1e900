//! References to the sessions of sub-agents.

use serde::{Deserialize, Serialize};

use crate::id::{CallId, RunId, SessionId};
use crate::stored::Stored;
use crate::time::Timestamp;

/// How a child relates to its parent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildMode {
    /// It answers one call and is done.
    #[default]
    Ephemeral,
    /// It stays and can be spoken to again.
    Persistent,
}

/// Where a child runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChildLocation {
    /// In this store.
    #[default]
    Local,
    /// On another server.
    Remote,
}

/// What the parent knows of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChildStatus {
    /// It runs.
    Running,
    /// It waits for somebody.
    Suspended,
    /// It gave its output.
    Completed,
    /// It failed.
    Failed,
    /// It was stopped.
    Interrupted,
}

/// A child session, as its parent keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubSessionRef {
    /// The child.
    pub session_id: SessionId,
    /// Which agent it is.
    pub agent_type: String,
    /// The call that made it.
    pub tool_call_id: CallId,
    /// What is known of it.
    pub status: ChildStatus,
    /// How it relates to its parent.
    #[serde(default)]
    pub mode: ChildMode,
    /// The name of a persistent child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where it runs. Never changes.
    #[serde(default)]
    pub location: ChildLocation,
    /// The child's run for this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// When it was made.
    pub created_at: Timestamp,
}

impl Stored for SubSessionRef {
    const KIND: &'static str = "child";
    const VERSION: u32 = 1;
}

impl SubSessionRef {
    /// A local child that runs.
    #[must_use]
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
            location: ChildLocation::default(),
            run_id: None,
            created_at,
        }
    }
}

/// A child that a paused run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChildWait {
    /// The child.
    pub session_id: SessionId,
    /// Which agent it is.
    pub agent_type: String,
    /// Since when.
    pub since: Timestamp,
}

impl ChildWait {
    /// A wait that begins.
    #[must_use]
    pub fn new(session_id: SessionId, agent_type: impl Into<String>, since: Timestamp) -> Self {
        Self {
            session_id,
            agent_type: agent_type.into(),
            since,
        }
    }
}
