//! Shows a reply to readers while it comes.

use crate::id::CallId;
use crate::model::ReplyDelta;
use crate::step::FINISH_TOOL;
use crate::stream::ChunkPayload;

/// Turns the pieces of a reply into chunks for readers. `__finish__` is between the framework and the
/// model: its arguments are shown as the output, once they are one.
#[derive(Debug, Default)]
pub(super) struct Shown {
    finishing: Vec<CallId>,
}

impl Shown {
    /// The chunk of a piece, where it has one.
    pub(super) fn of(&mut self, delta: ReplyDelta) -> Option<ChunkPayload> {
        Some(match delta {
            ReplyDelta::Text(delta) => ChunkPayload::TextDelta { delta },
            ReplyDelta::Thinking(content) => ChunkPayload::Thinking {
                content,
                is_complete: false,
            },
            ReplyDelta::ThinkingEnd => ChunkPayload::Thinking {
                content: String::new(),
                is_complete: true,
            },
            ReplyDelta::CallStart { id, name } if name == FINISH_TOOL => {
                self.finishing.push(id);
                return None;
            }
            ReplyDelta::CallArguments { id, .. } | ReplyDelta::CallEnd { id }
                if self.finishing.contains(&id) =>
            {
                return None;
            }
            ReplyDelta::CallStart { id, name } => ChunkPayload::ToolArgStreamStart {
                tool_call_id: id,
                tool_name: name,
            },
            ReplyDelta::CallArguments { id, delta } => ChunkPayload::ToolArgStreamDelta {
                tool_call_id: id,
                delta,
            },
            ReplyDelta::CallEnd { id } => ChunkPayload::ToolArgStreamEnd { tool_call_id: id },
        })
    }
}
