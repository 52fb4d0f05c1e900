//! A finished message once more, as a stream.

use crate::{UiChunk, UiMessage, UiPart};

/// Returns the chunks that give a client this message, where its own chunks are no longer kept.
#[must_use]
pub fn replay_message(message: &UiMessage) -> Vec<UiChunk> {
    let mut out = vec![UiChunk::Start {
        message_id: message.id.clone(),
    }];
    let mut is_open = false;
    for (index, part) in message.parts.iter().enumerate() {
        match part {
            UiPart::StepStart {} => {
                if is_open {
                    out.push(UiChunk::FinishStep {});
                }
                is_open = true;
                out.push(UiChunk::StartStep {});
            }
            UiPart::Text { text, .. } => {
                let id = format!("text-{index}");
                out.push(UiChunk::TextStart { id: id.clone() });
                out.push(UiChunk::TextDelta {
                    id: id.clone(),
                    delta: text.clone(),
                });
                out.push(UiChunk::TextEnd { id });
            }
            UiPart::Reasoning { text, .. } => {
                let id = format!("reasoning-{index}");
                out.push(UiChunk::ReasoningStart { id: id.clone() });
                out.push(UiChunk::ReasoningDelta {
                    id: id.clone(),
                    delta: text.clone(),
                });
                out.push(UiChunk::ReasoningEnd { id });
            }
            UiPart::DynamicTool {
                tool_name,
                tool_call_id,
                input,
                output,
                error_text,
                provider_executed,
                approval,
                ..
            } => {
                let id = || tool_call_id.clone();
                out.push(UiChunk::ToolInputAvailable {
                    tool_call_id: id(),
                    tool_name: tool_name.clone(),
                    input: input.clone(),
                    provider_executed: *provider_executed,
                    dynamic: true,
                });
                match (output, error_text, approval) {
                    (Some(output), _, _) => out.push(UiChunk::ToolOutputAvailable {
                        tool_call_id: id(),
                        output: output.clone(),
                        provider_executed: *provider_executed,
                        dynamic: true,
                    }),
                    (None, Some(text), _) => out.push(UiChunk::ToolOutputError {
                        tool_call_id: id(),
                        error_text: text.clone(),
                        provider_executed: *provider_executed,
                        dynamic: true,
                    }),
                    (None, None, Some(_)) => {
                        out.push(UiChunk::ToolOutputDenied { tool_call_id: id() });
                    }
                    (None, None, None) => {}
                }
            }
            UiPart::Data(data) => {
                let mut chunk = crate::DataChunk::new("", data.data.clone());
                chunk.kind.clone_from(&data.kind);
                chunk.id.clone_from(&data.id);
                out.push(chunk.into());
            }
            UiPart::File { .. } => {}
        }
    }
    if is_open {
        out.push(UiChunk::FinishStep {});
    }
    out.push(UiChunk::Finish {
        finish_reason: Some(crate::FinishReason::Stop),
    });
    out
}
