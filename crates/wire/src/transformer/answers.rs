//! Answers that wait with their run for others.

use helix_agents_core::session::{PendingCall, Submission};
use serde_json::Value;

use super::StreamTransformer;
use crate::UiChunk;

impl StreamTransformer {
    /// Shows the answer of a call whose run still waits for others; nothing for a call without one.
    ///
    /// The stream has it only once the run goes on. Until then a page that is loaded again would ask for it once
    /// more, and a stock client would not send the other answers: it waits until each call of a step has its own.
    /// A call that was decided about is shown as the server's, which leaves it out of that.
    pub fn answered(&mut self, call: &PendingCall) -> Vec<UiChunk> {
        let mut out = Vec::new();
        let Some(answer) = &call.answer else {
            return out;
        };
        let id = self.wire_id_in(&call.session_id, &call.tool_call_id);
        let at = answer.submitted_at;
        match &answer.submission {
            Submission::ClientToolResult { result, error, .. } => {
                let ended = match (result, error) {
                    (Some(result), _) => (result, None),
                    (None, error) => (&Value::Null, Some(error.as_deref().unwrap_or_default())),
                };
                self.output(&id, ended, at, &mut out);
            }
            Submission::ApprovalResponse { approved, .. } => {
                if !self.calls.contains_key(&id) {
                    return out;
                }
                out.push(UiChunk::ToolInputAvailable {
                    tool_call_id: id.clone(),
                    tool_name: call.tool_name.to_string(),
                    input: call.input.clone().into_value(),
                    provider_executed: Some(true),
                    dynamic: true,
                });
                if !approved {
                    self.denied.insert(id.clone());
                    self.output(&id, (&Value::Null, Some("")), at, &mut out);
                }
            }
            _ => {}
        }
        out
    }
}
