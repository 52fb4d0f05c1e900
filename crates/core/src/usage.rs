//! The usage of a session: tokens, tools, sub-agents, and custom quantities that tools record.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{RunId, UsageId};
use crate::model::TokenUsage;
use crate::shared_str::SharedStr;
use crate::time::Timestamp;

/// One entry of a session's usage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageEntry {
    /// The id of the entry.
    pub id: UsageId,
    /// The run to which it belongs.
    pub run_id: RunId,
    /// The step to which it belongs.
    pub step: u32,
    /// When it was recorded.
    pub timestamp: Timestamp,
    /// The kind of usage.
    #[serde(flatten)]
    pub kind: UsageKind,
}

impl UsageEntry {
    /// The same usage as the parent of a persistent sub-agent records it; `None` for usage that is not handed up.
    pub(crate) fn as_sub_agents(&self, agent: &str) -> Option<Self> {
        let (UsageKind::Tokens {
            tokens,
            micro_dollars,
            ..
        }
        | UsageKind::Subagent {
            tokens,
            micro_dollars,
            ..
        }) = &self.kind
        else {
            return None;
        };
        let kind = UsageKind::Subagent {
            name: agent.to_owned(),
            tokens: *tokens,
            micro_dollars: *micro_dollars,
        };
        Some(Self {
            kind,
            ..self.clone()
        })
    }
}

/// The kind and amount of a usage entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum UsageKind {
    /// The tokens of a model call.
    Tokens {
        /// The name of the model.
        model: SharedStr,
        /// The tokens that it used.
        tokens: TokenUsage,
        /// Their price in millionths of a US dollar, if the model knows it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        micro_dollars: Option<u64>,
    },
    /// The run of a tool call.
    Tool {
        /// The name of the tool.
        name: SharedStr,
        /// Whether the call succeeded.
        success: bool,
        /// How long the call took, in milliseconds.
        duration_ms: u64,
    },
    /// The time that a person or a client took to answer.
    ClientToolWaitMs {
        /// The name of the tool.
        name: SharedStr,
        /// The time from the request to the answer, in milliseconds.
        wait_ms: u64,
    },
    /// The whole usage of a sub-agent.
    Subagent {
        /// The name of the agent.
        name: String,
        /// The tokens that it used, those of its own sub-agents included.
        tokens: TokenUsage,
        /// Their price, where it is known, in millionths of a US dollar.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        micro_dollars: Option<u64>,
    },
    /// A quantity that a tool recorded.
    Custom(CustomUsage),
}

/// A quantity that a tool recorded, in its own unit.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::CustomUsage;
///
/// async fn search(cx: &ToolCx) -> ToolResult<()> {
///     cx.record_usage(CustomUsage::new("search_requests", 1.0))
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CustomUsage {
    /// The name of the quantity, like `search_requests`.
    pub name: String,
    quantity: f64,
    /// More data about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl CustomUsage {
    /// Creates a quantity. A value that is not finite counts as 0.
    #[must_use]
    pub fn new(name: impl Into<String>, quantity: f64) -> Self {
        Self {
            name: name.into(),
            quantity: if quantity.is_finite() { quantity } else { 0.0 },
            data: None,
        }
    }

    /// Returns the quantity, which is always finite, because JSON has no other numbers.
    #[must_use]
    pub fn quantity(&self) -> f64 {
        self.quantity
    }
}

/// The sum of a session's entries.
///
/// ```
/// use helix_agents::prelude::*;
///
/// async fn cost(run: &Handle<String>) -> Result<(), Error> {
///     let usage = run.usage().await?;
///     println!("{} tokens, {} tool calls", usage.tokens.total(), usage.tools.calls);
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UsageRollup {
    /// All tokens, sub-agents included.
    pub tokens: TokenUsage,
    /// The counts of all tool calls.
    pub tools: ToolUsage,
    /// The price of all tokens whose price is known, in millionths of a US dollar; `None` if no price is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_dollars: Option<u64>,
}

/// The counts of tool calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolUsage {
    /// The number of all calls.
    pub calls: u64,
    /// The number of calls that did not succeed.
    pub failures: u64,
}

impl UsageRollup {
    /// Adds one entry to the sums.
    #[doc(hidden)]
    pub fn add(&mut self, entry: &UsageEntry) {
        if let UsageKind::Tokens {
            micro_dollars: Some(price),
            ..
        }
        | UsageKind::Subagent {
            micro_dollars: Some(price),
            ..
        } = &entry.kind
        {
            let sum = self.micro_dollars.unwrap_or_default();
            self.micro_dollars = Some(sum.saturating_add(*price));
        }
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

    /// A new variant does not compile until it has its name here, and then needs a golden sample.
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
