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
    quantity: f64,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl CustomUsage {
    /// So much of something. What is not a number counts as none of it.
    #[must_use]
    pub fn new(name: impl Into<String>, quantity: f64) -> Self {
        Self {
            name: name.into(),
            quantity: if quantity.is_finite() { quantity } else { 0.0 },
            data: None,
        }
    }

    /// How much of it: a finite number, for JSON has no other.
    #[must_use]
    pub fn quantity(&self) -> f64 {
        self.quantity
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::stored::{Stored, decode};

    /// A new variant does not compile until it has its name here, and then wants a golden sample.
    macro_rules! names {
        ($($variant:ident $name:literal)*) => {
            const NAMES: &[&str] = &[$($name),*];

            fn name(kind: &UsageKind) -> &'static str {
                match kind { $(UsageKind::$variant { .. } => $name),* }
            }
        };
    }

    names! {
        Tokens "tokens"
        Tool "tool"
        ClientToolWaitMs "client_tool_wait_ms"
        Subagent "subagent"
        Custom "custom"
    }

    #[test]
    fn every_kind_has_its_name_and_a_golden_sample() {
        assert_eq!((UsageEntry::KIND, UsageEntry::VERSION), ("usage", 1));
        let samples = include_str!("../tests/golden/usage.v1.jsonl");
        let mut seen = BTreeSet::new();
        for line in samples.lines() {
            let kind = decode::<UsageEntry>(line).unwrap().kind;
            let json = serde_json::to_value(&kind).unwrap();
            assert_eq!(json["kind"], name(&kind));
            seen.insert(name(&kind));
        }
        assert_eq!(seen, NAMES.iter().copied().collect());
    }
}
