//! Sub-agents in the bubble of their root: what they say is data, and their open calls are calls of the bubble.

use std::collections::BTreeMap;

use helix_agents_core::stream::{Chunk, ChunkPayload, StoredChunk};
use helix_agents_core::{CallId, SessionId};
use serde_json::Value;

use super::{StreamTransformer, Tell, custom};
use crate::data::{Named, SubagentData, SubagentEndData, SubagentStartData, SubagentTool};
use crate::{ToolKind, UiChunk};

/// The text of a sub-agent that a bubble shows. All of it is in the sub-agent's own session.
const MAX_TEXT: usize = 64 * 1024;
/// About the bytes of a call that is shown.
const TOOL_BYTES: usize = 96;
/// How many bytes of text a change of a call counts for. A change costs four times as many at most.
const CALL_WEIGHT: usize = 256;

/// The sub-agents that were seen.
#[derive(Debug, Default)]
pub(super) struct Children(BTreeMap<SessionId, Child>);

/// What a bubble shows of a sub-agent.
#[derive(Debug)]
struct Child {
    data: SubagentData,
    /// The length of the text that was shown.
    shown: usize,
    /// What has changed since, in bytes.
    news: usize,
    /// Whether what it says next belongs to another step than what it said last.
    is_new_step: bool,
}

impl Child {
    fn show(&mut self, out: &mut Vec<UiChunk>) {
        self.shown = self.data.text.len();
        self.news = 0;
        let id = SubagentData::part_id(&self.data.session_id);
        out.push(self.data.chunk().with_id(id).into());
    }

    /// Shows what has changed once it is worth it: all of it is written each time, so the bytes stay within a small
    /// multiple of what was said and called.
    fn show_if_worth(&mut self, out: &mut Vec<UiChunk>) {
        let size = self.shown + TOOL_BYTES * self.data.tools.len();
        if self.news > 48 + size / 4 {
            self.show(out);
        }
    }

    fn say(&mut self, delta: &str, out: &mut Vec<UiChunk>) {
        let before = self.data.text.len();
        if std::mem::take(&mut self.is_new_step) && !self.data.text.is_empty() {
            self.data.text.push_str("\n\n");
        }
        let room = MAX_TEXT.saturating_sub(self.data.text.len());
        let fits = delta.char_indices().map(|(at, char)| at + char.len_utf8());
        let end = fits.take_while(|end| *end <= room).last().unwrap_or(0);
        self.data
            .text
            .push_str(delta.get(..end).unwrap_or_default());
        self.news += self.data.text.len() - before;
        self.show_if_worth(out);
    }

    /// Notes the state of a call.
    fn tool(&mut self, id: &str, name: &str, state: &'static str, out: &mut Vec<UiChunk>) {
        self.news += CALL_WEIGHT;
        match self
            .data
            .tools
            .iter_mut()
            .find(|tool| tool.tool_call_id == id)
        {
            Some(tool) => tool.state = state,
            None => self.data.tools.push(SubagentTool {
                tool_call_id: id.to_owned(),
                tool_name: name.to_owned(),
                state,
            }),
        }
        self.show_if_worth(out);
    }
}

impl Children {
    fn of(&mut self, chunk: &Chunk) -> &mut Child {
        let session = &chunk.base.session_id;
        self.named(session, &chunk.base.agent_type)
    }

    fn named(&mut self, session: &SessionId, agent: &str) -> &mut Child {
        self.0.entry(session.clone()).or_insert_with(|| Child {
            data: SubagentData {
                session_id: session.clone(),
                agent_type: agent.to_owned(),
                tool_call_id: None,
                status: "running",
                text: String::new(),
                tools: Vec::new(),
            },
            shown: 0,
            news: 1,
            is_new_step: false,
        })
    }

    /// A sub-agent starts, told by the session that called it.
    pub(super) fn started(&mut self, chunk: &Chunk, out: &mut Vec<UiChunk>) {
        let ChunkPayload::SubagentStart {
            tool_call_id,
            sub_agent_type,
            sub_session_id,
        } = &chunk.payload
        else {
            return;
        };
        let child = self.named(sub_session_id, sub_agent_type);
        child.data.tool_call_id = Some(tool_call_id.to_string());
        child.data.status = "running";
        out.tell(&SubagentStartData {
            tool_call_id: tool_call_id.clone(),
            agent_type: sub_agent_type.clone(),
            session_id: sub_session_id.clone(),
        });
        child.show(out);
    }

    /// A sub-agent has ended.
    pub(super) fn ended(&mut self, chunk: &Chunk, out: &mut Vec<UiChunk>) {
        let ChunkPayload::SubagentEnd {
            tool_call_id,
            sub_agent_type,
            sub_session_id,
            success,
            ..
        } = &chunk.payload
        else {
            return;
        };
        let child = self.named(sub_session_id, sub_agent_type);
        child
            .data
            .tool_call_id
            .get_or_insert_with(|| tool_call_id.to_string());
        child.data.status = if *success { "completed" } else { "failed" };
        child.show(out);
        out.tell(&SubagentEndData {
            tool_call_id: tool_call_id.clone(),
            agent_type: sub_agent_type.clone(),
            session_id: sub_session_id.clone(),
            success: *success,
        });
    }

