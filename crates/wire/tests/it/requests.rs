//! What clients send.

use helix_agents_wire::{ChatRequest, SseWriter, Trigger, UiChunk};
use serde_json::{Value, json};

fn request(body: Value) -> ChatRequest {
    serde_json::from_value(body).unwrap()
}

fn message(id: &str, role: &str, text: &str) -> Value {
    json!({ "id": id, "role": role, "parts": [{ "type": "text", "text": text }] })
}

/// The whole run of user messages at the end counts.
///
/// proves: CHT-08
#[test]
fn the_user_messages_at_the_end_are_taken() {
    let request = request(
        json!({ "id": "s", "trigger": "regenerate-message", "added": 1, "messages": [
        message("u0", "user", "Before"), message("a0", "assistant", "Yes"),
        message("u1", "user", "One"), message("u2", "user", "Two"),
    ] }),
    );
    assert_eq!(request.trigger, Trigger::RegenerateMessage);
    let tail: Vec<_> = request
        .trailing_user_messages()
        .iter()
        .map(|one| one.text())
        .collect();
    assert_eq!(tail, ["One", "Two"]);
    assert!(request.trailing_assistant_message().is_none());
}

/// A message keeps its content, its files and its metadata; too large metadata is dropped, but never what hides it.
///
/// proves: CHT-08
#[test]
fn a_message_keeps_what_it_came_with() {
    let of = |metadata: Value| {
        let mut one = message("u1", "user", "Look ");
        one["parts"].as_array_mut().unwrap().extend([
            json!({ "type": "text", "text": "here" }),
            json!({ "type": "file", "mediaType": "image/png", "url": "data:image/png;base64,aGk=", "filename": "a.png" }),
            json!({ "type": "data-note", "data": 1 }),
        ]);
        one["metadata"] = metadata;
        request(json!({ "messages": [one] })).messages.remove(0)
    };
    let fallback = json!({ "tenant": "acme" });
    let fallback = fallback.as_object();
    let stored = of(json!({ "channel": "web" }))
        .to_user_message(fallback)
        .unwrap();
    assert_eq!(
        (stored.content.as_str(), stored.id.unwrap().as_str()),
        ("Look here", "u1")
    );
    assert_eq!(stored.files[0].filename.as_deref(), Some("a.png"));
    assert_eq!(Value::Object(stored.metadata), json!({ "channel": "web" }));
    let bare = of(Value::Null).to_user_message(fallback).unwrap();
    assert_eq!(Value::Object(bare.metadata), json!({ "tenant": "acme" }));

    let large = json!({ "hidden": true, "text": "x".repeat(64 * 1024) });
    let large = of(large).to_user_message(fallback).unwrap();
    assert_eq!(Value::Object(large.metadata), json!({ "hidden": true }));
    let large = json!({ "text": "x".repeat(64 * 1024) });
    assert!(
        of(large)
            .to_user_message(fallback)
            .unwrap()
            .metadata
            .is_empty()
    );

    let empty = request(json!({ "messages": [{ "id": "u1", "role": "user", "parts": [] }] }));
    assert!(empty.messages[0].to_user_message(None).is_err());
    let odd = request(json!({ "messages": [message("a b", "user", "x")] }));
    assert!(odd.messages[0].to_user_message(None).is_err());
}

/// The `id:` line stands on the last frame of a position.
///
/// proves: TRN-06
#[test]
fn frames_have_the_position_on_their_last() {
    let mut writer = SseWriter::default();
    let chunks = [
        UiChunk::StartStep {},
        UiChunk::TextDelta {
            id: "t".into(),
            delta: "a\nb".into(),
        },
    ];
    writer.chunks(&chunks, Some(7.into())).unwrap();
    writer.chunks(&[], Some(8.into())).unwrap();
    writer.done();
    assert_eq!(
        writer.take(),
        "data: {\"type\":\"start-step\"}\n\n\
         id: 7\ndata: {\"type\":\"text-delta\",\"id\":\"t\",\"delta\":\"a\\nb\"}\n\n\
         data: [DONE]\n\n"
    );
    assert!(writer.is_empty());
}
