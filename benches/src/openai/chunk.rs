//! The events of a streamed chat completion, read without copying their texts.

use std::borrow::Cow;

use serde::Deserialize;

use crate::sqlite::Outcome;

/// One event of a streamed reply.
#[derive(Debug, Deserialize)]
pub(crate) struct ChatChunk<'a> {
    #[serde(borrow)]
    pub(crate) choices: Vec<Choice<'a>>,
    pub(crate) usage: Option<Usage>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Choice<'a> {
    #[serde(borrow)]
    pub(crate) delta: Delta<'a>,
}

/// The text or the calls that one event adds to the reply.
#[derive(Debug, Deserialize)]
pub(crate) struct Delta<'a> {
    #[serde(borrow)]
    pub(crate) content: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(crate) tool_calls: Vec<CallDelta<'a>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct CallDelta<'a> {
    pub(crate) index: usize,
    /// Only in the first event of a call.
    #[serde(borrow)]
    pub(crate) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) function: FunctionDelta<'a>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FunctionDelta<'a> {
    #[serde(borrow)]
    pub(crate) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) arguments: Text<'a>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Usage {
    pub(crate) prompt_tokens: u64,
    pub(crate) completion_tokens: u64,
}

/// A text that is borrowed unless it has escapes. An `Option<Cow<str>>` would always copy it.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

impl<'a> ChatChunk<'a> {
    /// Reads an event; `None` for the mark that ends a reply.
    pub(crate) fn read(event: &'a [u8]) -> Outcome<Option<Self>> {
        if event == b"[DONE]" {
            return Ok(None);
        }
        Ok(Some(serde_json::from_slice(event)?))
    }
}