    /// Shows what was not worth a chunk of its own yet.
    pub(super) fn flush(&mut self, out: &mut Vec<UiChunk>) {
        for child in self.0.values_mut() {
            if child.news > 0 {
                child.show(out);
            }
        }
    }
}

impl StreamTransformer {
    /// A chunk of a sub-agent. Its text never becomes the bubble's; its calls that wait for somebody do.
    pub(super) fn of_child(&mut self, stored: &StoredChunk, out: &mut Vec<UiChunk>) {
        let chunk = &stored.chunk;
        let agent = chunk.base.agent_type.as_str();
        match &chunk.payload {
            ChunkPayload::TextDelta { delta } => self.children.of(chunk).say(delta, out),
            ChunkPayload::ToolStart {
                tool_call_id,
                tool_name,
                arguments,
            } => {
                let id = self.wire_id(chunk, tool_call_id);
                let waits = self.options.tools.of(agent, tool_name) == ToolKind::Client;
                let state = if waits { "waiting" } else { "running" };
                let child = self.children.of(chunk);
                child.tool(&id, tool_name, state, out);
                if waits {
                    self.open_waiting_step(out);
                    self.available(chunk, (&id, tool_name), arguments, true, out);
                }
            }
            ChunkPayload::ToolApprovalRequest {
                tool_call_id,
                tool_name,
                approval_id,
                input,
                ..
            } => {
                let id = self.wire_id(chunk, tool_call_id);
                let child = self.children.of(chunk);
                child.tool(&id, tool_name, "waiting", out);
                self.open_waiting_step(out);
                let call = (tool_call_id, tool_name.as_str());
                self.asked(stored, call, approval_id, input, out);
            }
            ChunkPayload::ToolApprovalResponse { .. } => self.decided(chunk, out),
            ChunkPayload::ToolEnd {
                tool_call_id,
                tool_name,
                result,
                success,
                error,
            } => {
                let failure = (!success).then(|| error.clone().unwrap_or_default());
                let call = (tool_call_id, tool_name.as_str());
                self.child_call_ended(chunk, call, (result, failure.as_deref()), out);
            }
            ChunkPayload::ToolError {
                tool_call_id,
                tool_name,
                error,
            }
            | ChunkPayload::ToolOutputError {
                tool_call_id,
                tool_name,
                error,
            }
            | ChunkPayload::ToolInputError {
                tool_call_id,
                tool_name,
                error,
                ..
            } => {
                let call = (tool_call_id, tool_name.as_str());
                self.child_call_ended(chunk, call, (&Value::Null, Some(error)), out);
            }
            ChunkPayload::SubagentStart { .. } => self.children.started(chunk, out),
            ChunkPayload::SubagentEnd { .. } => self.children.ended(chunk, out),
            ChunkPayload::Custom { event_name, data } => out.push(custom(event_name, data)),
            ChunkPayload::Error {
                recoverable: false, ..
            } => {
                let child = self.children.of(chunk);
                child.data.status = "failed";
                child.show(out);
            }
            ChunkPayload::RunStarted { .. } => {
                let child = self.children.of(chunk);
                if child.data.status != "running" {
                    child.data.status = "running";
                    child.show(out);
                }
            }
            ChunkPayload::StepCommitted { .. } => {
                let child = self.children.of(chunk);
                child.is_new_step = true;
                if child.news > 0 {
                    child.news += CALL_WEIGHT;
                    child.show_if_worth(out);
                }
            }
            ChunkPayload::RunPaused { .. } => {
                self.children.of(chunk).is_new_step = true;
                self.children.flush(out);
            }
            _ => {}
        }
    }

    /// Opens the step for a call of a sub-agent that waits. A stock client sends what a person decided once all calls of
    /// the last step are over, and the call which started the sub-agent is not. Where the root itself waits for an
    /// answer, all of them stand in one step: there a stock client does not send by itself.
    fn open_waiting_step(&mut self, out: &mut Vec<UiChunk>) {
        let root_waits = self.calls.values().any(|call| {
            call.owner == self.options.session && call.is_available && call.waits && !call.is_done
        });
        if self.step_is_open && !self.step_is_of_children && !root_waits {
            self.close_step(out);
        }
        self.open_step(out);
        self.step_is_of_children = !root_waits;
    }

    fn child_call_ended(
        &mut self,
        chunk: &Chunk,
        (call, tool): (&CallId, &str),
        ended: (&Value, Option<&str>),
        out: &mut Vec<UiChunk>,
    ) {
        let id = self.wire_id(chunk, call);
        let child = self.children.of(chunk);
        child.tool(
            &id,
            tool,
            if ended.1.is_none() {
                "completed"
            } else {
                "failed"
            },
            out,
        );
        // Only a call that waited for somebody is one of the bubble.
        let waits = self.calls.get(&id).is_some_and(|call| {
            !call.is_done && call.is_available && call.owner == chunk.base.session_id
        });
        if waits {
            self.output(&id, ended, chunk.timestamp, out);
        }
    }
}
