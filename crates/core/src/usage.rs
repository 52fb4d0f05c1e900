//! What a session used: tokens, tools, sub-agents, and whatever a tool records.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{RunId, UsageId};
use crate::model::TokenUsage;
use crate::time::Timestamp;

/// One entry of a session's usage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UsageEntry {
    /// Names the entry.
    pub id: UsageId,
    /// The run it belongs to.
    pub run_id: RunId,
    /// The step it belongs to.
    pub step: u32,
    /// When it was recorded.
    pub timestamp: Timestamp,
    /// What was used.
    #[serde(flatten)]
    pub kind: UsageKind,
}

impl UsageEntry {
    /// An entry.
    #[must_use]
    pub fn new(
        id: UsageId,
        run_id: RunId,
        step: u32,
        timestamp: Timestamp,
        kind: UsageKind,
    ) -> Self {
        Self {
            id,
            run_id,
            step,
            timestamp,
            kind,
        }
    }
}

/// What was used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum UsageKind {
    /// A model call.
    Tokens {
        /// The model.
        model: String,
        /// Its tokens.
        tokens: TokenUsage,
    },
    /// A tool call.
    Tool {
        /// The tool.
        name: String,
        /// Whether it gave a result.
        success: bool,
        /// How long it took.
        duration_ms: u64,
    },
    /// How long a person or a client took to answer.
    ClientToolWaitMs {
        /// The tool.
        name: String,
        /// How long it was.
        wait_ms: u64,
    },
    /// A sub-agent's whole usage.
    Subagent {
        /// The agent.
        name: String,
        /// Its tokens.
        tokens: TokenUsage,
    },
    /// What a tool recorded.
    Custom(CustomUsage),
}

/// Something a tool used, in a unit of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CustomUsage {
    /// What it is, like `search_requests`.
    pub name: String,
    /// How much of it.
    pub quantity: f64,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl CustomUsage {
    /// So much of something.
    #[must_use]
    pub fn new(name: impl Into<String>, quantity: f64) -> Self {
        Self {
            name: name.into(),
            quantity,
            data: None,
        }
    }
}

/// The sum of a session's entries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UsageRollup {
    /// All tokens, sub-agents included.
    pub tokens: TokenUsage,
    /// All tool calls.
    pub tools: ToolUsage,
}

/// Tool calls, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolUsage {
    /// All of them.
    pub calls: u64,
    /// Those without a result.
    pub failures: u64,
}

impl UsageRollup {
    /// Adds one entry.
    pub fn add(&mut self, entry: &UsageEntry) {
        match &entry.kind {
            UsageKind::Tokens { tokens, .. } | UsageKind::Subagent { tokens, .. } => {
                self.tokens += *tokens;
            }
            UsageKind::Tool { success, .. } => {
                self.tools.calls += 1;
                self.tools.failures += u64::from(!success);
            }
            UsageKind::ClientToolWaitMs { .. } | UsageKind::Custom(_) => {}
        }
    }
}

impl<'a> FromIterator<&'a UsageEntry> for UsageRollup {
    fn from_iter<I: IntoIterator<Item = &'a UsageEntry>>(entries: I) -> Self {
        let mut rollup = Self::default();
        entries.into_iter().for_each(|entry| rollup.add(entry));
        rollup
    }
}
