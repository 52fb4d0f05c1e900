//! Reads UI message streams as strictly as the strictest client of versions 6 and 7.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::kit::Answer;

/// The kind of value that a field holds.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Flag,
    Any,
    Reason,
}

use Kind::{Any, Flag, Reason, Text};

type Fields = &'static [(&'static str, Kind)];

/// The required and the optional fields of a chunk, as far as every client takes them.
fn fields(kind: &str) -> Option<(Fields, Fields)> {
    let call: Fields = &[("toolCallId", Text)];
    let ran: Fields = &[("providerExecuted", Flag), ("dynamic", Flag)];
    let named: Fields = &[("toolCallId", Text), ("toolName", Text), ("input", Any)];
    Some(match kind {
        "start" => (&[], &[("messageId", Text)]),
        "finish" => (&[], &[("finishReason", Reason)]),
        "start-step" | "finish-step" => (&[], &[]),
        "error" => (&[("errorText", Text)], &[]),
        "text-start" | "text-end" | "reasoning-start" | "reasoning-end" => (&[("id", Text)], &[]),
        "text-delta" | "reasoning-delta" => (&[("id", Text), ("delta", Text)], &[]),
        "tool-input-start" => (&[("toolCallId", Text), ("toolName", Text)], ran),
        "tool-input-delta" => (&[("toolCallId", Text), ("inputTextDelta", Text)], &[]),
        "tool-input-available" => (named, ran),
        "tool-input-error" => (
            &[
                ("toolCallId", Text),
                ("toolName", Text),
                ("input", Any),
                ("errorText", Text),
            ],
            ran,
        ),
        "tool-approval-request" => (&[("approvalId", Text), ("toolCallId", Text)], &[]),
        "tool-output-available" => (&[("toolCallId", Text), ("output", Any)], ran),
        "tool-output-error" => (&[("toolCallId", Text), ("errorText", Text)], ran),
        "tool-output-denied" => (call, &[]),
        kind if kind.starts_with("data-") => {
            (&[("data", Any)], &[("id", Text), ("transient", Flag)])
        }
        _ => return None,
    })
}

/// Why some client would refuse a chunk.
fn refusal(chunk: &Value) -> Option<String> {
    let kind = chunk["type"].as_str()?;
    let Some((required, optional)) = fields(kind) else {
        return Some(format!("unknown type {kind}"));
    };
    let fits = |value: &Value, kind: Kind| match kind {
        Text => value.is_string(),
        Flag => value.is_boolean(),
        Any => true,
        Reason => [
            "stop",
            "length",
            "content-filter",
            "tool-calls",
            "error",
            "other",
        ]
        .iter()
        .any(|reason| value == reason),
    };
    for (name, kind) in required {
        if !chunk.get(*name).is_some_and(|value| fits(value, *kind)) {
            return Some(format!("{name} is missing or has a wrong value"));
        }
    }
    for (name, value) in chunk.as_object()? {
        let known = required
            .iter()
            .chain(optional)
            .find(|known| known.0 == name);
        if name != "type" && !known.is_some_and(|known| fits(value, known.1)) {
            return Some(format!("{name} is refused"));
        }
    }
    None
}

/// A frame of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frame {
    /// Its `id:` line.
    pub(crate) id: Option<u64>,
    pub(crate) chunk: Value,
}

/// Returns the frames of a body that has ended, without `[DONE]`, which it must end with.
pub(crate) fn whole(answer: &Answer) -> Vec<Frame> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    assert_eq!(answer.headers["cache-control"], "no-cache");
    assert_eq!(answer.headers["x-vercel-ai-ui-message-stream"], "v1");
    let body = answer.text().strip_suffix("data: [DONE]\n\n");
    frames(body.unwrap_or_else(|| panic!("no [DONE]: {}", answer.text())))
}

/// Returns the frames of a body, as far as it goes.
pub(crate) fn frames(body: &str) -> Vec<Frame> {
    let mut all = Vec::new();
    for frame in body
        .split_inclusive("\n\n")
        .filter_map(|frame| frame.strip_suffix("\n\n"))
    {
        if frame.starts_with(':') || frame == "data: [DONE]" {
            continue;
        }
        let (id, data) = match frame.strip_prefix("id: ") {
            Some(rest) => {
                let (id, data) = rest.split_once('\n').unwrap();
                (Some(id.parse().unwrap()), data)
            }
            None => (None, frame),
        };
        let chunk = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        if let Some(why) = refusal(&chunk) {
            panic!("{why}: {chunk}");
        }
        all.push(Frame { id, chunk });
    }
    all
}

