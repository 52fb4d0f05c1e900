//! From the chunks of a turn to the chunks of its bubble.

mod answers;
mod calls;
mod children;
mod control;
mod options;

use std::collections::{HashMap, HashSet};

use helix_agents_core::stream::{ChunkPayload, Sequence, StoredChunk};
use serde_json::{Value, json};

use self::calls::Call;
use self::children::Children;
pub use self::options::TransformerOptions;
use crate::data::{ErrorData, Named, StatePatchData};
use crate::{DataChunk, FinishReason, UiChunk};

/// What clients are told of arguments that were thrown away with the attempt that made them.
const DISCARDED: &str = "The attempt that made this call was discarded.";

/// Turns the chunks of a turn into the chunks of one assistant message.
///
/// Give it the chunks of the turn in order, from the first on; a client that has the first of them is spared what it
/// returns for those. Each model call becomes a step: `start-step`, its blocks and calls, `finish-step`; without
/// steps a stock client would send the same answers for ever. Blocks are closed before a call and before the end of
/// their step.
///
/// ```
/// use helix_agents_core::stream::StoredChunk;
/// use helix_agents_wire::{FinishReason, StreamTransformer, TransformerOptions, UiChunk};
///
/// fn bubble(chunks: &[StoredChunk], options: TransformerOptions) -> Vec<UiChunk> {
///     let mut transformer = StreamTransformer::new(options);
///     let mut all = vec![transformer.start("msg-1")];
///     for chunk in chunks {
///         all.extend(transformer.transform(chunk));
///     }
///     all.extend(transformer.finalize(FinishReason::Stop));
///     all
/// }
/// ```
#[derive(Debug)]
pub struct StreamTransformer {
    options: TransformerOptions,
    step_is_open: bool,
    /// The position after which the current step began.
    step_begun: Sequence,
    /// Whether the open step has shown anything.
    step_has_content: bool,
    /// Whether any step has.
    has_content: bool,
    /// Whether calls of a step that is closed were ended since, and no step has followed. A client whose last step has
    /// all its answers would send them again.
    owes_step: bool,
    /// Whether the open step is one for the calls of sub-agents that wait for somebody.
    step_is_of_children: bool,
    text: Option<String>,
    reasoning: Option<String>,
    calls: HashMap<String, Call>,
    denied: HashSet<String>,
    children: Children,
    failed: bool,
}

impl StreamTransformer {
    /// Creates a transformer.
    #[must_use]
    pub fn new(options: TransformerOptions) -> Self {
        Self {
            options,
            step_is_open: false,
            step_begun: Sequence::START,
            step_has_content: false,
            has_content: false,
            owes_step: false,
            step_is_of_children: false,
            text: None,
            reasoning: None,
            calls: HashMap::new(),
            denied: HashSet::new(),
            children: Children::default(),
            failed: false,
        }
    }

    /// Returns the first chunk of a message, or of what continues the message with this id.
    #[must_use]
    pub fn start(&self, message_id: impl Into<String>) -> UiChunk {
        UiChunk::Start {
            message_id: message_id.into(),
        }
    }

    /// Whether the turn was reported as failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Turns one chunk into chunks of the message.
    pub fn transform(&mut self, stored: &StoredChunk) -> Vec<UiChunk> {
        let mut out = Vec::new();
        if !self.options.takes(&stored.chunk) {
            return out;
        }
        if self.options.is_own(&stored.chunk) {
            self.own(stored, &mut out);
        } else {
            self.of_child(stored, &mut out);
        }
        self.filter_steps(&mut out);
        out
    }

    fn filter_steps(&self, out: &mut Vec<UiChunk>) {
        if !self.options.include_step_events {
            out.retain(|chunk| !matches!(chunk, UiChunk::StartStep {} | UiChunk::FinishStep {}));
        }
    }

