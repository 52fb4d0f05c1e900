//! Requests to Chat Completions, from conversations and settings of every kind.

use helix_agents_core::message::{FilePart, UserMessage};
use helix_agents_core::model::{ModelErrorKind, ToolChoice};
use helix_agents_core::schema::Schema;
use helix_agents_models::{Provider, ProviderModel};
use serde_json::{Value, json};

use super::cassette::SceneFile;
use super::cassettes::{play_all, server};
use super::openai_conversations::{after, assert_refused, hard, request, with_options};
use super::scene::Scene;

const CHAT: Provider = Provider::OpenAi;

async fn body(scene: &Scene) -> Value {
    request(CHAT, "gpt-5.5", scene).await.unwrap()
}

/// proves in part: LLM-02
#[tokio::test]
async fn any_conversation_can_be_continued() {
    let mut scene = Scene::asking("");
    scene.history = hard();
    let call = |id: &str, arguments: &str| json!({ "id": id, "type": "function", "function": { "name": "f", "arguments": arguments } });
    let body = body(&scene).await;
    let mapped = body["messages"][3]["tool_calls"][0]["id"].as_str().unwrap();
    assert_eq!(mapped.len(), 37);
    let result = |id: &str, status: &str| json!({ "role": "tool", "tool_call_id": id, "content": format!("{{\"error\":\"{status}\"}}") });
    let mut messages = body["messages"].as_array().unwrap().clone();
    // The text of a result that healing adds is not the client's.
    let added = messages.remove(9);
    assert_eq!(
        (&added["role"], &added["tool_call_id"]),
        (&json!("tool"), &json!("c6"))
    );
    assert_eq!(
        messages,
        [
            json!({ "role": "user", "content": "One" }),
            json!({ "role": "user", "content": "Two" }),
            json!({ "role": "user", "content": "" }),
            json!({ "role": "assistant", "content": "Said", "tool_calls": [
                call(mapped, r#"{"arguments":"{\"x\": 1"}"#), call("c2", r#"{"arguments":[1]}"#),
                call("c3", "{}"), call("c4", r#"{"a":2,"b":1}"#), call("c5", "{}"), call("c6", "{}"),
            ]}),
            result(mapped, "error"),
            result("c2", "denied"),
            result("c3", "timed_out"),
            result("c4", "not_executed"),
            result("c5", "unknown"),
            json!({ "role": "assistant", "content": "" }),
            json!({ "role": "assistant", "content": "Cut o" }),
            json!({ "role": "user", "content": "Three" }),
        ]
    );
}

#[tokio::test]
async fn reasoning_is_given_back_to_its_own_model_in_its_own_field() {
    let thinking = |text: &str, ours: Value| json!({ "type": "thinking", "text": text, "providerMetadata": { "openai": ours } });
    let detail = |data: &str| json!({ "type": "reasoning.encrypted", "data": data });
    let mut scene = Scene::asking("");
    scene.history = after(&json!([
        thinking("a", json!({ "model": "gpt-5.5", "field": "reasoning_content" })),
        thinking("b", json!({ "model": "gpt-5.5", "field": "reasoning_content" })),
        thinking("c", json!({ "model": "gpt-5.5", "details": [detail("1")] })),
        { "type": "text", "text": "Said" },
        thinking("", json!({ "model": "gpt-5.5", "details": [detail("2")] })),
        thinking("d", json!({ "model": "other", "field": "reasoning", "details": [detail("3")] })),
        { "type": "thinking", "text": "e" },
    ]));
    assert_eq!(
        body(&scene).await["messages"][1],
        json!({
            "role": "assistant", "content": "Said", "reasoning_content": "ab",
            "reasoning_details": [detail("1"), detail("2")],
        })
    );
    let other = request(CHAT, "gpt-6", &scene).await.unwrap();
    assert_eq!(
        other["messages"][1],
        json!({ "role": "assistant", "content": "Said" })
    );
}

/// Reasoning among the parts of the content goes back to its place there; other models get the text alone.
#[tokio::test]
async fn reasoning_among_the_parts_of_the_content_stays_among_them() {
    for (model, content) in [
        (
            "gpt-5.5",
            json!([
                { "type": "thinking", "thinking": [{ "type": "text", "text": "a" }] },
                { "type": "text", "text": "Said" },
                { "type": "thinking", "thinking": [{ "type": "text", "text": "b" }] },
                { "type": "text", "text": "more" },
            ]),
        ),
        ("another", json!("Saidmore")),
    ] {
        let thinking = |text: &str| {
            let ours = json!({ "openai": { "model": model, "field": "content" } });
            json!({ "type": "thinking", "text": text, "providerMetadata": ours })
        };
        let mut scene = Scene::asking("One");
        scene.history = after(&json!([
            thinking("a"), { "type": "text", "text": "Said" }, thinking("b"), { "type": "text", "text": "more" },
        ]));
        let sent = &body(&scene).await["messages"][1];
        assert_eq!(sent, &json!({ "role": "assistant", "content": content }));
    }
}

/// proves in part: LLM-02
#[tokio::test]
async fn streamed_reasoning_comes_back_with_its_calls() {
    let server = server(CHAT.name()).await;
    let all = play_all(&server, CHAT).await;
    let played = all
        .iter()
        .find(|one| one.cassette.name == "thinking_with_tools")
        .unwrap();
    let last: Value = serde_json::from_slice(played.requests.last().unwrap()).unwrap();
    let messages = last["messages"].as_array().unwrap();
    let replies = messages.iter().filter(|one| one["role"] == "assistant");
    let replies: Vec<_> = replies
        .map(|reply| {
            (
                &reply["reasoning_content"],
                reply["tool_calls"][0]["id"].as_str().unwrap(),
            )
        })
        .collect();
    let ids = [
        "call_00_7d1e",
        "call_01_7d1e",
        "call_02_7d1e",
        "call_03_7d1e",
    ];
    let thought = played
        .cassette
        .exchanges
        .iter()
        .map(|one| &one.expect["thinking"][0]);
    assert_eq!(replies, thought.zip(ids).collect::<Vec<_>>());
}

#[tokio::test]
async fn settings_have_their_fields() {
    let mut scene = Scene::asking("One");
    let config = &mut scene.config;
    config.temperature = Some(0.5);
    config.top_p = Some(0.25);
    config.top_k = Some(4);
    config.presence_penalty = Some(1.0);
    config.frequency_penalty = Some(-1.0);
    config.seed = Some(7);
    config.max_output_tokens = Some(100);
    config.stop_sequences = vec!["END".to_owned()];
    assert_eq!(
        body(&scene).await,
        json!({
            "model": "gpt-5.5", "stream": true, "stream_options": { "include_usage": true },
            "temperature": 0.5, "top_p": 0.25, "top_k": 4, "presence_penalty": 1.0,
            "frequency_penalty": -1.0, "seed": 7, "max_tokens": 100, "stop": ["END"],
            "messages": [{ "role": "user", "content": "One" }],
        })
    );
}

/// Nothing is sent: the setting is refused before.
#[tokio::test]
async fn openai_itself_has_no_top_k() {
    let model = ProviderModel::builder(CHAT, "gpt-5.5").api_key("k").build();
    let mut scene = Scene::asking("One");
    scene.config.top_k = Some(4);
    let (error, _) = scene.reply(&model.unwrap()).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Invalid);
    assert!(error.detail.contains("`top_k`"), "{error}");
}

#[tokio::test]
async fn each_choice_of_a_tool_has_its_form() {
    let tool = serde_json::from_value(json!({ "name": "f", "input": { "type": "object" } }));
    let file = SceneFile {
        tools: vec![tool.unwrap()],
        ..SceneFile::default()
    };
    for (choice, form) in [
        (ToolChoice::Auto, Value::Null),
        (ToolChoice::Required, json!("required")),
        (ToolChoice::None, json!("none")),
        (
            ToolChoice::Tool("f".to_owned()),
            json!({ "type": "function", "function": { "name": "f" } }),
        ),
    ] {
        let mut scene = Scene::of(&file);
        scene.tool_choice = choice;
        let sent = body(&scene).await;
        assert_eq!(sent["tool_choice"], form);
        let function =
            json!({ "name": "f", "description": "", "parameters": { "type": "object" } });
        assert_eq!(
            sent["tools"],
            json!([{ "type": "function", "function": function }])
        );
        scene.tools.clear();
        assert_eq!(body(&scene).await.get("tool_choice"), None);
    }
}

#[tokio::test]
async fn options_are_merged_and_cannot_replace_what_the_client_writes() {
    let scene = with_options(
        CHAT,
        json!({ "reasoning_effort": "low", "stream_options": { "include_obfuscation": false } }),
    );
    let sent = body(&scene).await;
    assert_eq!(sent["reasoning_effort"], "low");
    let stream = json!({ "include_obfuscation": false, "include_usage": true });
    assert_eq!(sent["stream_options"], stream);
    assert_refused(
        CHAT,
        &with_options(CHAT, json!({ "messages": [] })),
        "`messages`",
    )
    .await;
    assert_refused(CHAT, &with_options(CHAT, json!(1)), "not an object").await;
    let mut scene = with_options(CHAT, json!({ "response_format": { "type": "text" } }));
    let schema = json!({ "type": "object" });
    let schema = Schema::object("the output", schema).unwrap();
    scene.native_output = Some(schema);
    assert_refused(CHAT, &scene, "`response_format`").await;
}

#[tokio::test]
async fn files_are_sent_as_they_can_be() {
    let with = |file: FilePart| {
        let mut scene = Scene::asking("");
        scene.history = Default::default();
        scene
            .history
            .push_user(UserMessage::new("").with_file(file));
        scene
    };
    let sound = with(FilePart::new("data:audio/mpeg;base64,aGk=", "audio/mpeg"));
    assert_eq!(
        body(&sound).await["messages"][0]["content"],
        json!([{ "type": "input_audio", "input_audio": { "data": "aGk=", "format": "mp3" } }])
    );
    let unnamed = with(FilePart::new("aGk=", "application/pdf"));
    assert_eq!(
        body(&unnamed).await["messages"][0]["content"],
        json!([{ "type": "file", "file": {
            "filename": "file.pdf", "file_data": "data:application/pdf;base64,aGk=",
        }}])
    );
    for (data, media_type) in [
        ("https://example.com/a.pdf", "application/pdf"),
        ("aGk=", "video/mp4"),
        ("https://example.com/a.mp3", "audio/mpeg"),
    ] {
        assert_refused(CHAT, &with(FilePart::new(data, media_type)), media_type).await;
    }
}
