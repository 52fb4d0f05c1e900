//! The file format of the scripted model.

use std::num::NonZeroUsize;
use std::sync::LazyLock;
use std::time::Duration;

use helix_agents_core::id::CallId;
use helix_agents_core::model::{ModelError, ModelErrorKind, TokenUsage};
use helix_agents_core::step::{FINISH_TOOL, StopReason};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::error::{Result, ScriptError};
use crate::template::{JsonTemplate, TextTemplate};

/// The replies of a scripted model, chosen by rules.
///
/// ```json
/// { "rules": [ { "match": "refund", "steps": [
///       { "thinking": "check first", "tool_calls": [ { "id": "c1", "name": "lookup", "arguments": { "id": 7 } } ] },
///       { "text": "Done: {{last_tool_result}}", "chunk_chars": 4, "delay_ms": 5 } ] } ],
///   "default": [ { "text": "Echo: {{last_user}}" } ] }
/// ```
///
/// The rule is the first whose `match` is a substring of the latest visible user message; if no
/// rule matches, `default` applies. The step is chosen by the number of assistant messages after
/// that user message. After the last step, and where no rule matches and there is no `default`, the
/// reply is the text `script ended`.
///
/// A step may have:
///
/// - `thinking`, `text`, `tool_calls` (`name`, `arguments`, `id`), `finish` (the arguments of a
///   call of `__finish__`), emitted in this order. An `id` may be left out or repeat; it is made
///   unique in the session.
/// - `chunk_chars`: the number of characters per delta, 8 by default. `delay_ms`: the delay between
///   two deltas, 0 by default.
/// - `stop_reason`: `tool_use` by default when the step makes calls, else `end_turn`.
/// - `usage`: `input`, `output`, `cached`, `reasoning`.
/// - `error`: `kind`; `attempts`, the number of attempts that fail, all of them by default;
///   `retry_after_ms`; `after_chars`, the number of characters of thinking and text before the
///   failure, 0 by default.
///
/// Texts, and strings inside arguments, may contain placeholders: `{{last_user}}`,
/// `{{last_tool_result}}`, `{{tool_result:ID}}` (the id as written in the script; the latest in
/// this turn), `{{turn}}` (the number of visible user messages), `{{state:/pointer}}`. A string is
/// filled in verbatim, any other value as compact JSON, a missing value as the empty string.
#[derive(Debug, Clone)]
pub struct Script {
    rules: Vec<Rule>,
    default: Vec<Step>,
}

impl Script {
    /// Reads a script from the text of its file.
    ///
    /// # Errors
    /// [`ScriptError`] names the line, what is wrong and what to write instead.
    pub fn parse(text: &str) -> Result<Self> {
        Self::from_file(serde_json::from_str(text))
    }

    /// Reads a script from a JSON value.
    ///
    /// # Errors
    /// [`ScriptError`] names what is wrong and what to write instead.
    pub fn from_value(value: Value) -> Result<Self> {
        Self::from_file(serde_json::from_value(value))
    }

    fn from_file(file: serde_json::Result<File>) -> Result<Self> {
        let File { rules, default } = file.map_err(|source| ScriptError::Unreadable { source })?;
        if rules.is_empty() && default.is_none() {
            return Err(ScriptError::Empty);
        }
        Ok(Self {
            rules,
            default: default.unwrap_or_default(),
        })
    }

    /// Whether any step calls a tool of this name. A `finish` is a call of
    /// [`FINISH_TOOL`](helix_agents_core::step::FINISH_TOOL).
    #[must_use]
    pub fn calls(&self, tool: &str) -> bool {
        let rules = self.rules.iter().flat_map(|rule| &rule.steps);
        let mut calls = rules.chain(&self.default).flat_map(Step::calls);
        calls.any(|(_, name, _)| name == tool)
    }

    /// Returns the steps for a turn that begins with this user message.
    pub(crate) fn steps_for(&self, user_text: &str) -> &[Step] {
        let mut rules = self.rules.iter();
        let rule = rules.find(|rule| user_text.contains(&rule.pattern));
        rule.map_or(&self.default, |rule| &rule.steps)
    }
}