    /// Returns the chunks that end the step that is open: what comes before the end of a pause.
    pub fn end_step(&mut self) -> Vec<UiChunk> {
        let mut out = Vec::new();
        self.children.flush(&mut out);
        self.close_step(&mut out);
        let waits = |call: &Call| call.waits && !call.is_done;
        if self.owes_step && !self.failed && !self.calls.values().any(waits) {
            self.open_step(&mut out);
            self.close_step(&mut out);
        }
        self.filter_steps(&mut out);
        out
    }

    /// Returns the chunks that end the message for now. A turn that was reported as failed has its end already.
    pub fn finalize(&mut self, reason: FinishReason) -> Vec<UiChunk> {
        let mut out = self.end_step();
        if !self.failed {
            out.push(UiChunk::Finish {
                finish_reason: Some(reason),
            });
        }
        out
    }

    /// Returns the chunks that report a failure, unless one was reported already.
    pub fn fail(&mut self, text: &str, code: &str) -> Vec<UiChunk> {
        let mut out = Vec::new();
        if !self.failed {
            self.error(text, code, false, &mut out);
        }
        out
    }

    fn own(&mut self, stored: &StoredChunk, out: &mut Vec<UiChunk>) {
        let chunk = &stored.chunk;
        let at = stored.sequence;
        match &chunk.payload {
            ChunkPayload::TextDelta { delta } => self.text(at, delta, out),
            ChunkPayload::Thinking {
                content,
                is_complete,
            } => self.thinking(at, content, *is_complete, out),
            ChunkPayload::ToolArgStreamStart {
                tool_call_id,
                tool_name,
            } => self.arguments_begin(chunk, tool_name, tool_call_id, out),
            ChunkPayload::ToolArgStreamDelta {
                tool_call_id,
                delta,
            } => self.arguments(&self.wire_id(chunk, tool_call_id), delta, out),
            ChunkPayload::ToolStart {
                tool_call_id,
                tool_name,
                arguments,
            } => {
                let id = self.wire_id(chunk, tool_call_id);
                self.available(chunk, (&id, tool_name), arguments, true, out);
                if let Some(call) = self.calls.get_mut(&id) {
                    call.started_at = Some(chunk.timestamp);
                }
            }
            ChunkPayload::ToolApprovalRequest {
                tool_call_id,
                tool_name,
                approval_id,
                input,
                ..
            } => {
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
                let ended = (result, failure.as_deref());
                self.ended(chunk, (tool_call_id, tool_name), ended, out);
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
            } => {
                let ended = (&Value::Null, Some(error.as_str()));
                self.ended(chunk, (tool_call_id, tool_name), ended, out);
            }
            ChunkPayload::ToolInputError {
                tool_call_id,
                tool_name,
                input,
                error,
            } => self.refused(chunk, (tool_call_id, tool_name), (input, error), out),
            ChunkPayload::SubagentStart { .. } => self.children.started(chunk, out),
            ChunkPayload::SubagentEnd { .. } => self.children.ended(chunk, out),
            ChunkPayload::StatePatch { patches } => {
                out.tell(&StatePatchData {
                    sequence: at.0,
                    patches: patches.clone(),
                });
            }
            ChunkPayload::Custom { event_name, data } => out.push(custom(event_name, data)),
            ChunkPayload::Error {
                error,
                code,
                recoverable,
                ..
            } => self.error(error, code.as_str(), *recoverable, out),
            ChunkPayload::Output { output } => out.push(output_of(output)),
            _ => self.control(at, chunk, out),
        }
    }

    fn text(&mut self, at: Sequence, delta: &str, out: &mut Vec<UiChunk>) {
        if delta.is_empty() {
            return;
        }
        self.close_reasoning(out);
        self.open_step(out);
        let id = match &self.text {
            Some(id) => id.clone(),
            None => {
                let id = format!("text-{at}");
                out.push(UiChunk::TextStart { id: id.clone() });
                self.text = Some(id.clone());
                id
            }
        };
        out.push(UiChunk::TextDelta {
            id,
            delta: delta.to_owned(),
        });
    }

