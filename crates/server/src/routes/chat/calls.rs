//! The calls of a message that a client goes on with.

use std::collections::HashSet;

use helix_agents_wire::{IncomingMessage, UiChunk};
use serde_json::Value;

/// Which calls a client has that goes on with a message. A stock client ends the stream with an error at the output of
/// a call that its message does not have, and at arguments whose beginning was in another stream.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    has: HashSet<String>,
    streaming: HashSet<String>,
}

impl Calls {
    /// The calls of a message.
    pub(super) fn of(message: &IncomingMessage) -> Self {
        let parts = message.parts.iter();
        let ids = parts.filter_map(|part| part.get("toolCallId").and_then(Value::as_str));
        Self {
            has: ids.map(str::to_owned).collect(),
            streaming: HashSet::new(),
        }
    }

    /// Whether the client can take a chunk. The chunks are those of its stream, in order.
    pub(super) fn take(&mut self, chunk: &UiChunk) -> bool {
        match chunk {
            UiChunk::ToolInputStart { tool_call_id, .. } => {
                self.has.insert(tool_call_id.clone());
                self.streaming.insert(tool_call_id.clone());
                true
            }
            UiChunk::ToolInputAvailable { tool_call_id, .. }
            | UiChunk::ToolInputError { tool_call_id, .. } => {
                self.has.insert(tool_call_id.clone());
                true
            }
            UiChunk::ToolInputDelta { tool_call_id, .. } => self.streaming.contains(tool_call_id),
            UiChunk::ToolApprovalRequest { tool_call_id, .. }
            | UiChunk::ToolOutputAvailable { tool_call_id, .. }
            | UiChunk::ToolOutputError { tool_call_id, .. }
            | UiChunk::ToolOutputDenied { tool_call_id } => self.has.contains(tool_call_id),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn delta(id: &str) -> UiChunk {
        UiChunk::ToolInputDelta {
            tool_call_id: id.to_owned(),
            input_text_delta: "{".to_owned(),
        }
    }

    fn output(id: &str) -> UiChunk {
        UiChunk::ToolOutputAvailable {
            tool_call_id: id.to_owned(),
            output: json!(1),
            provider_executed: None,
            dynamic: true,
        }
    }

    #[test]
    fn only_what_a_message_can_show_is_taken() {
        let message = json!({ "id": "m", "role": "assistant", "parts": [{ "type": "dynamic-tool", "toolCallId": "a" }] });
        let mut calls = Calls::of(&serde_json::from_value(message).unwrap());
        // The call `a` is in the message, its arguments began in another stream; `b` is in none.
        let taken: Vec<_> = ["a", "b"]
            .into_iter()
            .map(|id| (calls.take(&delta(id)), calls.take(&output(id))))
            .collect();
        assert_eq!(taken, [(false, true), (false, false)]);
        let start = UiChunk::ToolInputStart {
            tool_call_id: "b".to_owned(),
            tool_name: "look".to_owned(),
            dynamic: true,
        };
        assert!(calls.take(&start) && calls.take(&delta("b")) && calls.take(&output("b")));
        let available = UiChunk::ToolInputAvailable {
            tool_call_id: "c".to_owned(),
            tool_name: "look".to_owned(),
            input: json!({}),
            provider_executed: Some(true),
            dynamic: true,
        };
        assert!(calls.take(&available) && calls.take(&output("c")));
        assert!(!calls.take(&delta("c")));
    }
}
