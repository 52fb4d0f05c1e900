//! Models through the crate `genai`, against a server on loopback: the cassettes of OpenAI through its adapter
//! for OpenAI, and the own format of Ollama.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use helix_agents_core::model::{ModelErrorKind, ModelEvent, ToolChoice};
use helix_agents_models::genai::{GenaiError, GenaiModel, GenaiModelBuilder};
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::cassette;
use super::cassettes;
use super::http_server::{HttpServer, Part, Response};
use super::openai_conversations::{after, hard};
use super::scene::{Scene, described, described_error};

const KEY: &str = "sk-very-secret-key-0123456789";
const SECRET: &str = "a sentence in the prompt that no error may repeat to anybody";

fn model(server: &HttpServer) -> GenaiModelBuilder {
    GenaiModel::builder("openai::a-model")
        .base_url(format!("http://{}/v1", server.address))
        .api_key(KEY)
}

/// Without the counts that are zero, which `genai` takes for counts that are not there.
fn without_zeros(mut described: Value) -> Value {
    if let Some(usage) = described.get_mut("usage").and_then(Value::as_object_mut) {
        usage.retain(|name, count| *count != 0 || matches!(name.as_str(), "input" | "output"));
    }
    described
}

/// Cassettes of servers that are not quite like OpenAI's are for our own client: `genai` wants an index with each
/// piece of a call, arguments as a text, and the last line of a stream. It tells no refusal from a text, and
/// knows no usage before the end of a stream.
const OTHERS: &[&str] = &[
    "arguments_as_object",
    "mid_stream_error",
    "no_done",
    "no_index",
    "refusal",
    "same_index",
];

/// proves in part: LLM-01
#[tokio::test]
async fn cassettes_of_openai_give_what_they_say() {
    let server = cassettes::server("openai").await;
    let mut count = 0;
    for cassette in cassette::of("openai") {
        let name = &cassette.name;
        if OTHERS.contains(&name.as_str()) {
            continue;
        }
        let model = GenaiModel::builder(format!("openai::{}", cassette.model))
            .base_url(format!("http://{}/{name}/genai/v1", server.address))
            .api_key(KEY)
            .native_output(true)
            .build()
            .unwrap();
        let mut scene = Scene::of(&cassette.scene);
        let config = &mut scene.config;
        config.provider_options.clear();
        (config.presence_penalty, config.frequency_penalty) = (None, None);
        for (at, exchange) in cassette.exchanges.iter().enumerate() {
            let described = match scene.reply(&model).await {
                Ok(reply) => {
                    scene.push(&reply);
                    described(&reply)
                }
                Err((error, usage)) => described_error(&error, &usage),
            };
            let expected = without_zeros(exchange.expect.clone());
            assert_eq!(without_zeros(described), expected, "{name} {at}");
        }
        count += 1;
    }
    assert!(count >= 12, "{count}");
}

/// Sends one request, and returns its body, or why none was sent.
async fn sent(
    builder: impl Fn(&HttpServer) -> GenaiModelBuilder,
    scene: &Scene,
) -> Result<Value, String> {
    let refused = Response::new(418, "application/json", "{}");
    let server = HttpServer::start(move |_| refused.clone()).await;
    let model = builder(&server).build().unwrap();
    let (error, _) = scene.reply(&model).await.unwrap_err();
    match server.seen().first() {
        Some(seen) => Ok(serde_json::from_slice(&seen.body).unwrap()),
        None => {
            assert_eq!(error.kind, ModelErrorKind::Invalid, "{error}");
            Err(error.detail)
        }
    }
}

fn ollama(server: &HttpServer) -> GenaiModelBuilder {
    GenaiModel::builder("ollama::qwen3").base_url(format!("http://{}", server.address))
}

