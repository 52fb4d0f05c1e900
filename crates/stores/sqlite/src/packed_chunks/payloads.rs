//! Writes payloads, the frequent ones as short arrays.

use std::borrow::Cow;

use helix_agents_core::id::{CallId, CheckpointId};
use helix_agents_core::shared_str::SharedStr;
use helix_agents_core::stream::{Chunk, ChunkPayload};
use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};

use super::code;
use crate::short_id;

/// How many of the last texts are compared with the next.
const LOOKED_AT: usize = 16;

/// The texts that a batch has so far.
#[derive(Debug, Default)]
pub(super) struct Words<'a> {
    calls: Recent<'a>,
    names: Recent<'a>,
}

/// The last texts, in a ring.
#[derive(Debug, Default)]
struct Recent<'a> {
    texts: [&'a str; LOOKED_AT],
    count: usize,
}

/// A text where it occurs first, or the number of those that first occurred after it.
enum Word<'a> {
    New(&'a str),
    Number(usize),
}

impl Serialize for Word<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::New(text) => text.serialize(serializer),
            Self::Number(number) => number.serialize(serializer),
        }
    }
}

impl<'a> Recent<'a> {
    fn word(&mut self, text: &'a str) -> Word<'a> {
        let known = self.count.min(LOOKED_AT);
        let later = (0..known).find(|later| {
            let place = (self.count - 1 - later) % LOOKED_AT;
            self.texts.get(place) == Some(&text)
        });
        if let Some(later) = later {
            return Word::Number(later);
        }
        if let Some(place) = self.texts.get_mut(self.count % LOOKED_AT) {
            *place = text;
        }
        self.count += 1;
        Word::New(text)
    }
}

fn short(id: &CheckpointId, millis: u64) -> Cow<'_, str> {
    short_id::pack(id.as_str(), "cp", millis)
}

/// Whether two payloads are written as one item, if nothing lies between them.
pub(super) fn are_pair(one: &Chunk, other: &Chunk) -> bool {
    one.timestamp == other.timestamp
        && matches!(one.payload, ChunkPayload::StepCommitted { .. })
        && matches!(other.payload, ChunkPayload::CheckpointCreated { .. })
}

impl<'a> Words<'a> {
    fn call(&mut self, id: &'a CallId) -> Word<'a> {
        self.calls.word(id.as_str())
    }

    fn name(&mut self, name: &'a SharedStr) -> Word<'a> {
        self.names.word(name.as_str())
    }

    /// Writes the payload of a chunk of this time, and `with` it the other of a pair.
    pub(super) fn write<S: SerializeSeq>(
        &mut self,
        all: &mut S,
        payload: &'a ChunkPayload,
        with: Option<&ChunkPayload>,
        millis: u64,
    ) -> Result<(), S::Error> {
        match payload {
            ChunkPayload::TextDelta { delta } => all.serialize_element(delta),
            ChunkPayload::Thinking {
                content,
                is_complete: false,
            } => all.serialize_element(&(code::THINKING, content)),
            ChunkPayload::Thinking { content, .. } => {
                all.serialize_element(&(code::THINKING, content, 1))
            }
            ChunkPayload::ToolArgStreamStart {
                tool_call_id,
                tool_name,
            } => {
                let (call, name) = (self.call(tool_call_id), self.name(tool_name));
                all.serialize_element(&(code::ARGUMENTS_START, call, name))
            }
            ChunkPayload::ToolArgStreamDelta {
                tool_call_id,
                delta,
            } => all.serialize_element(&(code::ARGUMENTS_DELTA, self.call(tool_call_id), delta)),
            ChunkPayload::ToolArgStreamEnd { tool_call_id } => {
                all.serialize_element(&(code::ARGUMENTS_END, self.call(tool_call_id)))
            }
            ChunkPayload::ToolStart {
                tool_call_id,
                tool_name,
                arguments,
            } => {
                let (call, name) = (self.call(tool_call_id), self.name(tool_name));
                all.serialize_element(&(code::TOOL_START, call, name, arguments))
            }
            ChunkPayload::ToolEnd {
                tool_call_id,
                tool_name,
                result,
                success,
                error,
            } if !success || error.is_none() => {
                let (call, name) = (self.call(tool_call_id), self.name(tool_name));
                let code = code::TOOL_END;
                match error {
                    _ if *success => all.serialize_element(&(code, call, name, result)),
                    None => all.serialize_element(&(code, call, name, result, 0)),
                    Some(error) => all.serialize_element(&(code, call, name, result, 0, error)),
                }
            }
            ChunkPayload::CheckpointCreated { checkpoint_id } => {
                all.serialize_element(&(code::CHECKPOINT, short(checkpoint_id, millis)))
            }
            ChunkPayload::StepCommitted { message_count } => match with {
                Some(ChunkPayload::CheckpointCreated { checkpoint_id }) => {
                    let id = short(checkpoint_id, millis);
                    all.serialize_element(&(code::STEP, message_count, id))
                }
                _ => all.serialize_element(&(code::STEP, message_count)),
            },
            other => all.serialize_element(other),
        }
    }
}