/// What a client has of a message while it reads its stream.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Bubble {
    /// The message; without an id until one is told.
    pub(crate) message: Value,
    /// Transient data and their names.
    pub(crate) told: Vec<(String, Value)>,
    /// The reason in `finish`, once it was read.
    pub(crate) finish: Option<String>,
    /// The text of `error`, once it was read.
    pub(crate) error: Option<String>,
    /// The last `id:`.
    pub(crate) cursor: Option<u64>,
    open: BTreeMap<String, usize>,
    arguments: BTreeMap<String, String>,
    shown: BTreeSet<String>,
    step_is_open: bool,
}

impl Bubble {
    /// A message of which nothing is known.
    pub(crate) fn new() -> Self {
        Self::on(json!({ "role": "assistant", "parts": [] }))
    }

    /// A message that goes on.
    pub(crate) fn on(message: Value) -> Self {
        Self {
            message,
            ..Self::default()
        }
    }

    /// The message that a stream gives a client which has none.
    pub(crate) fn of(frames: &[Frame]) -> Self {
        let mut bubble = Self::new();
        bubble.read(frames);
        bubble
    }

    pub(crate) fn id(&self) -> &str {
        self.message["id"].as_str().unwrap()
    }

    pub(crate) fn parts(&self) -> &Vec<Value> {
        self.message["parts"].as_array().unwrap()
    }

    /// The text parts, one after another.
    pub(crate) fn text(&self) -> String {
        text_of(&self.message)
    }

    /// The part of a call.
    pub(crate) fn call(&self, id: &str) -> &Value {
        call_of(&self.message, id)
    }

    /// The data of the parts of this name.
    pub(crate) fn data(&self, name: &str) -> Vec<&Value> {
        let parts = self.parts().iter();
        let named = parts.filter(|part| part["type"] == format!("data-{name}").as_str());
        named.map(|part| &part["data"]).collect()
    }

    /// The transient data of this name.
    pub(crate) fn told(&self, name: &str) -> Vec<&Value> {
        let told = self.told.iter().filter(|told| told.0 == name);
        told.map(|told| &told.1).collect()
    }

    /// Reads frames.
    pub(crate) fn read(&mut self, frames: &[Frame]) {
        for frame in frames {
            if self.error.is_some() {
                // Clients read nothing after an error.
                return;
            }
            assert_eq!(self.finish, None, "after the end: {frame:?}");
            self.take(&frame.chunk);
            if let Some(id) = frame.id {
                assert!(self.cursor.is_none_or(|before| id > before), "{frame:?}");
                self.cursor = Some(id);
            }
        }
    }

    fn parts_mut(&mut self) -> &mut Vec<Value> {
        self.message["parts"].as_array_mut().unwrap()
    }

    fn take(&mut self, chunk: &Value) {
        let text = |key: &str| chunk[key].as_str().unwrap().to_owned();
        let kind = chunk["type"].as_str().unwrap();
        match kind {
            "start" => self.message["id"] = chunk["messageId"].clone(),
            "finish" => {
                assert!(self.open.is_empty() && !self.step_is_open, "{self:?}");
                self.finish = chunk["finishReason"].as_str().map(str::to_owned);
            }
            "error" => self.error = Some(text("errorText")),
            "start-step" => {
                assert!(!self.step_is_open, "a step in a step: {self:?}");
                self.step_is_open = true;
                self.parts_mut().push(json!({ "type": "step-start" }));
            }
            "finish-step" => {
                assert!(self.step_is_open, "no step is open: {self:?}");
                assert!(self.open.is_empty(), "an open block: {self:?}");
                self.step_is_open = false;
            }
            "text-start" | "reasoning-start" => self.block_begins(kind, &text("id")),
            "text-delta" | "reasoning-delta" => {
                let at = self.open[&block(kind, &text("id"))];
                let part = &mut self.parts_mut()[at]["text"];
                *part = json!(part.as_str().unwrap().to_owned() + &text("delta"));
            }
            "text-end" | "reasoning-end" => {
                let id = block(kind, &text("id"));
                let at = self
                    .open
                    .remove(&id)
                    .unwrap_or_else(|| panic!("{id} is not open"));
                self.parts_mut()[at]["state"] = json!("done");
            }
            kind if kind.starts_with("data-") => self.data_chunk(kind, chunk),
            _ => self.tool(kind, chunk),
        }
    }

    fn block_begins(&mut self, kind: &str, id: &str) {
        assert!(self.step_is_open, "a block outside of a step");
        let (name, _) = kind.split_once('-').unwrap();
        let part = json!({ "type": name, "text": "", "state": "streaming" });
        self.parts_mut().push(part);
        let at = self.parts().len() - 1;
        let before = self.open.insert(block(kind, id), at);
        assert_eq!(before, None, "block {id} is open already");
    }

