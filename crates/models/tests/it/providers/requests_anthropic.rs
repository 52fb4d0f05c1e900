//! Requests to Anthropic: what its rules demand is made from any transcript.

use helix_agents_core::message::Message;
use helix_agents_core::model::{ModelErrorKind, ModelLimits, ToolChoice};
use helix_agents_core::transcript::Transcript;
use helix_agents_models::{Provider, ProviderModel, ProviderModelBuilder};
use serde_json::{Value, json};

use super::cassette;
use super::http_server::{HttpServer, Seen};
use super::scene::Scene;

/// The model of these tests, with no known limits.
const MODEL: &str = "claude-test";

/// A scene with this conversation. Messages are in their stored form.
pub(super) fn conversation(messages: Value) -> Scene {
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    let mut scene = Scene::asking("unused");
    (scene.history, _) = Transcript::load(messages);
    scene
}

/// Sends a request, and returns it.
pub(super) async fn sent(
    scene: &Scene,
    set: impl FnOnce(ProviderModelBuilder) -> ProviderModelBuilder,
) -> Seen {
    let text = cassette::of("anthropic");
    let text = text.into_iter().find(|one| one.name == "text").unwrap();
    let response = text.exchanges[0].response();
    let server = HttpServer::start(move |_| response.clone()).await;
    let model = ProviderModel::builder(Provider::Anthropic, MODEL)
        .base_url(format!("http://{}", server.address))
        .api_key("key");
    let model = set(model).build().unwrap();
    scene.reply(&model).await.unwrap();
    server.seen().remove(0)
}

/// Returns the body of a request.
pub(super) async fn body(scene: &Scene) -> Value {
    serde_json::from_slice(&sent(scene, |model| model).await.body).unwrap()
}

async fn messages(scene: &Scene) -> Value {
    body(scene).await["messages"].take()
}

async fn refused(scene: &Scene) -> String {
    let model = ProviderModel::builder(Provider::Anthropic, MODEL)
        .api_key("key")
        .build()
        .unwrap();
    let (error, _) = scene.reply(&model).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Invalid, "{error}");
    error.detail
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": [{ "type": "text", "text": text }] })
}

fn call(id: &str) -> Value {
    json!({ "type": "tool_call", "id": id, "name": "look", "arguments": { "at": id } })
}

fn result(id: &str, status: &str, content: &str) -> Value {
    json!({ "role": "tool", "toolCallId": id, "toolName": "look", "content": content, "status": status })
}

#[tokio::test]
async fn results_of_every_outcome_stand_first_in_the_message_behind_their_calls() {
    let outcomes = [
        "success",
        "error",
        "denied",
        "timed_out",
        "not_executed",
        "unknown",
    ];
    let mut all = vec![json!({ "role": "user", "content": "Go." })];
    all.push(json!({ "role": "assistant", "parts": outcomes.map(call) }));
    all.extend(outcomes.map(|outcome| result(outcome, outcome, "said")));
    all.push(json!({ "role": "user", "content": "A notice.", "metadata": { "hidden": true } }));
    all.push(json!({ "role": "user", "content": "And?" }));
    let sent = messages(&conversation(all.into())).await;
    let uses = outcomes
        .map(|id| json!({ "type": "tool_use", "id": id, "name": "look", "input": { "at": id } }));
    let results = outcomes.map(|id| match id {
        "success" => json!({ "type": "tool_result", "tool_use_id": id, "content": "said" }),
        _ => {
            json!({ "type": "tool_result", "tool_use_id": id, "content": "said", "is_error": true })
        }
    });
    let texts = ["A notice.", "And?"].map(|text| json!({ "type": "text", "text": text }));
    let behind: Vec<_> = results.into_iter().chain(texts).collect();
    assert_eq!(
        sent,
        json!([
            user("Go."),
            { "role": "assistant", "content": uses },
            { "role": "user", "content": behind },
        ])
    );
}

#[tokio::test]
async fn a_call_that_lost_its_result_gets_one() {
    let scene = conversation(json!([
        { "role": "user", "content": "Go." },
        { "role": "assistant", "parts": [call("a")] },
        { "role": "user", "content": "Well?" },
    ]));
    let sent = messages(&scene).await;
    let healed = &sent[2]["content"][0];
    assert_eq!(
        (&healed["tool_use_id"], &healed["is_error"]),
        (&json!("a"), &json!(true))
    );
    assert_eq!(sent[2]["content"][1]["text"], "Well?");
}

#[tokio::test]
async fn a_result_without_a_text_has_one_only_if_it_is_an_error() {
    let scene = conversation(json!([
        { "role": "user", "content": "Go." },
        { "role": "assistant", "parts": [call("a"), call("b")] },
        result("a", "success", ""),
        result("b", "error", " "),
    ]));
    assert_eq!(
        messages(&scene).await[2]["content"],
        json!([
            { "type": "tool_result", "tool_use_id": "a" },
            { "type": "tool_result", "tool_use_id": "b", "content": "(no text)", "is_error": true },
        ])
    );
}