/// Every result follows its call, in order and under one id; hidden messages are sent; reasoning and call ids of
/// other providers are not.
#[tokio::test]
async fn any_conversation_can_be_continued() {
    let mut scene = Scene::asking("unused");
    scene.history = hard();
    let body = sent(model, &scene).await.unwrap();
    let messages = body["messages"].as_array().unwrap();
    let roles: Vec<_> = messages
        .iter()
        .map(|one| one["role"].as_str().unwrap())
        .collect();
    let mut expected = vec!["user", "user", "user", "assistant"];
    expected.extend(["tool"; 6]);
    expected.extend(["assistant", "assistant", "user"]);
    assert_eq!(roles, expected);
    assert_eq!(messages[1]["content"], "Two");
    let calls = messages[3]["tool_calls"].as_array().unwrap();
    let ids: Vec<_> = calls.iter().map(|call| &call["id"]).collect();
    let answered: Vec<_> = messages[4..10]
        .iter()
        .map(|one| &one["tool_call_id"])
        .collect();
    assert_eq!(ids, answered);
    assert!(ids[0].as_str().unwrap().starts_with("call_"), "{ids:?}");
    let arguments = |call: usize| -> Value {
        serde_json::from_str(calls[call]["function"]["arguments"].as_str().unwrap()).unwrap()
    };
    assert_eq!(arguments(0), json!({ "arguments": "{\"x\": 1" }));
    assert_eq!(arguments(3), json!({ "b": 1, "a": 2 }));
    assert!(messages[5]["content"].as_str().unwrap().contains("denied"));
    assert_eq!(messages[10]["content"], "(no reply)");
    let text = body.to_string();
    assert!(
        !text.contains("Elsewhere") && !text.contains("sig"),
        "{text}"
    );
}

#[tokio::test]
async fn reasoning_goes_back_to_its_own_model() {
    let thinking = |model: &str| {
        let ours = json!({ "genai": { "model": model } });
        json!({ "type": "thinking", "text": "Hm", "providerMetadata": ours })
    };
    for (model_name, expected) in [("openai::a-model", json!("Hm")), ("groq::x", Value::Null)] {
        let mut scene = Scene::asking("unused");
        scene.history = after(&json!([
            thinking(model_name), { "type": "text", "text": "Sa" }, { "type": "text", "text": "id" },
        ]));
        let body = sent(model, &scene).await.unwrap();
        assert_eq!(body["messages"][1]["reasoning_content"], expected);
        assert_eq!(body["messages"][1]["content"], "Said");
    }
}

#[tokio::test]
async fn settings_are_sent_and_others_refused() {
    let all = cassette::of("openai");
    let tools = all.iter().find(|one| one.name == "tools").unwrap();
    let mut scene = Scene::of(&tools.scene);
    scene.config.temperature = Some(0.5);
    scene.config.max_output_tokens = Some(99);
    scene.config.seed = Some(7);
    scene.config.stop_sequences = vec!["END".to_owned()];
    let options = json!({ "user": "u1" });
    scene
        .config
        .provider_options
        .insert("genai".to_owned(), options);
    scene.tool_choice = ToolChoice::Tool("get_weather".to_owned());
    let body = sent(model, &scene).await.unwrap();
    assert_eq!(body["temperature"], 0.5);
    assert_eq!(body["seed"], 7);
    assert_eq!(body["stop"], json!(["END"]));
    assert_eq!(body["user"], "u1");
    assert_eq!(body["tool_choice"]["function"]["name"], "get_weather");
    assert_eq!(body["tools"][0]["function"]["name"], "get_weather");

    // Ollama's own format has no choice of a tool: the model decides. Options would be left out.
    let refused = sent(ollama, &scene).await.unwrap_err();
    assert!(refused.contains("provider options"), "{refused}");
    scene.config.provider_options.clear();
    let body = sent(ollama, &scene).await.unwrap();
    assert_eq!(
        (&body["tool_choice"], &body["options"]["seed"]),
        (&Value::Null, &json!(7))
    );
    let cohere = |server: &HttpServer| {
        let url = format!("http://{}/v1", server.address);
        GenaiModel::builder("cohere::command-a")
            .base_url(url)
            .api_key(KEY)
    };
    scene.config.seed = None;
    let refused = sent(cohere, &scene).await.unwrap_err();
    assert!(refused.contains("cohere has no tools"), "{refused}");
    for setting in ["top_k", "presence_penalty", "frequency_penalty"] {
        let mut scene = Scene::asking("One");
        let config = &mut scene.config;
        match setting {
            "top_k" => config.top_k = Some(1),
            "presence_penalty" => config.presence_penalty = Some(0.1),
            _ => config.frequency_penalty = Some(0.1),
        }
        let refused = sent(model, &scene).await.unwrap_err();
        assert!(refused.contains(setting), "{refused}");
    }
}

