//! What a tool is, as data.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::schema::Schema;

/// Everything about a tool but its code.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolSpec {
    /// Unique in its agent.
    pub name: String,
    /// What the model reads.
    pub description: String,
    /// What it takes.
    pub input: Schema,
    /// What it gives, where that is known.
    pub output: Option<Schema>,
    /// Who runs it.
    pub executed_by: ExecutedBy,
    /// Whether a person must agree first.
    pub approval: ApprovalMode,
    /// Whether its result ends the turn.
    pub finish_with: bool,
    /// Whether running it twice under one idempotency key is the same as once.
    pub idempotent: bool,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// How long a person or a client may take to answer.
    pub deadline: Option<Duration>,
    /// How long the call itself may take.
    pub timeout: Option<Duration>,
    /// What to do about a call that may or may not have taken effect.
    pub on_unknown: OnUnknown,
    /// Whether there is code that can find that out.
    pub has_reconcile: bool,
    /// Whether the provider shall hold the model to the schema while it writes.
    pub strict: bool,
}

impl ToolSpec {
    /// Whether a call may be run again when nobody knows whether it took effect.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        self.idempotent || self.read_only
    }
}

/// Who runs a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutedBy {
    /// We do.
    #[default]
    Server,
    /// A browser or another program outside; the run waits for its answer.
    Client,
}

/// Whether a person must agree before a tool runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalMode {
    /// No.
    #[default]
    Never,
    /// Yes.
    Always,
    /// A rule decides for each call.
    When,
}

/// What happens with a call that started, has no result, and may not be run again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// The model reads that nobody knows.
    #[default]
    TellModel,
    /// The run waits for a person who looks, and whose answer becomes the result.
    Pause,
}
