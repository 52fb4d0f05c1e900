//! The packed form of a user message or a step: JSON without what follows from the rest.
//!
//! An entry is `[1, message, ...]`: the format's version, then one message after another.
//!
//! - `[0, text]`: a user message that is only a text.
//! - `[1, [part, ...]]`: a message of the model. A part is a string of text, or `[id, name, arguments]`.
//! - `[2, call, content]`: the result of the call of that number, from 0, in the message before.
//!   A fourth element, `1`: the content is a text as the tool gave it.
//! - an object: a message or part in its stored form, where the above would lose something.

use helix_agents_core::message::{
    AssistantMessage, AssistantPart, Message, ResultStatus, ToolCall, ToolMessage, UserMessage,
};
use helix_agents_core::step::{ToolResultInput, create_tool_result_message};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

use crate::json;
use crate::operation_error::OperationError;

const VERSION: u32 = 1;
const USER: u8 = 0;
const ASSISTANT: u8 = 1;
const TOOL: u8 = 2;

/// Packs a user message or a whole step.
pub(crate) fn pack(messages: &[Message]) -> Result<String, OperationError> {
    json::text("entry", &Packed(messages))
}

/// Unpacks the messages of an entry.
pub(crate) fn unpack(text: &[u8]) -> Result<Vec<Message>, OperationError> {
    serde_json::from_slice::<Unpacked>(text)
        .map(|entry| entry.0)
        .map_err(|error| OperationError::corrupt("entry", error.to_string()))
}

struct Packed<'a>(&'a [Message]);

impl Serialize for Packed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = serializer.serialize_seq(Some(self.0.len() + 1))?;
        all.serialize_element(&VERSION)?;
        let mut calls: Vec<&ToolCall> = Vec::new();
        for message in self.0 {
            match message {
                Message::User(user) if is_plain_text(user) => {
                    all.serialize_element(&(USER, &user.content))?;
                }
                Message::Assistant(reply) => {
                    calls = reply.tool_calls().collect();
                    if reply.metadata.is_empty() {
                        all.serialize_element(&(ASSISTANT, Parts(&reply.parts)))?;
                    } else {
                        all.serialize_element(message)?;
                    }
                }
                Message::Tool(result) => match call_of(result, &calls) {
                    Some(call) if result.verbatim => {
                        all.serialize_element(&(TOOL, call, &result.content, 1_u8))?;
                    }
                    Some(call) => all.serialize_element(&(TOOL, call, &result.content))?,
                    None => all.serialize_element(message)?,
                },
                _ => all.serialize_element(message)?,
            }
        }
        all.end()
    }
}

fn is_plain_text(user: &UserMessage) -> bool {
    user.id.is_none() && user.files.is_empty() && user.metadata.is_empty()
}

/// The call that a result answers, when the call says everything else about it.
fn call_of(result: &ToolMessage, calls: &[&ToolCall]) -> Option<usize> {
    if result.status != ResultStatus::Success {
        return None;
    }
    calls
        .iter()
        .position(|call| call.id == result.tool_call_id && call.name == result.tool_name)
}

struct Parts<'a>(&'a [AssistantPart]);

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = serializer.serialize_seq(Some(self.0.len()))?;
        for part in self.0 {
            match part {
                AssistantPart::Text {
                    text,
                    provider_metadata: None,
                } => all.serialize_element(text)?,
                AssistantPart::ToolCall(call) if call.provider_metadata.is_none() => {
                    all.serialize_element(&(&call.id, &call.name, &call.arguments))?;
                }
                _ => all.serialize_element(part)?,
            }
        }
        all.end()
    }
}

struct Unpacked(Vec<Message>);

impl<'de> Deserialize<'de> for Unpacked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = Unpacked;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a packed entry")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Unpacked, A::Error> {
        let version: Option<u32> = seq.next_element()?;
        if version != Some(VERSION) {
            let text = format!("its format is {version:?}, this program reads {VERSION}");
            return Err(A::Error::custom(text));
        }
        let mut messages: Vec<Message> = Vec::new();
        let mut last_reply: Option<usize> = None;
        while let Some(item) = seq.next_element()? {
            let message = match item {
                Item::Message(message) => message,
                Item::Result {
                    call,
                    content,
                    verbatim,
                } => {
                    let message = last_reply.and_then(|at| messages.get(at));
                    let made = match message {
                        Some(Message::Assistant(reply)) => reply.tool_calls().nth(call),
                        _ => None,
                    };
                    let made =
                        made.ok_or_else(|| A::Error::custom("a result belongs to no call"))?;
                    Message::Tool(result(made, content, verbatim))
                }
            };
            if matches!(message, Message::Assistant(_)) {
                last_reply = Some(messages.len());
            }
            messages.push(message);
        }
        Ok(Unpacked(messages))
    }
}