/// The own format of Ollama: thinking, a text and two calls, with the tokens at the end; and a stream that breaks.
#[tokio::test]
async fn a_stream_of_ollama_is_read() {
    let line = |value: Value| Part::Bytes(format!("{value}\n").into_bytes());
    let call = |city: &str| {
        let function = json!({ "name": "get_weather", "arguments": { "city": city } });
        json!({ "function": function })
    };
    let message = |message: Value| json!({ "model": "qwen3", "message": message, "done": false });
    let lines = vec![
        line(message(
            json!({ "role": "assistant", "content": "", "thinking": "Hm" }),
        )),
        line(message(json!({ "content": "Look" }))),
        line(message(json!({ "content": "ing." }))),
        line(message(
            json!({ "content": "", "tool_calls": [call("Oslo"), call("Rome")] }),
        )),
        line(json!({
            "model": "qwen3", "message": { "content": "" }, "done": true, "done_reason": "stop",
            "prompt_eval_count": 30, "eval_count": 12,
        })),
    ];
    let stream = |parts: Vec<Part>| {
        let mut response = Response::new(200, "application/x-ndjson", "");
        response.parts = parts;
        response
    };
    let whole = stream(lines.clone());
    let server = HttpServer::start(move |_| whole.clone()).await;
    let model = ollama(&server).build().unwrap();
    let reply = Scene::asking("Go.").reply(&model).await.unwrap();
    assert_eq!(
        described(&reply),
        json!({
            "text": "Looking.", "thinking": ["Hm"],
            "calls": [
                { "name": "get_weather", "arguments": { "city": "Oslo" } },
                { "name": "get_weather", "arguments": { "city": "Rome" } },
            ],
            "stopReason": "tool_use", "usage": { "input": 30, "output": 12 },
        })
    );
    let cut = stream(lines[..3].to_vec());
    let server = HttpServer::start(move |_| cut.clone()).await;
    let model = ollama(&server).build().unwrap();
    let (error, _) = Scene::asking("Go.").reply(&model).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Transport, "{error}");
}

/// Asks a server that always gives this response, and returns the error. Nothing is sent twice, and neither the
/// key nor the prompt is shown.
async fn failure(response: Response) -> helix_agents_core::model::ModelError {
    let server = HttpServer::start(move |_| response.clone()).await;
    let model = model(&server).idle_timeout(Duration::from_millis(200));
    let model = model.build().unwrap();
    let (error, _) = Scene::asking(SECRET).reply(&model).await.unwrap_err();
    assert_eq!(server.seen().len(), 1, "a client retries nothing");
    for shown in [
        error.to_string(),
        format!("{error:?}"),
        format!("{model:?}"),
    ] {
        assert!(!shown.contains(SECRET) && !shown.contains(KEY), "{shown}");
    }
    error
}