/// An interrupted reply is the last message, and later stands between two others. The model has the next
/// word in both cases, and the later request begins with the earlier one.
#[tokio::test]
async fn a_reply_is_never_the_last_word() {
    let partial = json!({ "role": "assistant", "parts": [{ "type": "text", "text": "I was sa" }] });
    let before = json!([{ "role": "user", "content": "Go." }, partial]);
    let mut after = before.clone();
    let more = json!({ "role": "assistant", "parts": [{ "type": "text", "text": "Saying." }] });
    after.as_array_mut().unwrap().push(more);
    let said =
        |text: &str| json!({ "role": "assistant", "content": [{ "type": "text", "text": text }] });
    let first = sent(&conversation(before), |model| model).await.body;
    let second = sent(&conversation(after), |model| model).await.body;
    let continued = [user("Go."), said("I was sa"), user("Continue.")];
    let body: Value = serde_json::from_slice(&first).unwrap();
    assert_eq!(body["messages"], json!(continued));
    let body: Value = serde_json::from_slice(&second).unwrap();
    let mut all = continued.to_vec();
    all.extend([said("Saying."), user("Continue.")]);
    assert_eq!(body["messages"], json!(all));
    let common = first.len() - b"]}".len();
    assert_eq!(first[..common], second[..common]);
}

#[tokio::test]
async fn no_message_is_empty_and_the_first_is_a_users() {
    let scene = conversation(json!([
        { "role": "assistant", "parts": [] },
        { "role": "user", "content": " " },
        { "role": "assistant", "parts": [
            { "type": "text", "text": "\n\n" },
            { "type": "thinking", "text": "Hm.", "signature": "s", "providerMetadata": { "anthropic": { "model": MODEL } } },
        ] },
        { "role": "user", "content": "" },
        { "role": "user", "content": "Hi." },
    ]));
    let nothing = json!({ "type": "text", "text": "(no text)" });
    let thinking = json!({ "type": "thinking", "thinking": "Hm.", "signature": "s" });
    assert_eq!(
        messages(&scene).await,
        json!([
            user("Continue."),
            { "role": "assistant", "content": [nothing] },
            { "role": "user", "content": [nothing] },
            { "role": "assistant", "content": [thinking, nothing] },
            { "role": "user", "content": [nothing, { "type": "text", "text": "Hi." }] },
        ])
    );
    assert_eq!(
        messages(&conversation(json!([]))).await,
        json!([user("Continue.")])
    );
}

#[tokio::test]
async fn arguments_names_and_ids_are_such_as_the_provider_takes() {
    let strange = "functions.look:0";
    let scene = conversation(json!([
        { "role": "user", "content": "Go." },
        { "role": "assistant", "parts": [
            { "type": "tool_call", "id": strange, "name": "look up!", "arguments": "{\"at\": " },
            { "type": "tool_call", "id": "b", "name": "", "arguments": [1] },
        ] },
        result(strange, "error", "no"),
        result("b", "error", "no"),
    ]));
    let sent = messages(&scene).await;
    let (uses, results) = (&sent[1]["content"], &sent[2]["content"]);
    assert_eq!(uses[0]["input"], json!({ "INVALID_JSON": "{\"at\": " }));
    assert_eq!(uses[1]["input"], json!({ "INVALID_JSON": "[1]" }));
    assert_eq!(
        (&uses[0]["name"], &uses[1]["name"]),
        (&json!("look_up_"), &json!("_"))
    );
    let id = uses[0]["id"].as_str().unwrap();
    assert!(
        id.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'),
        "{id}"
    );
    assert_eq!(results[0]["tool_use_id"], id);
    assert_eq!(results[1]["tool_use_id"], "b");
}

#[tokio::test]
async fn files_that_the_provider_does_not_take_are_refused() {
    for (data, media_type) in [
        ("aGk=", "image/tiff"),
        ("aGk=", "audio/wav"),
        ("https://a.b/c.txt", "text/plain"),
    ] {
        let file = json!({ "data": data, "mediaType": media_type });
        let scene = conversation(json!([{ "role": "user", "content": "", "files": [file] }]));
        let detail = refused(&scene).await;
        assert!(detail.contains(media_type), "{detail}");
        assert!(!detail.contains(data), "{detail}");
    }
    let file = json!({ "data": "aGk=", "mediaType": "image/jpg" });
    let scene = conversation(json!([{ "role": "user", "content": "", "files": [file] }]));
    let source = json!({ "type": "base64", "media_type": "image/jpeg", "data": "aGk=" });
    assert_eq!(
        messages(&scene).await[0]["content"],
        json!([{ "type": "image", "source": source }])
    );
}

