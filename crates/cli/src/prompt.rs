//! System prompts with values from the session's state.

use std::sync::Arc;

use helix_agents_core::step::SystemPrompt;
use serde_json::Value;

/// The start of a placeholder.
const OPEN: &str = "{{state:";

/// A system prompt; `{{state:/pointer}}` is replaced by a part of the session's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prompt {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    State(String),
}

/// The error of an invalid placeholder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{wrote}` in `system_prompt` is not a placeholder; write {{{{state:/pointer}}}}, like {{{{state:/customer}}}}"
)]
pub(crate) struct BadPlaceholder {
    wrote: String,
}

impl Prompt {
    /// Parses a prompt. Other braces are text.
    pub(crate) fn parse(text: &str) -> Result<Self, BadPlaceholder> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            let end = after.find("}}");
            let pointer = end.and_then(|end| after.get(..end)).filter(|pointer| {
                pointer.is_empty() || (pointer.starts_with('/') && !pointer.contains('\n'))
            });
            let Some(pointer) = pointer else {
                let shown: String = after.chars().take(24).collect();
                return Err(BadPlaceholder {
                    wrote: format!("{OPEN}{}", shown.lines().next().unwrap_or_default()),
                });
            };
            pieces.push(Piece::Text(before.to_owned()));
            pieces.push(Piece::State(pointer.to_owned()));
            rest = after.get(pointer.len() + 2..).unwrap_or_default();
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Self { pieces })
    }

    /// Returns the prompt for this state: a string is filled in verbatim, any other value as JSON,
    /// a missing value as the empty string.
    pub(crate) fn fill(&self, state: &Value) -> String {
        let mut filled = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::State(pointer) => match state.pointer(pointer) {
                    Some(Value::String(text)) => filled.push_str(text),
                    Some(value) => filled.push_str(&value.to_string()),
                    None => {}
                },
            }
        }
        filled
    }

    /// Converts the prompt for an agent.
    pub(crate) fn into_system_prompt(self) -> SystemPrompt {
        match self.pieces.as_slice() {
            [Piece::Text(text)] => SystemPrompt::from(text.as_str()),
            _ => SystemPrompt::Dynamic(Arc::new(move |state| self.fill(state))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_the_state_are_filled_in() {
        let prompt = Prompt::parse("For {{state:/name}} ({{state:/tags}}){{state:/no}}.").unwrap();
        let state = json!({ "name": "Ada", "tags": ["a", 1] });
        assert_eq!(prompt.fill(&state), r#"For Ada (["a",1])."#);
    }

    #[test]
    fn other_braces_are_text_and_a_bad_pointer_is_refused() {
        let prompt = Prompt::parse("{{name}} {x}").unwrap();
        assert_eq!(prompt.fill(&json!({})), "{{name}} {x}");
        for bad in ["{{state:name}}", "{{state:/x"] {
            assert!(Prompt::parse(bad).is_err(), "{bad}");
        }
    }
}