/// The file format of a script.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rules: Vec<Rule>,
    default: Option<Vec<Step>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    #[serde(rename = "match")]
    pattern: String,
    steps: Vec<Step>,
}

/// One reply of the model.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) thinking: Option<TextTemplate>,
    pub(crate) text: Option<TextTemplate>,
    pub(crate) tool_calls: Vec<Call>,
    finish: Option<JsonTemplate>,
    #[serde(deserialize_with = "chunk_chars")]
    pub(crate) chunk_chars: NonZeroUsize,
    delay_ms: u64,
    stop_reason: Option<StopReason>,
    usage: Usage,
    error: Option<Failure>,
}

impl Default for Step {
    fn default() -> Self {
        const CHUNK_CHARS: NonZeroUsize = NonZeroUsize::new(8).unwrap();
        Self {
            thinking: None,
            text: None,
            tool_calls: Vec::new(),
            finish: None,
            chunk_chars: CHUNK_CHARS,
            delay_ms: 0,
            stop_reason: None,
            usage: Usage::default(),
            error: None,
        }
    }
}

impl Step {
    /// The step that is played when no scripted step is left.
    pub(crate) fn past_the_end() -> &'static Self {
        static STEP: LazyLock<Step> = LazyLock::new(|| Step {
            text: Some(TextTemplate::literal("script ended")),
            ..Step::default()
        });
        &STEP
    }

    /// Returns the id, tool name and arguments of each call, `__finish__` last.
    pub(crate) fn calls(&self) -> impl Iterator<Item = (Option<&CallId>, &str, &JsonTemplate)> {
        let tools = self.tool_calls.iter();
        let finish = self.finish.iter();
        tools
            .map(|call| (call.id.as_ref(), call.name.as_str(), &call.arguments))
            .chain(finish.map(|arguments| (None, FINISH_TOOL, arguments)))
    }

    pub(crate) fn delay(&self) -> Duration {
        Duration::from_millis(self.delay_ms)
    }

    pub(crate) fn stop_reason(&self) -> StopReason {
        self.stop_reason.unwrap_or(match self.calls().next() {
            Some(_) => StopReason::ToolUse,
            None => StopReason::EndTurn,
        })
    }

    pub(crate) fn usage(&self) -> TokenUsage {
        let mut tokens = TokenUsage::new(self.usage.input, self.usage.output);
        tokens.cached = self.usage.cached;
        tokens.reasoning = self.usage.reasoning;
        tokens
    }

    /// Returns the failure of this attempt, if it fails, and the number of characters before it.
    pub(crate) fn failure(&self, attempt: u32) -> Option<(usize, ModelError)> {
        let failure = self.error.as_ref()?;
        let which = match failure.attempts {
            Some(attempts) if attempt > attempts => return None,
            Some(attempts) => format!("the first {attempts}"),
            None => "all".to_owned(),
        };
        let detail = format!("the script fails {which} attempts of this step; this is {attempt}");
        let mut error = ModelError::new(failure.kind, detail);
        error.retry_after = failure.retry_after_ms.map(Duration::from_millis);
        Some((failure.after_chars, error))
    }
}

/// A tool call of a step.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    pub(crate) id: Option<CallId>,
    pub(crate) name: String,
    #[serde(default)]
    arguments: JsonTemplate,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Usage {
    input: u64,
    output: u64,
    cached: Option<u64>,
    reasoning: Option<u64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    kind: ModelErrorKind,
    attempts: Option<u32>,
    retry_after_ms: Option<u64>,
    #[serde(default)]
    after_chars: usize,
}

fn chunk_chars<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NonZeroUsize, D::Error> {
    let chars = usize::deserialize(deserializer)?;
    NonZeroUsize::new(chars).ok_or_else(|| {
        serde::de::Error::custom("`chunk_chars` is 0; write 1 or more, or leave it out")
    })
}
