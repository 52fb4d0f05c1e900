//! The calls of a bubble: their arguments, what they wait for, and how they end.

use helix_agents_core::step::FINISH_TOOL;
use helix_agents_core::stream::{Chunk, ChunkPayload, StoredChunk};
use helix_agents_core::time::Timestamp;
use helix_agents_core::{ApprovalId, CallId, SessionId};
use serde_json::{Value, json};

use super::{StreamTransformer, Tell};
use crate::data::{ApprovalData, Named, ToolTimingData};
use crate::{ToolKind, UiChunk};

/// The largest arguments that are kept while they stream, to be shown if the call ends before they were read.
const MAX_ARGUMENTS: usize = 64 * 1024;

/// A call that the client knows.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// The session that made it.
    pub(super) owner: SessionId,
    pub(super) name: String,
    pub(super) is_client: bool,
    /// Whether the server does not run it without an answer.
    pub(super) waits: bool,
    /// The text of its arguments while they stream.
    pub(super) arguments: String,
    pub(super) is_available: bool,
    pub(super) is_done: bool,
    pub(super) started_at: Option<Timestamp>,
}

impl StreamTransformer {
    pub(super) fn arguments_begin(
        &mut self,
        chunk: &Chunk,
        tool: &str,
        id: &CallId,
        out: &mut Vec<UiChunk>,
    ) {
        let id = self.wire_id(chunk, id);
        if tool == FINISH_TOOL || self.calls.contains_key(&id) {
            return;
        }
        self.close_blocks(out);
        self.open_step(out);
        let call = self.call_of(chunk, tool);
        self.calls.insert(id.clone(), call);
        out.push(UiChunk::ToolInputStart {
            tool_call_id: id,
            tool_name: tool.to_owned(),
            dynamic: true,
        });
    }

    pub(super) fn arguments(&mut self, id: &str, delta: &str, out: &mut Vec<UiChunk>) {
        let Some(call) = self.calls.get_mut(id).filter(|call| !call.is_available) else {
            return;
        };
        if call.arguments.len().saturating_add(delta.len()) <= MAX_ARGUMENTS {
            call.arguments.push_str(delta);
        }
        self.open_step(out);
        out.push(UiChunk::ToolInputDelta {
            tool_call_id: id.to_owned(),
            input_text_delta: delta.to_owned(),
        });
    }

    /// Shows the arguments of a call, once. `runs` is whether the server runs it without asking.
    pub(super) fn available(
        &mut self,
        chunk: &Chunk,
        (id, tool): (&str, &str),
        input: &Value,
        runs: bool,
        out: &mut Vec<UiChunk>,
    ) {
        if tool == FINISH_TOOL || self.calls.get(id).is_some_and(|call| call.is_available) {
            return;
        }
        self.close_blocks(out);
        self.open_step(out);
        let mut call = self.call_of(chunk, tool);
        call.is_available = true;
        let is_ours = runs && !call.is_client;
        call.waits = !is_ours;
        self.calls.insert(id.to_owned(), call);
        out.push(UiChunk::ToolInputAvailable {
            tool_call_id: id.to_owned(),
            tool_name: tool.to_owned(),
            input: input.clone(),
            provider_executed: is_ours.then_some(true),
            dynamic: true,
        });
    }

    /// Shows a call that a person must approve, with its request unless that was answered.
    pub(super) fn asked(
        &mut self,
        stored: &StoredChunk,
        (call, tool): (&CallId, &str),
        approval: &ApprovalId,
        input: &Value,
        out: &mut Vec<UiChunk>,
    ) {
        let id = self.wire_id(&stored.chunk, call);
        self.available(&stored.chunk, (&id, tool), input, false, out);
        let is_known = self.calls.contains_key(&id);
        if is_known && self.options.shows_approval(stored.sequence, approval) {
            self.open_step(out);
            out.push(UiChunk::ToolApprovalRequest {
                approval_id: approval.to_string(),
                tool_call_id: id,
            });
        }
    }