    fn thinking(&mut self, at: Sequence, content: &str, is_complete: bool, out: &mut Vec<UiChunk>) {
        if !content.is_empty() {
            self.close_text(out);
            self.open_step(out);
            let id = match &self.reasoning {
                Some(id) => id.clone(),
                None => {
                    let id = format!("reasoning-{at}");
                    out.push(UiChunk::ReasoningStart { id: id.clone() });
                    self.reasoning = Some(id.clone());
                    id
                }
            };
            out.push(UiChunk::ReasoningDelta {
                id,
                delta: content.to_owned(),
            });
        }
        if is_complete {
            self.close_reasoning(out);
        }
    }

    fn error(&mut self, text: &str, code: &str, recoverable: bool, out: &mut Vec<UiChunk>) {
        let details = ErrorData {
            error_text: text.to_owned(),
            code: code.to_owned(),
            recoverable,
        };
        if recoverable {
            out.tell(&details);
            return;
        }
        self.children.flush(out);
        self.close_step(out);
        out.tell(&details);
        out.push(UiChunk::Error {
            error_text: text.to_owned(),
        });
        self.failed = true;
    }

    fn open_step(&mut self, out: &mut Vec<UiChunk>) {
        (self.step_has_content, self.has_content) = (true, true);
        self.owes_step = false;
        if !self.step_is_open {
            self.step_is_open = true;
            out.push(UiChunk::StartStep {});
        }
    }

    fn close_step(&mut self, out: &mut Vec<UiChunk>) {
        self.close_blocks(out);
        (self.step_has_content, self.step_is_of_children) = (false, false);
        if self.step_is_open {
            self.step_is_open = false;
            out.push(UiChunk::FinishStep {});
        }
    }

    fn close_blocks(&mut self, out: &mut Vec<UiChunk>) {
        self.close_text(out);
        self.close_reasoning(out);
    }

    fn close_text(&mut self, out: &mut Vec<UiChunk>) {
        if let Some(id) = self.text.take() {
            out.push(UiChunk::TextEnd { id });
        }
    }

    fn close_reasoning(&mut self, out: &mut Vec<UiChunk>) {
        if let Some(id) = self.reasoning.take() {
            out.push(UiChunk::ReasoningEnd { id });
        }
    }

    /// Ends what an attempt has shown: its blocks, and the calls whose arguments were not complete.
    fn discard(&mut self, out: &mut Vec<UiChunk>) {
        self.close_blocks(out);
        let mut begun: Vec<_> = self
            .calls
            .iter()
            .filter(|(_, call)| !call.is_available)
            .collect();
        begun.sort_by(|one, other| one.0.cmp(other.0));
        let begun: Vec<_> = begun
            .into_iter()
            .map(|(id, call)| (id.clone(), call.clone()))
            .collect();
        for (id, call) in begun {
            // The next attempt may give its call the same id.
            self.calls.remove(&id);
            self.open_step(out);
            out.push(UiChunk::ToolInputError {
                tool_call_id: id,
                tool_name: call.name,
                input: json!({}),
                error_text: DISCARDED.to_owned(),
                provider_executed: (!call.is_client).then_some(true),
                dynamic: true,
            });
        }
        self.close_step(out);
    }
}

/// Adds data to what is returned.
trait Tell {
    fn tell(&mut self, data: &impl Named);
}

impl Tell for Vec<UiChunk> {
    fn tell(&mut self, data: &impl Named) {
        self.push(data.chunk().into());
    }
}

fn custom(name: &str, data: &Value) -> UiChunk {
    let name = if name.is_empty() { "custom" } else { name };
    DataChunk::new(name, data.clone()).into()
}

/// The output of the turn. A text is in the bubble already.
fn output_of(output: &Value) -> UiChunk {
    let data = match output {
        Value::String(_) => DataChunk::transient("output", output.clone()),
        other => DataChunk::new("output", other.clone()),
    };
    data.with_id("output").into()
}
