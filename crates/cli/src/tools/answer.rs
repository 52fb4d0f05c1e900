//! Converts the response of a service to a result.

use helix_agents_core::state::StepWrites;
use helix_agents_core::tool::{ToolCx, ToolError, ToolResult};
use serde::Deserialize;
use serde_json::Value;

/// The content type of a response that also changes the session's state.
const WITH_WRITES: &str = "application/vnd.helix.tool+json";
/// The maximum length of an error text for the model.
const MAX_ERROR_BYTES: usize = 8 * 1024;

/// A successful response of a service.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) content_type: Option<String>,
    pub(super) body: Vec<u8>,
}

#[derive(Deserialize)]
struct WithWrites {
    #[serde(default)]
    result: Value,
    #[serde(default)]
    writes: Vec<Value>,
}

impl Answer {
    /// Returns the result, after applying the writes to the state.
    pub(super) fn into_result(self, cx: &ToolCx) -> ToolResult<Value> {
        let kind = self.content_type.as_deref().map(media_type);
        if kind.as_deref() == Some(WITH_WRITES) {
            return with_writes(&self.body, cx);
        }
        let text = String::from_utf8_lossy(&self.body).into_owned();
        let is_json = kind.is_none_or(|kind| kind.ends_with("/json") || kind.ends_with("+json"));
        match serde_json::from_str(&text) {
            Ok(value) if is_json => Ok(value),
            _ => Ok(Value::String(text)),
        }
    }
}

fn with_writes(body: &[u8], cx: &ToolCx) -> ToolResult<Value> {
    let unreadable = |error: String| {
        ToolError::tell_model(format!(
            "the call succeeded, but its response cannot be used: {error}"
        ))
    };
    let unread = |error: serde_json::Error| unreadable(error.to_string());
    let answer: WithWrites = serde_json::from_slice(body).map_err(unread)?;
    let writes = answer.writes.into_iter().map(as_state_op).collect();
    let writes: StepWrites = serde_json::from_value(Value::Array(writes)).map_err(unread)?;
    cx.edit_state(|draft| writes.iter().try_for_each(|write| draft.apply(write)))
        .map_err(|error| unreadable(error.to_string()))?;
    Ok(answer.result)
}

/// Converts a write to a state operation. The names of JSON Patch are accepted too: `remove`, and
/// `add`, which appends at a path that ends with `/-`.
fn as_state_op(mut write: Value) -> Value {
    let text = |write: &Value, key| write.get(key).and_then(Value::as_str).map(str::to_owned);
    let (op, path) = (text(&write, "op"), text(&write, "path").unwrap_or_default());
    let (op, path) = match (op.as_deref(), path.strip_suffix("/-")) {
        (Some("add"), Some(array)) => ("append", array.to_owned()),
        (Some("add"), None) => ("replace", path),
        (Some("remove"), _) => ("delete", path),
        _ => return write,
    };
    if let Some(fields) = write.as_object_mut() {
        fields.insert("op".to_owned(), Value::from(op));
        fields.insert("path".to_owned(), Value::from(path));
    }
    write
}

/// Returns the media type without its parameters.
pub(super) fn media_type(content_type: &str) -> String {
    let kind = content_type.split(';').next().unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}

/// Returns the error text for the model: the body of the response.
pub(super) fn refusal(status: u16, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    if text.trim().is_empty() {
        return format!("the service refused the call with status {status}");
    }
    shortened(&text).to_owned()
}

fn shortened(text: &str) -> &str {
    let mut end = text.len().min(MAX_ERROR_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Formats an error with its causes.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