fn result(call: &ToolCall, content: String, verbatim: bool) -> ToolMessage {
    let mut message = create_tool_result_message(ToolResultInput {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        result: Ok(Value::String(content)),
    });
    message.verbatim = verbatim;
    message
}

enum Item {
    Message(Message),
    Result {
        call: usize,
        content: String,
        verbatim: bool,
    },
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemVisitor)
    }
}

struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Item;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Item, A::Error> {
        Message::deserialize(MapAccessDeserializer::new(map)).map(Item::Message)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Item, A::Error> {
        match need::<u8, A>(&mut seq)? {
            USER => {
                let text: String = need(&mut seq)?;
                Ok(Item::Message(Message::User(UserMessage::new(text))))
            }
            ASSISTANT => {
                let parts: Vec<Part> = need(&mut seq)?;
                let reply = AssistantMessage::new(parts.into_iter().map(|part| part.0).collect());
                Ok(Item::Message(Message::Assistant(reply)))
            }
            TOOL => Ok(Item::Result {
                call: need(&mut seq)?,
                content: need(&mut seq)?,
                verbatim: seq.next_element::<u8>()?.is_some(),
            }),
            other => Err(A::Error::custom(format!("unknown message kind {other}"))),
        }
    }
}

fn need<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(seq: &mut A) -> Result<T, A::Error> {
    seq.next_element()?
        .ok_or_else(|| A::Error::custom("the entry is incomplete"))
}

struct Part(AssistantPart);

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PartVisitor)
    }
}

struct PartVisitor;

impl<'de> Visitor<'de> for PartVisitor {
    type Value = Part;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a part of a message")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Part, E> {
        self.visit_string(text.to_owned())
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Part, E> {
        Ok(Part(AssistantPart::text(text)))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Part, A::Error> {
        AssistantPart::deserialize(MapAccessDeserializer::new(map)).map(Part)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Part, A::Error> {
        let (id, name) = (need(&mut seq)?, need::<String, A>(&mut seq)?);
        let arguments: Value = need(&mut seq)?;
        Ok(Part(AssistantPart::ToolCall(ToolCall::new(
            id, name, arguments,
        ))))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Rows that were written stay readable: this text is never changed, only joined by others when
    /// the version is raised.
    const FIRST: &str = concat!(
        r#"[1,[0,"hello"],{"role":"user","content":"see","metadata":{"hidden":true}},"#,
        r#"[1,["One moment.",["c1","add",{"a":1}],{"type":"thinking","text":"hm"},["c2","say",{}]]],"#,
        r#"[2,0,"{\"sum\":2}"],[2,1,"42",1],"#,
        r#"[1,[["c3","pay",{}]]],"#,
        r#"{"role":"tool","toolCallId":"c3","toolName":"pay","content":"{\"error\":\"no\"}","status":"denied"}]"#
    );

    #[test]
    fn rows_of_the_first_format_are_read_and_written_unchanged() {
        let expected: Vec<Message> = serde_json::from_value(json!([
            {"role": "user", "content": "hello"},
            {"role": "user", "content": "see", "metadata": {"hidden": true}},
            {"role": "assistant", "parts": [
                {"type": "text", "text": "One moment."},
                {"type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": 1}},
                {"type": "thinking", "text": "hm"},
                {"type": "tool_call", "id": "c2", "name": "say", "arguments": {}},
            ]},
            {"role": "tool", "toolCallId": "c1", "toolName": "add", "content": "{\"sum\":2}"},
            {"role": "tool", "toolCallId": "c2", "toolName": "say", "content": "42", "verbatim": true},
            {"role": "assistant", "parts": [
                {"type": "tool_call", "id": "c3", "name": "pay", "arguments": {}},
            ]},
            {"role": "tool", "toolCallId": "c3", "toolName": "pay",
             "content": "{\"error\":\"no\"}", "status": "denied"},
        ]))
        .unwrap();
        assert_eq!(unpack(FIRST.as_bytes()).unwrap(), expected);
        assert_eq!(pack(&expected).unwrap(), FIRST);
        let mut other_name = expected;
        if let Message::Tool(result) = &mut other_name[3] {
            result.tool_name = "an older name of add".into();
        }
        let packed = pack(&other_name).unwrap();
        assert_eq!(unpack(packed.as_bytes()).unwrap(), other_name);
        let newer = FIRST.replacen("[1,", "[2,", 1);
        assert!(unpack(newer.as_bytes()).is_err());
    }
}
