//! Requests to Responses, from conversations and settings of every kind.

use helix_agents_core::message::{FilePart, UserMessage};
use helix_agents_core::model::ToolChoice;
use helix_agents_models::Provider;
use serde_json::{Value, json};

use super::cassette::SceneFile;
use super::cassettes::{Played, play_all, server};
use super::openai_conversations::{after, assert_refused, hard, request, with_options};
use super::scene::Scene;

const RESPONSES: Provider = Provider::OpenAiResponses;

async fn body(scene: &Scene) -> Value {
    request(RESPONSES, "gpt-5.5", scene).await.unwrap()
}

/// proves in part: LLM-02
#[tokio::test]
async fn any_conversation_can_be_continued() {
    let mut scene = Scene::asking("");
    scene.history = hard();
    let user = |text: &str| json!({ "type": "message", "role": "user", "content": text });
    let said = |text: &str| json!({ "type": "message", "role": "assistant", "content": text });
    let call = |id: &str, arguments: &str| json!({ "type": "function_call", "call_id": id, "name": "f", "arguments": arguments });
    let result = |id: &str, status: &str| {
        let output = format!("{{\"error\":\"{status}\"}}");
        json!({ "type": "function_call_output", "call_id": id, "output": output })
    };
    let mut input = body(&scene).await["input"].as_array().unwrap().clone();
    let mapped = input[4]["call_id"].as_str().unwrap().to_owned();
    assert_eq!(mapped.len(), 37);
    // The text of a result that healing adds is not the client's.
    let added = input.remove(15);
    assert_eq!(added["type"], "function_call_output");
    assert_eq!(added["call_id"], "c6");
    assert_eq!(
        input,
        [
            user("One"),
            user("Two"),
            user(""),
            said("Said"),
            call(&mapped, r#"{"arguments":"{\"x\": 1"}"#),
            call("c2", r#"{"arguments":[1]}"#),
            call("c3", "{}"),
            call("c4", r#"{"a":2,"b":1}"#),
            call("c5", "{}"),
            call("c6", "{}"),
            result(&mapped, "error"),
            result("c2", "denied"),
            result("c3", "timed_out"),
            result("c4", "not_executed"),
            result("c5", "unknown"),
            said("Cut o"),
            user("Three"),
        ]
    );
}

/// A conversation may begin or end with a reply that has no item.
#[tokio::test]
async fn a_reply_without_items_is_left_out() {
    let mut scene = Scene::asking("");
    let nothing = json!({ "role": "assistant", "parts": [{ "type": "thinking", "text": "Hm" }] });
    let user = json!({ "role": "user", "content": "One" });
    for messages in [
        json!([nothing, user]),
        json!([user, nothing]),
        json!([user]),
    ] {
        let messages: Vec<_> = serde_json::from_value(messages).unwrap();
        scene.history = helix_agents_core::Transcript::load(messages).0;
        let item = json!({ "type": "message", "role": "user", "content": "One" });
        assert_eq!(body(&scene).await["input"], json!([item]));
    }
    scene.history = Default::default();
    assert_eq!(body(&scene).await["input"], json!([]));
}

#[tokio::test]
async fn items_are_given_back_to_their_own_model_and_reasoning_only_before_something() {
    let tagged = |model: &str, mut ours: Value| {
        ours["model"] = json!(model);
        json!({ "openai-responses": ours })
    };
    let reasoning = |id: &str| json!({ "type": "reasoning", "id": id, "encrypted_content": "x" });
    let thinking = |model: &str, item: Value, text: &str| {
        let kept = tagged(model, json!({ "item": item }));
        json!({ "type": "thinking", "text": text, "providerMetadata": kept })
    };
    let text = |model: &str, text: &str| {
        let kept = tagged(model, json!({ "phase": "commentary" }));
        json!({ "type": "text", "text": text, "providerMetadata": kept })
    };
    let mut scene = Scene::asking("");
    scene.history = after(&json!([
        thinking("gpt-5.5", reasoning("rs_1"), "Why"),
        thinking("other", reasoning("rs_2"), "Why not"),
        text("gpt-5.5", "Ours"),
        text("other", "Theirs"),
        thinking("gpt-5.5", reasoning("rs_3"), "Nothing follows"),
    ]));
    let said = |text: &str| json!({ "type": "message", "role": "assistant", "content": text });
    let mut ours = said("Ours");
    ours["phase"] = json!("commentary");
    let mut first = reasoning("rs_1");
    first["summary"] = json!([{ "type": "summary_text", "text": "Why" }]);
    let input = body(&scene).await["input"].take();
    let input = input.as_array().unwrap();
    assert_eq!(input[1..4], [first, ours, said("Theirs")]);
    assert_eq!(input.len(), 5);
    let third = request(RESPONSES, "gpt-6", &scene).await.unwrap();
    let third = third["input"].as_array().unwrap();
    assert_eq!(third[1..3], [said("Ours"), said("Theirs")]);
    assert_eq!(third.len(), 4);
}

/// An item of a reply as a later request gives it back.
fn given_back(item: &Value) -> Value {
    match item["type"].as_str().unwrap() {
        "message" => {
            let text = &item["content"][0]["text"];
            let mut given = json!({ "type": "message", "role": "assistant", "content": text });
            if let Some(phase) = item.get("phase") {
                given["phase"] = phase.clone();
            }
            given
        }
        "function_call" => {
            let mut given = item.clone();
            let fields = given.as_object_mut().unwrap();
            fields.remove("id");
            fields.remove("status");
            given
        }
        _ => item.clone(),
    }
}

fn is_of_a_reply(item: &&Value) -> bool {
    item["role"] != "user" && item["type"] != "function_call_output"
}

/// The items of all replies but the last, as their last events list them.
fn streamed(played: &Played) -> Vec<Value> {
    let mut exchanges = played.cassette.exchanges.clone();
    exchanges.pop();
    let parts = exchanges.iter().flat_map(|one| one.response().parts);
    let mut items = Vec::new();
    for part in parts {
        let super::http_server::Part::Bytes(bytes) = part else {
            panic!("a cassette has whole events");
        };
        let text = String::from_utf8(bytes).unwrap();
        let data = text.split_once("data: ").unwrap().1;
        let event: Value = serde_json::from_str(data).unwrap();
        if event["type"] == "response.completed" {
            items.extend(event["response"]["output"].as_array().unwrap().clone());
        }
    }
    items
}

/// proves in part: LLM-02
#[tokio::test]
async fn every_item_of_a_reply_comes_back_unchanged_and_in_its_place() {
    let server = server(RESPONSES.name()).await;
    let all = play_all(&server, RESPONSES).await;
    let mut reasoning = 0;
    for name in [
        "thinking_with_tools",
        "provider_tools",
        "phases",
        "tools",
        "parallel_tools",
    ] {
        let played = all.iter().find(|one| one.cassette.name == name).unwrap();
        let last: Value = serde_json::from_slice(played.requests.last().unwrap()).unwrap();
        assert_eq!(last["store"], false);
        let include = last["include"].as_array().unwrap();
        assert!(
            include.contains(&json!("reasoning.encrypted_content")),
            "{name}"
        );
        let input = last["input"].as_array().unwrap();
        let given: Vec<_> = input.iter().filter(is_of_a_reply).cloned().collect();
        reasoning += given
            .iter()
            .filter(|item| item["type"] == "reasoning")
            .count();
        let expected: Vec<_> = streamed(played).iter().map(given_back).collect();
        assert_eq!(given, expected, "{name}");
    }
    assert_eq!(reasoning, 8);
}

#[tokio::test]
async fn settings_have_their_fields_and_unknown_ones_are_refused() {
    let mut scene = Scene::asking("One");
    scene.config.temperature = Some(0.5);
    scene.config.top_p = Some(0.25);
    scene.config.max_output_tokens = Some(100);
    assert_eq!(
        body(&scene).await,
        json!({
            "model": "gpt-5.5", "stream": true, "store": false,
            "include": ["reasoning.encrypted_content"],
            "temperature": 0.5, "top_p": 0.25, "max_output_tokens": 100,
            "input": [{ "type": "message", "role": "user", "content": "One" }],
        })
    );
    for (name, config) in [
        ("top_k", json!({ "topK": 1 })),
        ("presence_penalty", json!({ "presencePenalty": 1.0 })),
        ("frequency_penalty", json!({ "frequencyPenalty": 1.0 })),
        ("seed", json!({ "seed": 1 })),
        ("stop_sequences", json!({ "stopSequences": ["x"] })),
    ] {
        let mut scene = Scene::asking("One");
        scene.config = serde_json::from_value(config).unwrap();
        assert_refused(RESPONSES, &scene, &format!("`{name}`")).await;
    }
}

#[tokio::test]
async fn a_model_that_does_not_reason_is_not_asked_for_reasoning() {
    let include = async |model: &str, options: Value| {
        let scene = with_options(RESPONSES, options);
        let body = request(RESPONSES, model, &scene).await.unwrap();
        body.get("include").cloned()
    };
    const OURS: &str = "reasoning.encrypted_content";
    const MORE: &str = "web_search_call.action.sources";
    assert_eq!(include("gpt-6-sol", json!({})).await, Some(json!([OURS])));
    assert_eq!(include("o3", json!({})).await, Some(json!([OURS])));
    for model in [
        "gpt-4.1",
        "gpt-4o-mini",
        "ft:gpt-4.1:acme::1",
        "gpt-5-chat-latest",
    ] {
        assert_eq!(include(model, json!({})).await, None, "{model}");
    }
    let both = json!({ "include": [MORE, OURS] });
    assert_eq!(include("o3", both.clone()).await, Some(json!([OURS, MORE])));
    assert_eq!(include("gpt-4.1", both).await, Some(json!([MORE, OURS])));
    assert_eq!(
        include("my-deployment", json!({ "include": null })).await,
        None
    );
}

#[tokio::test]
async fn options_are_merged_and_cannot_replace_what_the_client_writes() {
    let options = json!({
        "reasoning": { "effort": "low" }, "text": { "verbosity": "low" }, "store": true,
    });
    let sent = body(&with_options(RESPONSES, options)).await;
    assert_eq!(sent["reasoning"], json!({ "effort": "low" }));
    assert_eq!(sent["text"], json!({ "verbosity": "low" }));
    assert_eq!(sent["store"], true);
    for (field, value) in [
        ("input", json!([])),
        ("instructions", json!("x")),
        ("stream", json!(false)),
        ("conversation", json!("conv_1")),
        ("previous_response_id", json!("resp_1")),
        ("text", json!("x")),
        ("include", json!("x")),
    ] {
        let scene = with_options(RESPONSES, json!({ field: value }));
        assert_refused(RESPONSES, &scene, &format!("`{field}`")).await;
    }
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
            json!({ "type": "function", "name": "f" }),
        ),
    ] {
        let mut scene = Scene::of(&file);
        scene.tool_choice = choice;
        let sent = body(&scene).await;
        assert_eq!(sent["tool_choice"], form);
        let tool = json!({
            "type": "function", "name": "f", "description": "", "parameters": { "type": "object" },
            "strict": false,
        });
        assert_eq!(sent["tools"], json!([tool]));
        scene.tools.clear();
        assert_eq!(body(&scene).await.get("tool_choice"), None);
    }
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
    for (file, part) in [
        (
            FilePart::new("aGk=", "application/pdf"),
            json!({ "type": "input_file", "filename": "file.pdf", "file_data": "data:application/pdf;base64,aGk=" }),
        ),
        (
            FilePart::new("https://example.com/a.doc", "application/msword"),
            json!({ "type": "input_file", "file_url": "https://example.com/a.doc" }),
        ),
        (
            FilePart::new("data:application/msword;base64,aGk=", "application/msword")
                .named("a.doc"),
            json!({ "type": "input_file", "filename": "a.doc", "file_data": "data:application/msword;base64,aGk=" }),
        ),
    ] {
        assert_eq!(
            body(&with(file)).await["input"][0]["content"],
            json!([part])
        );
    }
    for media_type in ["audio/mpeg", "video/mp4"] {
        assert_refused(
            RESPONSES,
            &with(FilePart::new("aGk=", media_type)),
            media_type,
        )
        .await;
    }
}