/// proves in part: LLM-04
#[tokio::test]
async fn failures_are_of_the_right_kind() {
    let message = format!("wrong: {SECRET}, with {KEY}");
    let body = json!({ "error": { "message": message, "type": "x", "code": "x" } }).to_string();
    for (status, kind) in [
        (400, ModelErrorKind::Invalid),
        (401, ModelErrorKind::Auth),
        (413, ModelErrorKind::ContextLength),
        (429, ModelErrorKind::RateLimited),
        (503, ModelErrorKind::Overloaded),
    ] {
        let response = Response::new(status, "application/json", body.as_bytes());
        let error = failure(response.header("retry-after-ms", "1250")).await;
        assert_eq!(error.kind, kind, "{status}");
        assert_eq!(error.retry_after, Some(Duration::from_millis(1250)));
    }
    let event = |text: &str| Part::Bytes(format!("data: {text}\n\n").into_bytes());
    let begun = || event(r#"{"choices":[{"index":0,"delta":{"content":"Hel"}}]}"#);
    for (what, parts) in [
        ("nothing", vec![]),
        ("cut off", vec![begun()]),
        ("reset", vec![begun(), Part::Reset]),
        ("stall", vec![begun(), Part::Stall]),
        ("not JSON", vec![begun(), event("<html>")]),
    ] {
        let error = failure(Response::stream(parts)).await;
        assert_eq!(error.kind, ModelErrorKind::Transport, "{what}: {error}");
    }
    let error = json!({ "error": { "code": "rate_limit_exceeded", "message": message } });
    let error = failure(Response::stream(vec![begun(), event(&error.to_string())])).await;
    assert_eq!(error.kind, ModelErrorKind::RateLimited, "{error}");
}

/// Keeps everything that is logged.
#[derive(Clone, Default)]
struct Logs(Arc<Mutex<String>>);

impl Visit for Logs {
    fn record_debug(&mut self, _: &Field, value: &dyn fmt::Debug) {
        self.0.lock().unwrap().push_str(&format!("{value:?}\n"));
    }
}

impl Subscriber for Logs {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// `genai` logs the bodies of failed responses.
#[tokio::test]
async fn neither_keys_nor_prompts_are_logged() {
    let logs = Logs::default();
    let _guard = tracing::subscriber::set_default(logs.clone());
    tracing::error!("the beginning");
    let body = json!({ "error": { "message": format!("{SECRET} {KEY}") } }).to_string();
    failure(Response::new(400, "application/json", body)).await;
    let logged = logs.0.lock().unwrap().clone();
    assert!(logged.contains("the beginning"));
    assert!(
        !logged.contains(SECRET) && !logged.contains(KEY),
        "{logged}"
    );
}

#[tokio::test]
async fn a_dropped_stream_closes_its_connection() {
    let begun = r#"data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}"#;
    let parts = vec![
        Part::Bytes(format!("{begun}\n\n").into_bytes()),
        Part::Stall,
    ];
    let mut server = HttpServer::start(move |_| Response::stream(parts.clone())).await;
    let model = model(&server).build().unwrap();
    let scene = Scene::asking("hi");
    let mut events = scene.stream(&model);
    let first = events.next().await.unwrap().unwrap();
    assert_eq!(first, ModelEvent::Text("Hel".to_owned()));
    drop(events);
    server.client_closed().await;
}

#[test]
fn a_model_that_cannot_be_reached_is_refused_when_it_is_built() {
    let build = |name: &str| GenaiModel::builder(name).build().unwrap_err();
    for name in ["llama3", "nobody::llama3", "groq::"] {
        let name = name.to_owned();
        assert_eq!(build(&name), GenaiError::NoAdapter { name });
    }
    let builder = GenaiModel::builder("groq::m").api_key_from("HELIX_TEST_NO_SUCH_KEY");
    assert_eq!(
        builder.clone().build().unwrap_err(),
        GenaiError::NoKey {
            adapter: "groq".to_owned(),
            variable: "HELIX_TEST_NO_SUCH_KEY".to_owned(),
        }
    );
    let builder = builder.api_key(KEY);
    assert!(!format!("{builder:?}").contains(KEY));
    let broken = builder.clone().base_url("not an address").build();
    assert!(matches!(broken, Err(GenaiError::BaseUrl { .. })));
    let broken = builder.header("x y", "1").build();
    assert!(matches!(broken, Err(GenaiError::Header { .. })));
    let native = GenaiModel::builder("cohere::m")
        .api_key(KEY)
        .native_output(true);
    assert!(matches!(
        native.build(),
        Err(GenaiError::NoNativeOutput { .. })
    ));
}
