//! Two agents without a framework, over the same client: one as lean as it can be, and one as it is
//! usually written. Neither keeps anything, and both do one thing after the other.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::openai::{ChatChunk, Client};
use crate::sqlite::Outcome;

pub(crate) const SYSTEM: &str = "You add numbers.";
pub(crate) const USER: &str = "Add.";

/// The arguments of the tool.
#[derive(Deserialize)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(Serialize)]
struct Sum {
    sum: i64,
}

/// The only tool, as the server is told of it.
fn tools() -> Value {
    json!([{ "type": "function", "function": {
        "name": "add",
        "description": "Adds two numbers.",
        "parameters": {
            "type": "object",
            "required": ["a", "b"],
            "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } },
        },
    } }])
}

/// A call that is being received.
#[derive(Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

/// A turn without copies: the body of the request is kept, and each step is appended to it.
pub(crate) async fn raw_lean(client: &Client, model: &str) -> Outcome<String> {
    let mut body = format!(
        r#"{{"model":"{model}","stream":true,"tools":{},"messages":[{{"role":"system","content":"{SYSTEM}"}},{{"role":"user","content":"{USER}"}}]}}"#,
        tools()
    )
    .into_bytes();
    let mut text = String::new();
    let mut calls: Vec<Call> = Vec::new();
    loop {
        text.clear();
        calls.clear();
        let mut reply = client.post(&body).await?;
        while let Some(event) = reply.next().await? {
            let Some(chunk) = ChatChunk::read(event)? else {
                continue;
            };
            for choice in chunk.choices {
                if let Some(content) = choice.delta.content {
                    text.push_str(&content.0);
                }
                for delta in choice.delta.tool_calls {
                    if let (Some(id), Some(name)) = (delta.id, delta.function.name) {
                        calls.push(Call {
                            id: id.0.into_owned(),
                            name: name.0.into_owned(),
                            arguments: String::new(),
                        });
                    }
                    let call = calls.get_mut(delta.index).ok_or("no such call")?;
                    call.arguments.push_str(&delta.function.arguments.0);
                }
            }
        }
        if calls.is_empty() {
            return Ok(text);
        }
        append_step(&mut body, &text, &calls)?;
    }
}

/// Appends a reply and the results of its calls to the messages, which are the end of the body.
fn append_step(body: &mut Vec<u8>, text: &str, calls: &[Call]) -> Outcome<()> {
    body.truncate(body.len().saturating_sub(2));
    body.extend(br#",{"role":"assistant","content":"#);
    serde_json::to_writer(&mut *body, text)?;
    body.extend(br#","tool_calls":["#);
    for (place, call) in calls.iter().enumerate() {
        body.extend(if place == 0 {
            &b"{\"id\":"[..]
        } else {
            b",{\"id\":"
        });
        serde_json::to_writer(&mut *body, &call.id)?;
        body.extend(br#","type":"function","function":{"name":"#);
        serde_json::to_writer(&mut *body, &call.name)?;
        body.extend(br#","arguments":"#);
        serde_json::to_writer(&mut *body, &call.arguments)?;
        body.extend(b"}}");
    }
    body.extend(b"]}");
    for call in calls {
        let Add { a, b } = serde_json::from_str(&call.arguments)?;
        body.extend(br#",{"role":"tool","tool_call_id":"#);
        serde_json::to_writer(&mut *body, &call.id)?;
        body.extend(br#","content":"#);
        serde_json::to_writer(&mut *body, &serde_json::to_string(&Sum { sum: a + b })?)?;
        body.push(b'}');
    }
    body.extend(b"]}");
    Ok(())
}

/// A turn as it is usually written: the history is a list of JSON values, and each request
/// serialises all of it.
pub(crate) async fn bare(client: &Client, model: &str) -> Outcome<String> {
    let tools = tools();
    let mut messages = vec![
        json!({ "role": "system", "content": SYSTEM }),
        json!({ "role": "user", "content": USER }),
    ];
    loop {
        let body = json!({ "model": model, "stream": true, "tools": tools, "messages": messages });
        let mut reply = client.post(body.to_string().as_bytes()).await?;
        let (mut text, mut calls) = (String::new(), Vec::<Call>::new());
        while let Some(event) = reply.next().await? {
            if event == b"[DONE]" {
                continue;
            }
            let event: Value = serde_json::from_slice(event)?;
            let delta = event.pointer("/choices/0/delta").unwrap_or(&Value::Null);
            text.push_str(delta.get("content").and_then(Value::as_str).unwrap_or(""));
            let deltas = delta.get("tool_calls").and_then(Value::as_array);
            for delta in deltas.into_iter().flatten() {
                let part = |pointer: &str| {
                    let part = delta.pointer(pointer).and_then(Value::as_str);
                    part.unwrap_or("").to_owned()
                };
                if delta.get("id").is_some() {
                    calls.push(Call::default());
                }
                let call = calls.last_mut().ok_or("no such call")?;
                call.id += &part("/id");
                call.name += &part("/function/name");
                call.arguments += &part("/function/arguments");
            }
        }
        if calls.is_empty() {
            return Ok(text);
        }
        let called = calls.iter().map(|call| {
            json!({ "id": call.id, "type": "function",
                "function": { "name": call.name, "arguments": call.arguments } })
        });
        let called: Vec<Value> = called.collect();
        messages.push(json!({ "role": "assistant", "content": text, "tool_calls": called }));
        for call in &calls {
            let arguments: Value = serde_json::from_str(&call.arguments)?;
            let number = |name| arguments.get(name).and_then(Value::as_i64).unwrap_or(0);
            let result = json!({ "sum": number("a") + number("b") }).to_string();
            let message = json!({ "role": "tool", "tool_call_id": call.id, "content": result });
            messages.push(message);
        }
    }
}
