//! Thinking of Anthropic's models: what is given back, to whom, and when it is asked for.

use futures_util::StreamExt;
use helix_agents_core::message::Message;
use helix_agents_core::model::{ModelEvent, TokenUsage, ToolChoice};
use helix_agents_models::{Provider, ProviderModel};
use serde_json::{Value, json};

use super::cassette;
use super::http_server::HttpServer;
use super::requests_anthropic::{body, conversation};
use super::scene::Scene;

const MODEL: &str = "claude-test";

fn thinking(provider: &str, model: &str) -> Value {
    json!({
        "type": "thinking", "text": "Hm.", "signature": "sig+/=",
        "providerMetadata": { (provider): { "model": model } }
    })
}

fn step(parts: Vec<Value>, call: &str) -> [Value; 2] {
    let mut parts = parts;
    let arguments = json!({});
    parts.push(json!({ "type": "tool_call", "id": call, "name": "look", "arguments": arguments }));
    [
        json!({ "role": "assistant", "parts": parts }),
        json!({ "role": "tool", "toolCallId": call, "toolName": "look", "content": "seen" }),
    ]
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

/// Whether a request with this history asks for thinking with a budget.
async fn asks(history: Vec<Value>, choice: ToolChoice) -> bool {
    let mut scene = conversation(history.into());
    let tools = cassette::of("anthropic");
    let tools = tools.iter().find(|one| one.name == "tools").unwrap();
    scene.tools = Scene::of(&tools.scene).tools;
    scene.tool_choice = choice;
    let mut asked = Vec::new();
    for kind in ["adaptive", "enabled"] {
        let options = json!({ "anthropic": { "thinking": { "type": kind } } });
        scene.config = serde_json::from_value(json!({ "providerOptions": options })).unwrap();
        asked.push(body(&scene).await.get("thinking").is_some());
    }
    assert!(asked[0], "a model that decides itself may always think");
    asked[1]
}

#[tokio::test]
async fn thinking_is_asked_for_where_the_provider_accepts_it() {
    let own = || vec![thinking("anthropic", MODEL)];
    let other = || vec![thinking("anthropic", "claude-other")];
    let turn = |steps: &[[Value; 2]]| {
        let mut all = vec![user("Go.")];
        all.extend(steps.iter().flatten().cloned());
        all
    };
    let auto = || ToolChoice::Auto;
    // The turn began with thinking, whether or not each reply did.
    assert!(asks(turn(&[step(own(), "a")]), auto()).await);
    assert!(asks(turn(&[step(own(), "a"), step(vec![], "b")]), auto()).await);
    // It did not: interrupted, or begun by another model.
    assert!(!asks(turn(&[step(vec![], "a")]), auto()).await);
    assert!(!asks(turn(&[step(other(), "a")]), auto()).await);
    assert!(!asks(turn(&[step(vec![], "a"), step(own(), "b")]), auto()).await);
    let text = json!({ "type": "text", "text": "First." });
    let behind_text = vec![text, thinking("anthropic", MODEL)];
    assert!(!asks(turn(&[step(behind_text, "a")]), auto()).await);
    // A message right behind results does not begin a turn for the provider.
    let mut noticed = turn(&[step(vec![], "a")]);
    noticed.push(user("A notice."));
    assert!(!asks(noticed.clone(), auto()).await);
    noticed.extend(step(own(), "b"));
    assert!(!asks(noticed, auto()).await);
    // A new turn does, once the one before has ended with a text.
    let mut ended = turn(&[step(vec![], "a")]);
    ended.push(json!({ "role": "assistant", "parts": [{ "type": "text", "text": "Done." }] }));
    ended.push(user("Again."));
    assert!(asks(ended, auto()).await);
    // A tool that is forced excludes it.
    assert!(asks(vec![user("Go.")], ToolChoice::None).await);
    assert!(!asks(vec![user("Go.")], ToolChoice::Required).await);
    let forced = ToolChoice::Tool("get_weather".to_owned());
    assert!(!asks(vec![user("Go.")], forced).await);
}

/// What belongs to a model is given to no other one, of this provider or another.
#[tokio::test]
async fn thinking_and_data_go_back_to_their_model_only() {
    let of = |provider: &str, model: &str| {
        let data =
            |field: &str, value: Value| json!({ (provider): { "model": model, (field): value } });
        let search =
            json!({ "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} });
        let citation = json!({ "type": "web_search_result_location", "url": "https://a.b" });
        let caller = json!({ "type": "code_execution_20260521", "tool_id": "t" });
        let mut redacted = thinking(provider, model);
        redacted["redacted"] = json!("encrypted");
        conversation(json!([
            user("Go."),
            { "role": "assistant", "parts": [
                thinking(provider, model),
                redacted,
                { "type": "text", "text": "", "providerMetadata": data("block", search) },
                { "type": "text", "text": "Found.", "providerMetadata": data("citations", json!([citation])) },
                { "type": "tool_call", "id": "a", "name": "look", "arguments": {},
                  "providerMetadata": data("fields", json!({ "caller": caller })) },
            ] },
            { "role": "tool", "toolCallId": "a", "toolName": "look", "content": "seen" },
        ]))
    };
    assert_eq!(
        body(&of("anthropic", MODEL)).await["messages"][1]["content"],
        json!([
            { "type": "thinking", "thinking": "Hm.", "signature": "sig+/=" },
            { "type": "redacted_thinking", "data": "encrypted" },
            { "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} },
            { "type": "text", "text": "Found.",
              "citations": [{ "type": "web_search_result_location", "url": "https://a.b" }] },
            { "type": "tool_use", "id": "a", "name": "look", "input": {},
              "caller": { "type": "code_execution_20260521", "tool_id": "t" } },
        ])
    );
    for (provider, model) in [("anthropic", "claude-other"), ("gemini", MODEL)] {
        assert_eq!(
            body(&of(provider, model)).await["messages"][1]["content"],
            json!([
                { "type": "text", "text": "Found." },
                { "type": "tool_use", "id": "a", "name": "look", "input": {} },
            ]),
            "{provider} {model}"
        );
    }
}

/// An interrupted reply has lost the results that its citations point to.
#[tokio::test]
async fn citations_without_their_results_are_left_out() {
    let text = |citation: &str| {
        let ours = json!({ "model": MODEL, "citations": [{ "type": citation }] });
        let part =
            json!({ "type": "text", "text": "A.", "providerMetadata": { "anthropic": ours } });
        conversation(json!([user("Go."), { "role": "assistant", "parts": [part] }]))
    };
    let search = body(&text("web_search_result_location")).await;
    assert_eq!(
        search["messages"][1]["content"],
        json!([{ "type": "text", "text": "A." }])
    );
    let page = body(&text("page_location")).await;
    let citations = json!([{ "type": "page_location" }]);
    assert_eq!(page["messages"][1]["content"][0]["citations"], citations);
}

/// Calls of the provider's own that it has not answered are sent only for it to go on.
#[tokio::test]
async fn a_paused_turn_goes_on_or_is_left() {
    let of = |field: &str, value: Value| {
        let ours = json!({ "anthropic": { "model": MODEL, (field): value } });
        json!({ "type": "text", "text": "", "providerMetadata": ours })
    };
    let search = json!({ "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} });
    let said = |parts: Value| json!({ "role": "assistant", "parts": parts });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let paused = said(json!([
        of("block", search.clone()),
        of("paused", true.into())
    ]));
    let reply = |blocks: Value| json!({ "role": "assistant", "content": blocks });
    let asked =
        |text: &str| json!({ "role": "user", "content": [{ "type": "text", "text": text }] });

    let history = json!([user("Go."), paused]);
    let goes_on = body(&conversation(history)).await;
    assert_eq!(
        goes_on["messages"],
        json!([asked("Go."), reply(json!([search]))])
    );

    let history = json!([
        user("Go."),
        paused,
        said(json!([text("Done.")])),
        user("Thanks.")
    ]);
    let went_on = body(&conversation(history)).await;
    let done = reply(json!([text("Done.")]));
    let all = json!([asked("Go."), reply(json!([search])), done, asked("Thanks.")]);
    assert_eq!(went_on["messages"], all);

    let history = json!([user("Go."), paused, user("Never mind.")]);
    let left = body(&conversation(history)).await;
    let nothing = reply(json!([text("(no text)")]));
    let all = json!([asked("Go."), nothing, asked("Never mind.")]);
    assert_eq!(left["messages"], all);
}

/// Thinking of a stream comes back byte by byte, in its order, with the calls in theirs.
///
/// proves in part: LLM-02
#[tokio::test]
async fn what_was_streamed_is_given_back_unchanged() {
    let all = cassette::of("anthropic");
    for name in [
        "server_tools",
        "redacted_thinking",
        "parallel_tools",
        "paused_turn",
    ] {
        let cassette = all.iter().find(|one| one.name == name).unwrap();
        let exchange = cassette.exchanges[0].clone();
        let streamed: Vec<Value> = whole_blocks(&exchange.events);
        let server = HttpServer::start(move |_| exchange.response()).await;
        let model = ProviderModel::builder(Provider::Anthropic, &cassette.model)
            .base_url(format!("http://{}", server.address))
            .api_key("key")
            .build()
            .unwrap();
        let mut scene = Scene::of(&cassette.scene);
        let reply = scene.reply(&model).await.unwrap();
        scene.push(&reply);
        scene.reply(&model).await.unwrap();
        let second: Value = serde_json::from_slice(&server.seen()[1].body).unwrap();
        assert_eq!(second["messages"][1]["content"], json!(streamed), "{name}");
    }
}

/// Assembles the blocks of a stream, without the caller that every call has.
fn whole_blocks(events: &[cassette::EventFile]) -> Vec<Value> {
    let mut blocks: Vec<Value> = Vec::new();
    let mut inputs: Vec<String> = Vec::new();
    for event in events {
        let cassette::EventFile::Named { data, .. } = event else {
            continue;
        };
        if data["type"] == "content_block_start" {
            let mut block = data["content_block"].clone();
            if block["type"] == "tool_use" {
                block.as_object_mut().unwrap().remove("caller");
            }
            if block["citations"] == json!([]) && block["type"] == "text" {
                block.as_object_mut().unwrap().remove("citations");
            }
            blocks.push(block);
            inputs.push(String::new());
        }
        let (Some(block), Some(input)) = (blocks.last_mut(), inputs.last_mut()) else {
            continue;
        };
        let delta = &data["delta"];
        for field in ["text", "thinking", "signature"] {
            if let Some(more) = delta[field].as_str() {
                block[field] = format!("{}{more}", block[field].as_str().unwrap()).into();
            }
        }
        if let Some(more) = delta["partial_json"].as_str() {
            input.push_str(more);
        }
        if !delta["citation"].is_null() {
            block["citations"] = json!([delta["citation"]]);
        }
        if data["type"] == "content_block_stop" && !input.is_empty() {
            block["input"] = serde_json::from_str(input).unwrap();
        }
    }
    blocks
}

/// Every piece of a stream is an event of its own, and tokens are told as soon as they are known.
#[tokio::test]
async fn pieces_and_tokens_come_as_they_are_sent() {
    let all = cassette::of("anthropic");
    let cassette = all
        .iter()
        .find(|one| one.name == "redacted_thinking")
        .unwrap();
    let exchange = cassette.exchanges[0].clone();
    let server = HttpServer::start(move |_| exchange.response()).await;
    let model = ProviderModel::builder(Provider::Anthropic, &cassette.model)
        .base_url(format!("http://{}", server.address))
        .api_key("key")
        .build()
        .unwrap();
    let scene = Scene::of(&cassette.scene);
    let events: Vec<_> = scene.stream(&model).map(Result::unwrap).collect().await;
    let mut early = TokenUsage::new(420, 4);
    (early.cached, early.cache_write) = (Some(0), Some(0));
    let mut late = early;
    late.output = 88;
    assert_eq!(events.first(), Some(&ModelEvent::Usage(early)));
    assert_eq!(events[events.len() - 2], ModelEvent::Usage(late));
    let shown: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            ModelEvent::Thinking(text) => Some(text.as_str()),
            ModelEvent::CallArguments { delta, .. } => Some(delta.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(shown, ["Ask the ", "tool.", "{\"city\":\"Oslo\"}"]);
}

/// Arguments that are not JSON are kept as the model wrote them, and it reads them again.
#[tokio::test]
async fn malformed_arguments_are_passed_on() {
    let all = cassette::of("anthropic");
    let cassette = all.iter().find(|one| one.name == "tools").unwrap();
    let mut exchange = cassette.exchanges[0].clone();
    let broken = "{\"city\": Oslo";
    exchange.events.retain(|event| match event {
        cassette::EventFile::Named { data, .. } => data["delta"]["type"] != "input_json_delta",
        _ => true,
    });
    let delta = json!({ "type": "input_json_delta", "partial_json": broken });
    let data = json!({ "type": "content_block_delta", "index": 1, "delta": delta });
    let is_call = |event: &cassette::EventFile| {
        matches!(event, cassette::EventFile::Named { data, .. }
        if data["content_block"]["type"] == "tool_use")
    };
    let at = exchange.events.iter().position(is_call).unwrap() + 1;
    let event = "content_block_delta".to_owned();
    exchange
        .events
        .insert(at, cassette::EventFile::Named { event, data });
    let server = HttpServer::start(move |_| exchange.response()).await;
    let model = ProviderModel::builder(Provider::Anthropic, &cassette.model)
        .base_url(format!("http://{}", server.address))
        .api_key("key")
        .build()
        .unwrap();
    let mut scene = Scene::of(&cassette.scene);
    let reply = scene.reply(&model).await.unwrap();
    assert_eq!(
        *reply.message.tool_calls().next().unwrap().arguments,
        json!(broken)
    );
    scene.push(&reply);
    assert!(matches!(scene.history.last(), Some(Message::Tool(_))));
    scene.reply(&model).await.unwrap();
    let second: Value = serde_json::from_slice(&server.seen()[1].body).unwrap();
    let input = &second["messages"][1]["content"][1]["input"];
    assert_eq!(*input, json!({ "INVALID_JSON": broken }));
}