    fn data_chunk(&mut self, kind: &str, chunk: &Value) {
        if chunk["transient"] == true {
            let name = kind.strip_prefix("data-").unwrap().to_owned();
            self.told.push((name, chunk["data"].clone()));
            return;
        }
        let mut part = Map::new();
        part.insert("type".to_owned(), json!(kind));
        if let Some(id) = chunk.get("id") {
            part.insert("id".to_owned(), id.clone());
        }
        part.insert("data".to_owned(), chunk["data"].clone());
        let id = chunk.get("id");
        let same = |part: &&mut Value| part["type"] == kind && id.is_some() && part.get("id") == id;
        match self.parts_mut().iter_mut().find(same) {
            Some(known) => *known = Value::Object(part),
            None => self.parts_mut().push(Value::Object(part)),
        }
    }

    fn tool(&mut self, kind: &str, chunk: &Value) {
        let id = chunk["toolCallId"].as_str().unwrap().to_owned();
        let parts = self.message["parts"].as_array_mut().unwrap();
        let mut known = parts
            .iter_mut()
            .rfind(|part| part["toolCallId"] == id.as_str());
        if matches!(
            kind,
            "tool-input-start" | "tool-input-available" | "tool-input-error"
        ) {
            assert!(self.step_is_open, "a call outside of a step: {chunk}");
            assert_eq!(chunk["dynamic"], true, "{chunk}");
            if kind == "tool-input-start" {
                assert!(known.is_none(), "call {id} begins twice");
                self.arguments.insert(id.clone(), String::new());
            } else {
                assert!(self.shown.insert(id.clone()), "call {id} is shown twice");
            }
            if known.is_none() {
                let part = json!({ "type": "dynamic-tool", "toolName": chunk["toolName"], "toolCallId": id });
                parts.push(part);
                known = parts.last_mut();
            }
        }
        let part = known.unwrap_or_else(|| panic!("no call {id}: {chunk}"));
        let state = match kind {
            "tool-input-start" => "input-streaming",
            "tool-input-delta" => {
                let text = self.arguments.get_mut(&id).unwrap();
                text.push_str(chunk["inputTextDelta"].as_str().unwrap());
                return;
            }
            "tool-input-available" => "input-available",
            "tool-input-error" | "tool-output-error" => "output-error",
            "tool-output-available" => "output-available",
            "tool-output-denied" => "output-denied",
            "tool-approval-request" => {
                assert_eq!(part["state"], "input-available", "{chunk}");
                part["approval"] = json!({ "id": chunk["approvalId"] });
                "approval-requested"
            }
            _ => panic!("unknown {chunk}"),
        };
        if kind.starts_with("tool-output") {
            let is_over = part["state"].as_str().unwrap().starts_with("output-");
            let was_answered_here = part.get("providerExecuted").is_none();
            assert!(
                !is_over || was_answered_here,
                "call {id} ends twice: {chunk}"
            );
        }
        part["state"] = json!(state);
        for key in ["input", "output", "errorText", "providerExecuted"] {
            if let Some(value) = chunk.get(key) {
                part[key] = value.clone();
            }
        }
    }
}

fn block(kind: &str, id: &str) -> String {
    format!("{} {id}", kind.split('-').next().unwrap())
}

/// The text parts of a message, one after another.
pub(crate) fn text_of(message: &Value) -> String {
    let parts = message["parts"].as_array().unwrap().iter();
    parts
        .filter(|part| part["type"] == "text")
        .map(|part| part["text"].as_str().unwrap())
        .collect()
}

/// The part of a call in a message.
pub(crate) fn call_of<'a>(message: &'a Value, id: &str) -> &'a Value {
    let parts = message["parts"].as_array().unwrap();
    let found = parts.iter().find(|part| part["toolCallId"] == id);
    found.unwrap_or_else(|| panic!("no call {id}: {message}"))
}

/// What stays of a message however a client came by it: not the data beside it, nor what the client itself noted of
/// its decisions.
pub(crate) fn essence(message: &Value) -> Value {
    let parts = message["parts"].as_array().unwrap().iter();
    let parts: Vec<Value> = parts
        .filter(|part| !part["type"].as_str().unwrap().starts_with("data-"))
        .map(|part| {
            let mut part = part.clone();
            let fields = part.as_object_mut().unwrap();
            fields.remove("approval");
            if fields.get("state") == Some(&json!("output-denied")) {
                fields.remove("providerExecuted");
            }
            part
        })
        .collect();
    json!({ "id": message["id"], "role": message["role"], "parts": parts })
}
