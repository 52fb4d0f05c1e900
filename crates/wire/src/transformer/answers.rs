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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use helix_agents_core::session::Answer;
    use helix_agents_core::stream::{Chunk, ChunkOrigin, ChunkPayload, Sequence, StoredChunk};
    use helix_agents_core::time::Timestamp;
    use helix_agents_core::{AgentId, ApprovalId, CallId, RunId, SessionId};
    use serde_json::json;

    use super::*;
    use crate::TransformerOptions;

    const AT: Timestamp = Timestamp::from_millis(1);

    fn call(answer: Option<Submission>) -> PendingCall {
        let session = SessionId::new("s").unwrap();
        let (run, id) = (RunId::new("r").unwrap(), CallId::new("c").unwrap());
        let mut call = PendingCall::client(session, run, id, "pay", json!({ "cents": 5 }), AT);
        call.answer = answer.map(|answer| Answer::new(answer, AT));
        call
    }

    /// What is shown of the answer of a call that the message has.
    fn shown(answer: Option<Submission>) -> Value {
        let session = SessionId::new("s").unwrap();
        let mut transformer = StreamTransformer::new(TransformerOptions::new(session.clone()));
        let agent = AgentId::new("a").unwrap();
        let origin = ChunkOrigin::new(agent, "a", session, RunId::new("r").unwrap(), 1);
        let asks = ChunkPayload::ToolApprovalRequest {
            tool_call_id: CallId::new("c").unwrap(),
            tool_name: "pay".into(),
            approval_id: ApprovalId::new("p").unwrap(),
            input: json!({ "cents": 5 }).into(),
            digest: call(None).digest,
        };
        let chunk = Chunk::new(Arc::new(origin), AT, asks);
        transformer.transform(&StoredChunk::new(Sequence(1), chunk));
        json!(transformer.answered(&call(answer)))
    }

    fn decided(approved: bool) -> Submission {
        Submission::ApprovalResponse {
            tool_call_id: CallId::new("c").unwrap(),
            approval_id: ApprovalId::new("p").unwrap(),
            approved,
            reason: None,
            digest: None,
            run_id: None,
        }
    }

    fn given(result: Option<Value>, error: Option<&str>) -> Submission {
        Submission::ClientToolResult {
            tool_call_id: CallId::new("c").unwrap(),
            result,
            error: error.map(str::to_owned),
            digest: None,
            run_id: None,
        }
    }

    #[test]
    fn an_answer_that_waits_for_others_is_shown() {
        let ours = json!({ "type": "tool-input-available", "toolCallId": "c", "toolName": "pay",
            "input": { "cents": 5 }, "providerExecuted": true, "dynamic": true });
        let denied = json!({ "type": "tool-output-denied", "toolCallId": "c" });
        assert_eq!(shown(None), json!([]));
        assert_eq!(shown(Some(decided(true))), json!([ours]));
        assert_eq!(shown(Some(decided(false))), json!([ours, denied]));
        let result = shown(Some(given(Some(json!(null)), None)));
        assert_eq!(result[0]["type"], "tool-output-available");
        assert_eq!(result[0]["output"], json!(null));
        let error = shown(Some(given(None, Some("closed"))));
        assert_eq!(error[0]["type"], "tool-output-error");
        assert_eq!(error[0]["errorText"], "closed");
    }

    #[test]
    fn a_call_that_the_message_does_not_have_is_left_out() {
        let session = SessionId::new("s").unwrap();
        let mut transformer = StreamTransformer::new(TransformerOptions::new(session));
        for answer in [decided(true), decided(false), given(Some(json!(1)), None)] {
            assert!(transformer.answered(&call(Some(answer))).is_empty());
        }
    }
}