#[tokio::test]
async fn settings_are_sent_or_refused() {
    let mut scene = Scene::asking("Hi.");
    scene.config = serde_json::from_value(json!({
        "temperature": 0.5, "topP": 0.9, "topK": 40, "maxOutputTokens": 7, "stopSequences": ["x"],
        "providerOptions": {
            "anthropic": { "metadata": { "user_id": "u" }, "cache_control": { "type": "ephemeral" } },
            "openai": { "user": "u" }
        }
    }))
    .unwrap();
    assert_eq!(
        body(&scene).await,
        json!({
            "model": MODEL, "stream": true, "max_tokens": 7, "temperature": 0.5, "top_p": 0.9, "top_k": 40,
            "stop_sequences": ["x"], "metadata": { "user_id": "u" }, "cache_control": { "type": "ephemeral" },
            "messages": [user("Hi.")]
        })
    );
    for (field, value) in [
        ("presencePenalty", json!(0.1)),
        ("frequencyPenalty", json!(0.1)),
        ("seed", json!(1)),
    ] {
        scene.config = serde_json::from_value(json!({ (field): value })).unwrap();
        let detail = refused(&scene).await;
        assert!(detail.contains("has no setting"), "{detail}");
    }
    for field in ["messages", "stream", "system"] {
        let options = json!({ "anthropic": { (field): [] } });
        scene.config = serde_json::from_value(json!({ "providerOptions": options })).unwrap();
        let detail = refused(&scene).await;
        assert!(detail.contains(field), "{detail}");
    }
}

#[tokio::test]
async fn a_reply_has_a_limit_in_every_request() {
    let mut scene = Scene::asking("Hi.");
    assert_eq!(body(&scene).await["max_tokens"], 4096);
    let limits = ModelLimits::new(100_000, 9_000);
    let seen = sent(&scene, |model| model.limits(limits)).await;
    let known: Value = serde_json::from_slice(&seen.body).unwrap();
    assert_eq!(known["max_tokens"], 9_000);
    let thinking = json!({ "type": "enabled", "budget_tokens": 10_000 });
    let options = json!({ "anthropic": { "thinking": thinking } });
    scene.config = serde_json::from_value(json!({ "providerOptions": options })).unwrap();
    assert_eq!(body(&scene).await["max_tokens"], 14_096);
}

/// The options of a choice stay with a choice of ours, unless there will be no calls.
#[tokio::test]
async fn a_tool_choice_is_merged_with_its_options() {
    let all = cassette::of("anthropic");
    let file = all.iter().find(|one| one.name == "required_tool").unwrap();
    let mut scene = Scene::of(&file.scene);
    for (choice, sent) in [
        (
            ToolChoice::Auto,
            json!({ "type": "auto", "disable_parallel_tool_use": true }),
        ),
        (
            ToolChoice::Required,
            json!({ "type": "any", "disable_parallel_tool_use": true }),
        ),
        (
            ToolChoice::Tool("get_weather".to_owned()),
            json!({ "type": "tool", "name": "get_weather", "disable_parallel_tool_use": true }),
        ),
        (ToolChoice::None, json!({ "type": "none" })),
    ] {
        scene.tool_choice = choice;
        let seen = super::requests_anthropic::sent(&scene, |model| model).await;
        let text = String::from_utf8(seen.body.clone()).unwrap();
        assert_eq!(text.matches("\"tool_choice\"").count(), 1, "{text}");
        let body: Value = serde_json::from_slice(&seen.body).unwrap();
        assert_eq!(body["tool_choice"], sent);
    }
}

#[tokio::test]
async fn a_conversation_with_calls_has_a_tool() {
    let scene = conversation(json!([
        { "role": "user", "content": "Go." },
        { "role": "assistant", "parts": [call("a")] },
        result("a", "success", "seen"),
    ]));
    let body = body(&scene).await;
    assert_eq!(body["tools"].as_array().unwrap().len(), 1);
    assert_eq!(body["tools"][0]["name"], "no_tool");
    assert_eq!(
        super::requests_anthropic::body(&Scene::asking("Hi."))
            .await
            .get("tools"),
        None
    );
}

#[tokio::test]
async fn the_version_decides_where_the_key_is() {
    let scene = Scene::asking("Hi.");
    let headers = async |set: fn(ProviderModelBuilder) -> ProviderModelBuilder| {
        let seen = sent(&scene, set).await.headers;
        let one = |name: &str| seen.get(name).cloned().unwrap_or_default();
        [
            one("anthropic-version"),
            one("authorization"),
            one("x-api-key"),
        ]
    };
    assert_eq!(
        headers(|model| model).await,
        ["2026-10-21", "Bearer key", ""]
    );
    let old = headers(|model| model.api_version("2023-06-01")).await;
    assert_eq!(old, ["2023-06-01", "", "key"]);
    let old = headers(|model| model.header("Anthropic-Version", "2023-06-01")).await;
    assert_eq!(old, ["2023-06-01", "", "key"]);
    let own = headers(|model| model.header("X-Api-Key", "mine")).await;
    assert_eq!(own, ["2026-10-21", "", "mine"]);
    let own = headers(|model| {
        model
            .api_version("2023-06-01")
            .header("authorization", "mine")
    })
    .await;
    assert_eq!(own, ["2023-06-01", "mine", ""]);
}