    /// Shows what a person decided about a call, and notes a denial.
    pub(super) fn decided(&mut self, chunk: &Chunk, out: &mut Vec<UiChunk>) {
        let ChunkPayload::ToolApprovalResponse {
            tool_call_id,
            approval_id,
            approved,
            reason,
            decided_by,
        } = &chunk.payload
        else {
            return;
        };
        if !approved {
            let id = self.wire_id(chunk, tool_call_id);
            self.denied.insert(id);
        }
        let data = ApprovalData {
            tool_call_id: tool_call_id.clone(),
            approval_id: approval_id.to_string(),
            approved: *approved,
            reason: reason.clone(),
            decided_by: decided_by.clone(),
        };
        let id = format!("approval-{approval_id}");
        out.push(data.chunk().with_id(id).into());
    }

    pub(super) fn refused(
        &mut self,
        chunk: &Chunk,
        (call, tool): (&CallId, &str),
        (input, error): (&Value, &str),
        out: &mut Vec<UiChunk>,
    ) {
        if tool == FINISH_TOOL {
            return;
        }
        let id = self.wire_id(chunk, call);
        self.close_blocks(out);
        self.open_step(out);
        let mut call = self.call_of(chunk, tool);
        (call.is_available, call.is_done) = (true, true);
        let is_ours = !call.is_client;
        self.calls.insert(id.clone(), call);
        out.push(UiChunk::ToolInputError {
            tool_call_id: id,
            tool_name: tool.to_owned(),
            input: input.clone(),
            error_text: error.to_owned(),
            provider_executed: is_ours.then_some(true),
            dynamic: true,
        });
    }

    /// Shows the result of a call, or why there is none, once.
    pub(super) fn ended(
        &mut self,
        chunk: &Chunk,
        (call, tool): (&CallId, &str),
        ended: (&Value, Option<&str>),
        out: &mut Vec<UiChunk>,
    ) {
        let id = self.wire_id(chunk, call);
        if tool == FINISH_TOOL || self.calls.get(&id).is_some_and(|call| call.is_done) {
            return;
        }
        // A call that never began has not shown its arguments.
        let streamed = self.calls.get(&id).map(|call| call.arguments.as_str());
        let input = streamed.and_then(|text| serde_json::from_str(text).ok());
        let input = input.unwrap_or_else(|| json!({}));
        self.available(chunk, (&id, tool), &input, true, out);
        self.output(&id, ended, chunk.timestamp, out);
    }

    pub(super) fn output(
        &mut self,
        id: &str,
        (result, failure): (&Value, Option<&str>),
        at: Timestamp,
        out: &mut Vec<UiChunk>,
    ) {
        let Some(call) = self.calls.get_mut(id) else {
            return;
        };
        call.is_done = true;
        // The call may be one of a step that ended with a pause.
        self.owes_step |= !self.step_is_open;
        let provider_executed = (!call.is_client).then_some(true);
        out.push(match failure {
            None => UiChunk::ToolOutputAvailable {
                tool_call_id: id.to_owned(),
                output: result.clone(),
                provider_executed,
                dynamic: true,
            },
            Some(_) if self.denied.contains(id) => UiChunk::ToolOutputDenied {
                tool_call_id: id.to_owned(),
            },
            Some(text) => UiChunk::ToolOutputError {
                tool_call_id: id.to_owned(),
                error_text: text.to_owned(),
                provider_executed,
                dynamic: true,
            },
        });
        if let Some(started) = call.started_at {
            let millis = at.as_millis().saturating_sub(started.as_millis());
            out.tell(&ToolTimingData {
                tool_call_id: id.to_owned(),
                duration_ms: millis,
            });
        }
    }

    /// The id of a call in the message: its own, unless a call of another session of the tree has that.
    pub(super) fn wire_id(&self, chunk: &Chunk, call: &CallId) -> String {
        self.wire_id_in(&chunk.base.session_id, call)
    }

    pub(super) fn wire_id_in(&self, session: &SessionId, call: &CallId) -> String {
        match self.calls.get(call.as_str()) {
            Some(known) if known.owner != *session => format!("{session}/{call}"),
            _ => call.to_string(),
        }
    }

    pub(super) fn call_of(&self, chunk: &Chunk, tool: &str) -> Call {
        let agent = chunk.base.agent_type.as_str();
        Call {
            owner: chunk.base.session_id.clone(),
            name: tool.to_owned(),
            is_client: self.options.tools.of(agent, tool) == ToolKind::Client,
            waits: false,
            arguments: String::new(),
            is_available: false,
            is_done: false,
            started_at: None,
        }
    }
}
