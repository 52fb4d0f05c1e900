//! The events of a streamed reply, as far as they are read.

use helix_agents_core::model::TokenUsage;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Response {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) candidates: Vec<Candidate>,
    #[serde(default)]
    pub(super) prompt_feedback: Option<PromptFeedback>,
    #[serde(default)]
    pub(super) usage_metadata: Option<UsageMetadata>,
    #[serde(default)]
    pub(super) error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate {
    #[serde(default)]
    pub(super) index: u32,
    #[serde(default)]
    pub(super) content: Option<Content>,
    #[serde(default)]
    pub(super) finish_reason: Option<String>,
    #[serde(default)]
    pub(super) continuation_token: Option<String>,
}

#[derive(Deserialize, Default)]
pub(super) struct Content {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part {
    #[serde(default)]
    pub(super) text: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) thought: bool,
    #[serde(default)]
    pub(super) thought_signature: Option<String>,
    #[serde(default)]
    pub(super) function_call: Option<FunctionCall>,
    #[serde(default)]
    executable_code: Option<Value>,
    #[serde(default)]
    code_execution_result: Option<Value>,
    #[serde(default)]
    tool_call: Option<Value>,
    #[serde(default)]
    tool_response: Option<Value>,
}

impl Part {
    /// Returns what a tool of the provider itself did, with the name of its field. The provider expects it
    /// back.
    pub(super) fn of_gemini_alone(&mut self) -> Option<(&'static str, Value)> {
        let fields = [
            ("executableCode", &mut self.executable_code),
            ("codeExecutionResult", &mut self.code_execution_result),
            ("toolCall", &mut self.tool_call),
            ("toolResponse", &mut self.tool_response),
        ];
        let mut fields = fields.into_iter();
        fields.find_map(|(name, value)| Some((name, value.take()?)))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FunctionCall {
    #[serde(default)]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) args: Option<Value>,
    #[serde(default)]
    pub(super) partial_args: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) will_continue: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptFeedback {
    #[serde(default)]
    block_reason: Option<String>,
}

impl PromptFeedback {
    /// Whether the provider did not let the model read the prompt.
    pub(super) fn is_blocked(&self) -> bool {
        let reason = self.block_reason.as_deref();
        reason.is_some_and(|reason| !reason.is_empty() && !reason.ends_with("_UNSPECIFIED"))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsageMetadata {
    #[serde(default)]
    prompt_token_count: Option<u64>,
    #[serde(default)]
    tool_use_prompt_token_count: Option<u64>,
    #[serde(default)]
    cached_content_token_count: Option<u64>,
    #[serde(default)]
    candidates_token_count: Option<u64>,
    #[serde(default)]
    thoughts_token_count: Option<u64>,
}

impl From<UsageMetadata> for TokenUsage {
    fn from(usage: UsageMetadata) -> Self {
        let sum = |one: Option<u64>, other: Option<u64>| {
            one.unwrap_or_default()
                .saturating_add(other.unwrap_or_default())
        };
        let mut tokens = Self::new(
            sum(usage.prompt_token_count, usage.tool_use_prompt_token_count),
            sum(usage.candidates_token_count, usage.thoughts_token_count),
        );
        tokens.cached = usage.cached_content_token_count;
        tokens.reasoning = usage.thoughts_token_count;
        tokens
    }
}

/// Reads `null` as a value that is missing.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_blocked_for_a_reason() {
        let is_blocked = |feedback: &str| {
            let feedback: PromptFeedback = serde_json::from_str(feedback).unwrap();
            feedback.is_blocked()
        };
        assert!(is_blocked(r#"{"blockReason":"SAFETY"}"#));
        assert!(!is_blocked(r#"{"safetyRatings":[]}"#));
        assert!(!is_blocked(r#"{"blockReason":"BLOCK_REASON_UNSPECIFIED"}"#));
    }
}
