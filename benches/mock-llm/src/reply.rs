//! Renders whole HTTP responses, and keeps those that were rendered.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::request::ChatRequest;
use crate::script::Script;

/// The pieces in which the text beside a call is streamed.
const BEFORE_CALL: [&str; 2] = ["Let me", " add."];
/// The pieces in which the arguments of a call are streamed.
const ARGUMENTS: [&str; 2] = ["{\"a\":1,", "\"b\":2}"];
const WORDS: [&str; 8] = [
    " the", " fence", " of", " a", " session", " rises", " by", " one",
];

/// The parts of a request that decide its reply.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    script: Script,
    /// The number of the call; `None` for a text.
    call: Option<usize>,
    stream: bool,
}

/// Renders replies, each of them once.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    rendered: Mutex<HashMap<Key, Arc<[u8]>>>,
}

impl Replies {
    /// Returns the whole response to the body of a chat completion request.
    pub(crate) fn respond_to(&self, body: &[u8]) -> Arc<[u8]> {
        let Some(request) = ChatRequest::read(body) else {
            return refusal("400 Bad Request", "the request names no model");
        };
        let script = match request.model.parse::<Script>() {
            Ok(script) => script,
            Err(why) => return refusal("404 Not Found", &why),
        };
        let call = match script {
            Script::Steps(steps) if request.tool_messages < steps => Some(request.tool_messages),
            _ => None,
        };
        let stream = request.stream;
        let key = Key {
            script,
            call,
            stream,
        };
        let mut rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = rendered.entry(key).or_insert_with(|| {
            let reply = Reply::new(script, call);
            if stream {
                streamed(&reply, request.model)
            } else {
                whole(&reply, request.model)
            }
        });
        Arc::clone(reply)
    }
}

/// The content of a reply.
struct Reply {
    pieces: Vec<&'static str>,
    /// The id of the call of `add`, if the reply makes one.
    call_id: Option<String>,
}

impl Reply {
    fn new(script: Script, call: Option<usize>) -> Self {
        let pieces = match (script, call) {
            (_, Some(_)) => BEFORE_CALL.to_vec(),
            (Script::Deltas(deltas), None) => WORDS.into_iter().cycle().take(deltas).collect(),
            (Script::Text | Script::Steps(_), None) => vec!["Done."],
        };
        let call_id = call.map(|call| format!("call_{call}"));
        Self { pieces, call_id }
    }

    fn finish_reason(&self) -> &'static str {
        match self.call_id {
            Some(_) => "tool_calls",
            None => "stop",
        }
    }

    fn usage(&self) -> Value {
        let output = self.pieces.len();
        json!({ "prompt_tokens": 100, "completion_tokens": output, "total_tokens": 100 + output })
    }
}

/// A reply in one piece of JSON.
fn whole(reply: &Reply, model: &str) -> Arc<[u8]> {
    let mut message = json!({ "role": "assistant", "content": reply.pieces.concat() });
    if let (Some(id), Some(message)) = (&reply.call_id, message.as_object_mut()) {
        let function = json!({ "name": "add", "arguments": ARGUMENTS.concat() });
        let call = json!({ "id": id, "type": "function", "function": function });
        message.insert("tool_calls".to_owned(), json!([call]));
    }
    let choice = json!({ "index": 0, "message": message, "finish_reason": reply.finish_reason() });
    let body = json!({
        "id": "chatcmpl-mock", "object": "chat.completion", "created": 1_700_000_000, "model": model,
        "choices": [choice], "usage": reply.usage(),
    });
    response("200 OK", &body.to_string())
}

/// A reply as server-sent events, each in an HTTP chunk of its own, as providers send them.
fn streamed(reply: &Reply, model: &str) -> Arc<[u8]> {
    let mut response = String::from(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    );
    let mut send = |data: &str| {
        let event = format!("data: {data}\n\n");
        // Writing to a string does not fail.
        let _ = write!(response, "{:x}\r\n{event}\r\n", event.len());
    };
    let event = |choices: Value, usage: Value| {
        let event = json!({
            "id": "chatcmpl-mock", "object": "chat.completion.chunk", "created": 1_700_000_000,
            "model": model, "choices": choices, "usage": usage,
        });
        event.to_string()
    };
    let delta = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        event(json!([choice]), Value::Null)
    };

    send(&delta(
        json!({ "role": "assistant", "content": "" }),
        Value::Null,
    ));
    for piece in &reply.pieces {
        send(&delta(json!({ "content": piece }), Value::Null));
    }
    if let Some(id) = &reply.call_id {
        let function = json!({ "name": "add", "arguments": "" });
        let call = json!({ "index": 0, "id": id, "type": "function", "function": function });
        send(&delta(json!({ "tool_calls": [call] }), Value::Null));
        for piece in ARGUMENTS {
            let call = json!({ "index": 0, "function": { "arguments": piece } });
            send(&delta(json!({ "tool_calls": [call] }), Value::Null));
        }
    }
    send(&delta(json!({}), json!(reply.finish_reason())));
    send(&event(json!([]), reply.usage()));
    send("[DONE]");
    response.push_str("0\r\n\r\n");
    response.into_bytes().into()
}

/// An error in the form that clients of OpenAI expect.
pub(crate) fn refusal(status: &str, why: &str) -> Arc<[u8]> {
    let error = json!({ "message": why, "type": "invalid_request_error" });
    response(status, &json!({ "error": error }).to_string())
}

fn response(status: &str, body: &str) -> Arc<[u8]> {
    let length = body.len();
    let response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    response.into_bytes().into()
}
