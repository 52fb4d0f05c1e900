//! Requests to Gemini, made of every transcript that there can be.

use helix_agents_core::Transcript;
use helix_agents_core::message::Message;
use helix_agents_core::model::{ModelErrorKind, ToolSchema};
use helix_agents_core::schema::Schema;
use helix_agents_models::{Provider, ProviderModel};
use serde_json::{Value, json};

use super::cassette::EventFile;
use super::cassettes;
use super::http_server::{HttpServer, Response};
use super::scene::Scene;

const MODEL: &str = "gemini-2.5-flash";
const CHECKING: &str = "gemini-3.5-flash";

/// Returns the path and the body of the request for a scene.
async fn asked(model: &str, scene: &Scene) -> (String, Value) {
    let server = HttpServer::start(|_| Response::stream(Vec::new())).await;
    let model = ProviderModel::builder(Provider::Gemini, model)
        .base_url(format!("http://{}", server.address))
        .build()
        .unwrap();
    scene.reply(&model).await.unwrap_err();
    let seen = server.seen().remove(0);
    (seen.path, serde_json::from_slice(&seen.body).unwrap())
}

/// Returns the contents of a request with this history.
async fn contents(model: &str, history: Value) -> Value {
    let mut scene = Scene::asking("");
    let messages: Vec<Message> = serde_json::from_value(history).unwrap();
    scene.history = Transcript::load(messages).0;
    asked(model, &scene).await.1["contents"].take()
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

fn call(id: &str, arguments: &Value) -> Value {
    json!({ "type": "tool_call", "id": id, "name": "refund", "arguments": arguments })
}

fn result(id: &str, content: &str, status: &str, verbatim: bool) -> Value {
    json!({
        "role": "tool", "toolCallId": id, "toolName": "refund",
        "content": content, "status": status, "verbatim": verbatim,
    })
}

fn response(id: &str, response: &Value) -> Value {
    json!({ "functionResponse": { "id": id, "name": "refund", "response": response } })
}

fn function_call(id: &str, arguments: &Value) -> Value {
    json!({ "functionCall": { "id": id, "name": "refund", "args": arguments } })
}

#[tokio::test]
async fn results_of_every_kind_are_objects_in_one_content_right_behind_their_calls() {
    let outcomes = [
        ("a", r#"{"receipt":"r-1"}"#, "success", false),
        ("b", "done", "success", true),
        ("c", "[1,2]", "success", false),
        ("d", r#"{"error":"no such order"}"#, "error", false),
        ("e", r#"{"error":"Denied by bob"}"#, "denied", false),
        ("f", "nobody answered", "timed_out", true),
        (
            "g",
            r#"{"error":"Not executed: stopped"}"#,
            "not_executed",
            false,
        ),
        ("h", r#"{"state":"?"}"#, "unknown", false),
    ];
    let calls: Vec<_> = outcomes.iter().map(|one| call(one.0, &json!({}))).collect();
    let mut history = vec![
        user("Refund all."),
        json!({ "role": "assistant", "parts": calls }),
    ];
    history.extend(
        outcomes.map(|(id, content, status, verbatim)| result(id, content, status, verbatim)),
    );
    history.push(user("And now?"));
    let contents = contents(MODEL, history.into()).await;
    assert_eq!(
        contents[2],
        json!({ "role": "user", "parts": [
            response("a", &json!({ "receipt": "r-1" })),
            response("b", &json!({ "result": "done" })),
            response("c", &json!({ "result": [1, 2] })),
            response("d", &json!({ "error": "no such order" })),
            response("e", &json!({ "error": "Denied by bob" })),
            response("f", &json!({ "error": "nobody answered" })),
            response("g", &json!({ "error": "Not executed: stopped" })),
            response("h", &json!({ "error": { "state": "?" } })),
        ] })
    );
    // A message is no part of the content that answers the calls.
    assert_eq!(
        contents[3],
        json!({ "role": "user", "parts": [{ "text": "And now?" }] })
    );
    let called: Vec<_> = contents[1]["parts"].as_array().unwrap().iter().collect();
    assert_eq!(called.len(), outcomes.len());
    assert_eq!(called[7], &function_call("h", &json!({})));
}

#[tokio::test]
async fn messages_of_one_side_in_a_row_are_one_content() {
    let hidden =
        json!({ "role": "user", "content": "Fix the output.", "metadata": { "hidden": true } });
    let partial = json!({ "role": "assistant", "parts": [{ "type": "text", "text": "I will" }] });
    let next = json!({ "role": "assistant", "parts": [call("a", &json!({ "cents": 1 }))] });
    let history = json!([
        user("One."),
        user("Two."),
        hidden,
        partial,
        next,
        result("a", "1", "success", false)
    ]);
    assert_eq!(
        contents(MODEL, history).await,
        json!([
            { "role": "user", "parts": [{ "text": "One." }, { "text": "Two." }, { "text": "Fix the output." }] },
            { "role": "model", "parts": [{ "text": "I will" }, function_call("a", &json!({ "cents": 1 }))] },
            { "role": "user", "parts": [response("a", &json!({ "result": 1 }))] },
        ])
    );
}

#[tokio::test]
async fn a_healed_step_has_a_result_for_each_call() {
    let reply =
        json!({ "role": "assistant", "parts": [call("a", &json!({})), call("b", &json!({}))] });
    let history = json!([user("Hi"), reply, result("b", "1", "success", false)]);
    let contents = contents(MODEL, history).await;
    let answered = &contents[2]["parts"];
    assert_eq!(answered[0]["functionResponse"]["id"], "a");
    assert!(
        answered[0]["functionResponse"]["response"]["error"].is_string(),
        "{contents}"
    );
    assert_eq!(answered[1], response("b", &json!({ "result": 1 })));
}

#[tokio::test]
async fn no_content_is_without_parts() {
    let thinking = json!({ "type": "thinking", "text": "Hm.", "signature": "c2ln" });
    let history = json!([
        user(""),
        { "role": "assistant", "parts": [] },
        user("Go on."),
        { "role": "assistant", "parts": [thinking] },
        user("Well?"),
    ]);
    let contents = contents(MODEL, history).await;
    for content in contents.as_array().unwrap() {
        let text = content["parts"][0]["text"].as_str();
        assert!(text.is_some_and(|text| !text.is_empty()), "{contents}");
    }
    assert!(!contents.to_string().contains("Hm."), "{contents}");
}

#[tokio::test]
async fn arguments_that_are_not_an_object_become_one() {
    let parts = json!([call("a", &json!("{\"cents\": ")), call("b", &json!([1]))]);
    let history = json!([
        user("Hi"),
        { "role": "assistant", "parts": parts },
        result("a", r#"{"error":"not JSON"}"#, "error", false),
        result("b", r#"{"error":"not an object"}"#, "error", false),
    ]);
    let contents = contents(MODEL, history).await;
    let called = &contents[1]["parts"];
    assert_eq!(
        called[0],
        function_call("a", &json!({ "arguments": "{\"cents\": " }))
    );
    assert_eq!(called[1], function_call("b", &json!({ "arguments": [1] })));
}

/// A reply with everything that a model may want back, tagged with the model that gave it.
fn tagged(provider: &str, model: &str) -> Value {
    let kept = |more: Value| {
        let mut ours = json!({ "model": model });
        ours.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({ provider: ours })
    };
    let signed = |name: &str| kept(json!({ "thoughtSignature": name }));
    let mut calls = [call("a.1", &json!({})), call("b", &json!({}))];
    calls[0]["providerMetadata"] = signed("Y2FsbA==");
    json!({ "role": "assistant", "parts": [
        { "type": "thinking", "text": "Hm.", "signature": "dGhv", "providerMetadata": kept(json!({})) },
        { "type": "text", "text": "Yes.", "providerMetadata": signed("dGV4dA==") },
        { "type": "text", "text": "", "providerMetadata": signed("ZW1wdHk=") },
        calls[0], calls[1],
    ] })
}

fn answered(reply: &Value) -> Value {
    let results = ["a.1", "b"].map(|id| result(id, "1", "success", false));
    json!([user("Hi"), reply, results[0], results[1]])
}

#[tokio::test]
async fn signatures_go_back_to_the_model_that_gave_them() {
    let contents = contents(CHECKING, answered(&tagged("gemini", CHECKING))).await;
    let parts = &contents[1]["parts"];
    assert_eq!(
        parts[0],
        json!({ "text": "Hm.", "thought": true, "thoughtSignature": "dGhv" })
    );
    assert_eq!(
        parts[1],
        json!({ "text": "Yes.", "thoughtSignature": "dGV4dA==" })
    );
    assert_eq!(
        parts[2],
        json!({ "text": "", "thoughtSignature": "ZW1wdHk=" })
    );
    assert_eq!(parts[3]["thoughtSignature"], "Y2FsbA==");
    assert_eq!(parts[4], function_call("b", &json!({})));
}

#[tokio::test]
async fn a_model_is_given_no_signature_of_another() {
    let others = [
        ("gemini", MODEL),
        ("anthropic", CHECKING),
        ("openai", "gpt-5"),
    ];
    for (provider, model) in others {
        let contents = contents(CHECKING, answered(&tagged(provider, model))).await;
        let parts = contents[1]["parts"].as_array().unwrap();
        assert_eq!(parts.len(), 3, "{contents}");
        assert_eq!(parts[0], json!({ "text": "Yes." }));
        // Without any signature this model refuses the first call.
        assert_eq!(
            parts[1]["thoughtSignature"],
            "skip_thought_signature_validator"
        );
        assert_eq!(parts[2], function_call("b", &json!({})));
        let id = parts[1]["functionCall"]["id"].as_str().unwrap();
        assert!(!id.contains('.'), "{id}");
        assert_eq!(contents[2]["parts"][0]["functionResponse"]["id"], id);
    }
    // Older models need no signature, and know nothing of a missing one.
    let contents = contents(MODEL, answered(&tagged("gemini", CHECKING))).await;
    assert!(
        !contents.to_string().contains("thoughtSignature"),
        "{contents}"
    );
}

#[tokio::test]
async fn the_model_and_the_version_are_in_the_path() {
    let scene = Scene::asking("Hi");
    let (path, _) = asked("gemini-2.5-pro", &scene).await;
    assert_eq!(
        path,
        "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"
    );
    let (path, _) = asked("tunedModels/ours-1", &scene).await;
    assert_eq!(
        path,
        "/v1beta/tunedModels/ours-1:streamGenerateContent?alt=sse"
    );
    let server = HttpServer::start(|_| Response::stream(Vec::new())).await;
    let model = |name: &str| {
        let builder = ProviderModel::builder(Provider::Gemini, name).api_version("v1");
        builder
            .base_url(format!("http://{}", server.address))
            .build()
            .unwrap()
    };
    scene.reply(&model("gemini-2.5-pro")).await.unwrap_err();
    assert!(server.seen()[0].path.starts_with("/v1/models/"));
    let (error, _) = scene.reply(&model("a?key=b")).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Invalid);
    assert_eq!(server.seen().len(), 1, "a name that is no name is not sent");
}

/// The error that a scene is refused with, before anything is sent.
async fn refused(scene: Scene) -> String {
    let model = ProviderModel::builder(Provider::Gemini, MODEL)
        .base_url("http://127.0.0.1:1")
        .build()
        .unwrap();
    let (error, _) = scene.reply(&model).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Invalid, "{error}");
    error.detail
}

#[tokio::test]
async fn settings_that_cannot_be_sent_are_refused() {
    let mut scene = Scene::asking("Hi");
    scene.config.seed = Some(1 << 40);
    assert!(refused(scene).await.contains("seed"));
    for field in ["contents", "systemInstruction"] {
        let mut scene = Scene::asking("Hi");
        let options = json!({ (field): [] });
        scene
            .config
            .provider_options
            .insert("gemini".to_owned(), options);
        assert!(refused(scene).await.contains(field));
    }
    let mut scene = Scene::asking("Hi");
    let zip = json!({ "role": "user", "content": "", "files": [{ "data": "UEs=", "mediaType": "application/zip" }] });
    scene.history = Transcript::load([serde_json::from_value(zip).unwrap()]).0;
    assert!(refused(scene).await.contains("application/zip"));
}

#[tokio::test]
async fn options_of_other_providers_are_not_sent() {
    let mut scene = Scene::asking("Hi");
    let options = &mut scene.config.provider_options;
    options.insert("openai".to_owned(), json!({ "user": "u" }));
    options.insert(
        "gemini".to_owned(),
        json!({ "cachedContent": "cachedContents/7" }),
    );
    let (_, body) = asked(MODEL, &scene).await;
    let hi = json!([{ "role": "user", "parts": [{ "text": "Hi" }] }]);
    assert_eq!(
        body,
        json!({ "cachedContent": "cachedContents/7", "contents": hi })
    );
}

/// The schema of an output and the settings are one object, and options are merged into it wherever it is.
#[tokio::test]
async fn an_output_of_a_schema_keeps_the_settings_and_the_options() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    let mut scene = Scene::asking("Hi");
    scene.native_output = Some(Schema::object("the output", schema.clone()).unwrap());
    scene.config.temperature = Some(0.5);
    let options =
        json!({ "generationConfig": { "topP": 0.1, "thinkingConfig": { "thinkingBudget": 0 } } });
    scene
        .config
        .provider_options
        .insert("gemini".to_owned(), options);
    let input = Schema::object("a tool", json!({ "type": "object" })).unwrap();
    scene
        .tools
        .push(ToolSchema::new("refund", "Refunds.", input));
    let (_, body) = asked(MODEL, &scene).await;
    assert_eq!(
        body["generationConfig"],
        json!({
            "responseMimeType": "application/json", "responseJsonSchema": schema,
            "temperature": 0.5, "topP": 0.1, "thinkingConfig": { "thinkingBudget": 0 },
        })
    );
    assert_eq!(body.get("toolConfig"), None);
}

/// Appends the signatures in a value, in their order.
fn signatures(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| signatures(item, found)),
        Value::Object(fields) => {
            let own = fields.get("thoughtSignature").and_then(Value::as_str);
            found.extend(own.map(str::to_owned));
            fields.values().for_each(|field| signatures(field, found));
        }
        _ => {}
    }
}

/// proves in part: LLM-02
#[tokio::test]
async fn every_signature_of_a_stream_is_in_the_next_request() {
    let server = cassettes::server("gemini").await;
    let mut count = 0;
    for played in cassettes::play_all(&server, Provider::Gemini).await {
        let (mut given, mut sent) = (Vec::new(), Vec::new());
        let exchanges = &played.cassette.exchanges;
        for exchange in exchanges.iter().take(exchanges.len() - 1) {
            for event in &exchange.events {
                if let EventFile::Plain { data } = event {
                    signatures(data, &mut given);
                }
            }
        }
        let last = serde_json::from_slice(played.requests.last().unwrap()).unwrap();
        signatures(&last, &mut sent);
        assert_eq!(sent, given, "{}", played.cassette.name);
        count += sent.len();
    }
    assert!(count > 10, "{count} signatures");
}
