//! Texts and JSON values with placeholders.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

const KNOWN: &str = "`{{last_user}}`, `{{last_tool_result}}`, `{{tool_result:ID}}`, `{{turn}}` or `{{state:/pointer}}`";

/// A placeholder that is filled in when the script replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Placeholder {
    /// The latest visible user message.
    LastUser,
    /// The latest result of any call.
    LastToolResult,
    /// This turn's latest result of the call that has this id in the script.
    ToolResult(String),
    /// The number of visible user messages.
    Turn,
    /// The part of the session's state at a JSON pointer.
    State(String),
}

/// The error for a placeholder with an unknown name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown placeholder `{{{{{inner}}}}}`; write {KNOWN}")]
pub(crate) struct UnknownPlaceholder {
    inner: String,
}

impl Placeholder {
    /// Parses the text between the braces; `None` if it is not meant as a placeholder.
    fn parse(inner: &str) -> Result<Option<Self>, UnknownPlaceholder> {
        let (name, argument) = match inner.split_once(':') {
            Some((name, argument)) => (name, Some(argument)),
            None => (inner, None),
        };
        match (name, argument) {
            ("last_user", None) => Ok(Some(Self::LastUser)),
            ("last_tool_result", None) => Ok(Some(Self::LastToolResult)),
            ("tool_result", Some(id)) if !id.is_empty() => Ok(Some(Self::ToolResult(id.into()))),
            ("turn", None) => Ok(Some(Self::Turn)),
            ("state", Some(pointer)) if pointer.is_empty() || pointer.starts_with('/') => {
                Ok(Some(Self::State(pointer.into())))
            }
            (name, _) if is_word(name.trim()) => Err(UnknownPlaceholder {
                inner: inner.to_owned(),
            }),
            _ => Ok(None),
        }
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Placeholder(Placeholder),
}

/// Literals and placeholders in order; adjacent literals are merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Pieces(Vec<Piece>);

impl Pieces {
    fn push_literal(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(Piece::Literal(so_far)) => so_far.push_str(text),
            _ => self.0.push(Piece::Literal(text.to_owned())),
        }
    }

    /// Appends a text; `write` escapes its literal parts.
    fn push_text(
        &mut self,
        text: &str,
        write: fn(&str) -> Cow<'_, str>,
    ) -> Result<(), UnknownPlaceholder> {
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("}}") {
            // The nearest braces belong together: in `{{{turn}}}` the outer ones are text.
            let found = match before.rsplit_once("{{") {
                Some((literal, inner)) => Placeholder::parse(inner)?.map(|found| (literal, found)),
                None => None,
            };
            match found {
                Some((literal, placeholder)) => {
                    self.push_literal(&write(literal));
                    self.0.push(Piece::Placeholder(placeholder));
                }
                None => {
                    self.push_literal(&write(before));
                    self.push_literal("}}");
                }
            }
            rest = after;
        }
        self.push_literal(&write(rest));
        Ok(())
    }

    /// Appends the compact JSON of a value whose strings may contain placeholders.
    fn push_json(&mut self, value: &Value) -> Result<(), UnknownPlaceholder> {
        match value {
            Value::String(text) => {
                self.push_literal("\"");
                self.push_text(text, escaped)?;
                self.push_literal("\"");
            }
            Value::Array(items) => {
                self.push_literal("[");
                for (index, item) in items.iter().enumerate() {
                    self.push_literal(if index > 0 { "," } else { "" });
                    self.push_json(item)?;
                }
                self.push_literal("]");
            }
            Value::Object(map) => {
                self.push_literal("{");
                for (index, (key, item)) in map.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    self.push_literal(&format!("{comma}\"{}\":", escaped(key)));
                    self.push_json(item)?;
                }
                self.push_literal("}");
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                self.push_literal(&value.to_string());
            }
        }
        Ok(())
    }

    /// Returns the text with every placeholder replaced by its `value`, escaped by `write`.
    fn fill<'v>(
        &self,
        value: impl Fn(&Placeholder) -> Cow<'v, str>,
        write: fn(&str) -> Cow<'_, str>,
    ) -> Cow<'_, str> {
        match self.0.as_slice() {
            [] => Cow::Borrowed(""),
            [Piece::Literal(text)] => Cow::Borrowed(text),
            pieces => {
                let mut filled = String::new();
                for piece in pieces {
                    match piece {
                        Piece::Literal(text) => filled.push_str(text),
                        Piece::Placeholder(placeholder) => {
                            filled.push_str(&write(&value(placeholder)));
                        }
                    }
                }
                Cow::Owned(filled)
            }
        }
    }
}

fn verbatim(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}

/// Escapes a text for use inside a JSON string.
fn escaped(text: &str) -> Cow<'_, str> {
    let mut quoted = Value::from(text).to_string();
    quoted.pop();
    quoted.remove(0);
    Cow::Owned(quoted)
}

/// A text with placeholders.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct TextTemplate(Pieces);

impl TextTemplate {
    /// Creates a text without placeholders; braces in it are literal.
    pub(crate) fn literal(text: &str) -> Self {
        Self(Pieces(vec![Piece::Literal(text.to_owned())]))
    }

    /// Returns the text with its placeholders filled in.
    pub(crate) fn fill<'v>(&self, value: impl Fn(&Placeholder) -> Cow<'v, str>) -> Cow<'_, str> {
        self.0.fill(value, verbatim)
    }
}

impl TryFrom<String> for TextTemplate {
    type Error = UnknownPlaceholder;

    fn try_from(text: String) -> Result<Self, UnknownPlaceholder> {
        let mut pieces = Pieces::default();
        pieces.push_text(&text, verbatim)?;
        Ok(Self(pieces))
    }
}

/// A JSON value with placeholders inside its strings. A filled-in value cannot leave its string.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Value")]
pub(crate) struct JsonTemplate(Pieces);

impl JsonTemplate {
    /// Returns the compact JSON text with its placeholders filled in.
    pub(crate) fn fill<'v>(&self, value: impl Fn(&Placeholder) -> Cow<'v, str>) -> Cow<'_, str> {
        self.0.fill(value, escaped)
    }
}

impl Default for JsonTemplate {
    /// Returns the empty object.
    fn default() -> Self {
        Self(Pieces(vec![Piece::Literal("{}".to_owned())]))
    }
}

impl TryFrom<Value> for JsonTemplate {
    type Error = UnknownPlaceholder;

    fn try_from(value: Value) -> Result<Self, UnknownPlaceholder> {
        let mut pieces = Pieces::default();
        pieces.push_json(&value)?;
        Ok(Self(pieces))
    }
}
