//! One stream of each provider, split at every byte.

use std::collections::VecDeque;

use helix_agents_core::model::{ModelConfig, ModelEvent, ModelRequest, ToolChoice};
use helix_agents_core::step::{SystemPrompt, build_messages_for_llm};
use helix_agents_core::time::Timestamp;
use helix_agents_core::{SessionId, Transcript};
use helix_agents_testkit::VirtualClock;
use serde_json::{Value, json};

use super::sse::SseParser;
use super::wire::{ReadError, Wire};
use super::{Provider, ProviderModel};

/// Returns the first stream of a cassette, as bytes.
fn recorded(provider: Provider, cassette: &str) -> Vec<u8> {
    let root = env!("CARGO_MANIFEST_DIR");
    let path = format!("{root}/tests/cassettes/{provider}/{cassette}.json");
    let file = std::fs::read_to_string(path).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let events = file["exchanges"][0]["events"].as_array().unwrap();
    let events = events.iter().map(|event| {
        if let Some(raw) = event["raw"].as_str() {
            return raw.to_owned();
        }
        let name = event["event"].as_str();
        let name = name.map(|name| format!("event: {name}\n"));
        format!(
            "{}data: {}\n\n",
            name.unwrap_or_default(),
            text(&event["data"])
        )
    });
    events.collect::<String>().into_bytes()
}

/// Returns what a client reads from a body that comes in these pieces.
fn read<'a>(wire: &dyn Wire, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<ModelEvent> {
    let history = Transcript::new();
    let (system, state, config) = (SystemPrompt::from(""), json!({}), ModelConfig::default());
    let session = SessionId::new("s").unwrap();
    let clock = VirtualClock::new(Timestamp::from_millis(0));
    let mut reader = wire.reader(&ModelRequest {
        prompt: build_messages_for_llm(&history, &system, &state),
        tools: &[],
        tool_choice: ToolChoice::Auto,
        native_output: None,
        config: &config,
        state: &state,
        agent_type: "a",
        session_id: &session,
        attempt: 1,
        clock: &clock,
    });
    let mut parser = SseParser::default();
    let mut events = VecDeque::new();
    for piece in pieces {
        let fed = parser.feed::<ReadError>(piece, |event| reader.read(event, &mut events));
        fed.unwrap();
    }
    reader.end(&mut events).unwrap();
    events.into()
}

fn a_stream_split_anywhere_gives_the_same(provider: Provider, cassette: &str) {
    let model = ProviderModel::builder(provider, "a-model")
        .api_key("k")
        .build()
        .unwrap();
    let wire = model.wire.as_ref();
    let body = recorded(provider, cassette);
    let whole = read(wire, [body.as_slice()]);
    assert!(
        matches!(whole.last(), Some(ModelEvent::Finished { .. })),
        "{whole:?}"
    );
    for at in 0..=body.len() {
        let (one, two) = body.split_at(at);
        assert_eq!(
            read(wire, [one, two]),
            whole,
            "{provider} {cassette} split at {at}"
        );
    }
    assert_eq!(read(wire, body.chunks(1)), whole);
    let with_returns = String::from_utf8(body).unwrap().replace('\n', "\r\n");
    let with_returns = format!("\u{feff}: ping\r\n\r\n{with_returns}");
    assert_eq!(read(wire, [with_returns.as_bytes()]), whole);
}

#[test]
fn a_stream_of_openai_split_anywhere_gives_the_same() {
    a_stream_split_anywhere_gives_the_same(Provider::OpenAi, "text");
    a_stream_split_anywhere_gives_the_same(Provider::OpenAi, "tools");
}

#[test]
fn a_stream_of_openai_with_reasoning_and_calls_split_anywhere_gives_the_same() {
    a_stream_split_anywhere_gives_the_same(Provider::OpenAi, "parallel_tools");
    a_stream_split_anywhere_gives_the_same(Provider::OpenAi, "thinking_with_tools");
}

#[test]
fn a_stream_of_openai_responses_split_anywhere_gives_the_same() {
    a_stream_split_anywhere_gives_the_same(Provider::OpenAiResponses, "text");
    a_stream_split_anywhere_gives_the_same(Provider::OpenAiResponses, "thinking_with_tools");
}

#[test]
fn a_stream_of_anthropic_split_anywhere_gives_the_same() {
    a_stream_split_anywhere_gives_the_same(Provider::Anthropic, "text");
    a_stream_split_anywhere_gives_the_same(Provider::Anthropic, "server_tools");
    a_stream_split_anywhere_gives_the_same(Provider::Anthropic, "redacted_thinking");
}

#[test]
fn a_stream_of_gemini_split_anywhere_gives_the_same() {
    for cassette in ["text", "parallel_tools", "signed_parts", "code_execution"] {
        a_stream_split_anywhere_gives_the_same(Provider::Gemini, cassette);
    }
}
