//! Streamed replies of providers.

use helix_agents_models::Provider;
use serde_json::{Value, json};

/// The server-sent events of a streamed reply.
pub(super) fn events(provider: Provider, deltas: usize) -> Vec<Vec<u8>> {
    let (first, delta, last): (Vec<Value>, Value, Vec<Value>) = match provider {
        Provider::OpenAi => {
            let chunk = |delta: Value, finish: Value| {
                json!({ "id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 1, "model": "m",
                    "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
            };
            let end = json!({ "id": "chatcmpl-7", "choices": [],
                "usage": { "prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18 } });
            (
                vec![chunk(
                    json!({ "role": "assistant", "content": "" }),
                    Value::Null,
                )],
                chunk(json!({ "content": " word" }), Value::Null),
                vec![chunk(json!({}), json!("stop")), end, json!("[DONE]")],
            )
        }
        Provider::OpenAiResponses => {
            let response = |status: &str| {
                json!({ "id": "resp_7", "object": "response", "status": status,
                "output": [], "usage": { "input_tokens": 9, "output_tokens": 9, "total_tokens": 18 } })
            };
            let item =
                json!({ "type": "message", "id": "msg_7", "role": "assistant", "content": [] });
            (
                vec![
                    json!({ "type": "response.created", "response": response("in_progress") }),
                    json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
                ],
                json!({ "type": "response.output_text.delta", "item_id": "msg_7", "output_index": 0,
                    "content_index": 0, "delta": " word", "sequence_number": 7, "logprobs": [] }),
                vec![
                    json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
                    json!({ "type": "response.completed", "response": response("completed") }),
                ],
            )
        }
        Provider::Anthropic => (
            vec![
                json!({ "type": "message_start", "message": { "id": "msg_7", "type": "message",
                    "role": "assistant", "content": [], "model": "m",
                    "usage": { "input_tokens": 9, "output_tokens": 1 } } }),
                json!({ "type": "content_block_start", "index": 0,
                    "content_block": { "type": "text", "text": "" } }),
            ],
            json!({ "type": "content_block_delta", "index": 0,
                "delta": { "type": "text_delta", "text": " word" } }),
            vec![
                json!({ "type": "content_block_stop", "index": 0 }),
                json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" },
                    "usage": { "output_tokens": 9 } }),
                json!({ "type": "message_stop" }),
            ],
        ),
        _ => {
            let chunk = |finish: Option<&str>| {
                json!({ "candidates": [{ "index": 0, "finishReason": finish,
                        "content": { "role": "model", "parts": [{ "text": " word" }] } }],
                    "usageMetadata": { "promptTokenCount": 9, "candidatesTokenCount": 9, "totalTokenCount": 18 },
                    "modelVersion": "m", "responseId": "r" })
            };
            (Vec::new(), chunk(None), vec![chunk(Some("STOP"))])
        }
    };
    let event = |value: &Value| {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let name = value.get("type").and_then(Value::as_str);
        let name = name
            .map(|name| format!("event: {name}\n"))
            .unwrap_or_default();
        format!("{name}data: {text}\n\n").into_bytes()
    };
    // Gemini's last event carries text, too.
    let count = if provider == Provider::Gemini {
        deltas - 1
    } else {
        deltas
    };
    let mut events: Vec<_> = first.iter().map(event).collect();
    events.extend(std::iter::repeat_n(event(&delta), count));
    events.extend(last.iter().map(event));
    events
}
