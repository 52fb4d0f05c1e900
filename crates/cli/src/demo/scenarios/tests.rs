//! Every row of the table, played by a runtime.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use helix_agents_core::SessionId;
use helix_agents_core::agent::AnyAgent;
use helix_agents_core::entries::ToolAnswer;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::message::Message;
use helix_agents_core::runtime::{Handle, Outcome, Runtime, RuntimeExt, Turn};
use helix_agents_core::session::PendingCall;
use helix_agents_core::stream::ChunkPayload;
use helix_agents_runtime_local::LocalRuntime;
use serde_json::{Value, json};

use super::scenario::{HELP, Scenario, Words};

/// A session with the agent.
struct Chat {
    runtime: LocalRuntime,
    agent: AnyAgent,
}

impl Chat {
    fn new() -> Self {
        let builder = LocalRuntime::builder(MemoryStore::new());
        Self {
            runtime: builder.recovery(false).build(),
            agent: super::agent().unwrap(),
        }
    }

    /// Says something.
    async fn start(&self, text: &str) -> Handle<Value> {
        let known = self.runtime.handle(&self.agent, "s").await.unwrap();
        if known.is_some() {
            return self.runtime.send(&self.agent, "s", text).await.unwrap();
        }
        let turn = Turn::new(text).session("s");
        self.runtime.execute(&self.agent, turn).await.unwrap()
    }

    /// Says something, and returns how the run comes out.
    async fn say(&self, text: &str) -> Outcome<Value> {
        self.start(text).await.outcome().await.unwrap()
    }

    /// Says something, and returns the answer.
    async fn ask(&self, text: &str) -> Value {
        match self.say(text).await {
            Outcome::Done(answer) => answer,
            other => panic!("{text}: {other:?}"),
        }
    }

    /// Says something, and returns the calls that wait.
    async fn waits(&self, text: &str) -> Vec<PendingCall> {
        match self.say(text).await {
            Outcome::Suspended(pause) => pause.pending().to_vec(),
            other => panic!("{text}: {other:?}"),
        }
    }

    /// Answers calls, and returns what the agent says then.
    async fn answer(&self, answers: impl IntoIterator<Item = ToolAnswer>) -> Value {
        for answer in answers {
            self.runtime.submit(answer).await.unwrap();
        }
        let run = self.runtime.resume(&self.agent, "s").await.unwrap();
        run.output().await.unwrap()
    }

    /// Returns everything that readers were told, in order.
    async fn told(&self) -> Vec<ChunkPayload> {
        let chunks = self.runtime.chunks("s", 0);
        let payloads = chunks.map(|chunk| chunk.unwrap().chunk.payload);
        payloads.collect().await
    }

    /// Returns the pieces of text that readers were told.
    async fn deltas(&self) -> Vec<String> {
        let told = self.told().await.into_iter();
        let deltas = told.filter_map(|payload| match payload {
            ChunkPayload::TextDelta { delta } => Some(delta),
            _ => None,
        });
        deltas.collect()
    }

    /// Returns the name, the arguments and the result of each call.
    async fn calls(&self) -> Vec<(String, Value, Value)> {
        let messages = self.runtime.messages("s").await.unwrap().items;
        let mut calls = Vec::new();
        for message in &messages {
            match message {
                Message::Assistant(reply) => calls.extend(reply.tool_calls().map(|call| {
                    let arguments = Value::clone(&call.arguments);
                    (call.name.to_string(), arguments, Value::Null)
                })),
                Message::Tool(result) => {
                    let settled = calls.iter_mut().find(|(.., result)| result.is_null());
                    settled.unwrap().2 = result.value();
                }
                _ => {}
            }
        }
        calls
    }

    async fn state(&self) -> Value {
        let store = &self.runtime.backend().store;
        let session = SessionId::new("s").unwrap();
        let found = store.find(&session).await.unwrap().unwrap();
        Value::clone(&found.state.custom_state)
    }
}

fn called(tool: &str, arguments: Value, result: Value) -> (String, Value, Value) {
    (tool.to_owned(), arguments, result)
}

fn picked(prompt: &str, color: &str) -> (String, Value, Value) {
    called(
        "pick_color",
        json!({ "prompt": prompt }),
        json!({ "color": color }),
    )
}

fn deleted(result: Value) -> (String, Value, Value) {
    called("delete_file", json!({ "path": "/tmp/x" }), result)
}

fn denied(reason: &str) -> Value {
    let text = format!("The call of delete_file was not approved. Reason: {reason}");
    json!({ "error": text })
}

#[tokio::test]
async fn text_comes_in_several_deltas() {
    let chat = Chat::new();
    assert_eq!(chat.ask("scenario:text").await, "Echo: hello world");
    assert_eq!(chat.deltas().await, ["Echo:", " hello", " world"]);
}

#[tokio::test]
async fn count_counts_the_messages_of_the_user() {
    let chat = Chat::new();
    assert_eq!(chat.ask("scenario:count").await, "turn 1");
    chat.ask("scenario:server-tool").await;
    assert_eq!(chat.ask("scenario:count").await, "turn 3");
}

#[tokio::test]
async fn reasoning_comes_before_the_text() {
    let chat = Chat::new();
    assert_eq!(chat.ask("scenario:reasoning").await, "The answer is 42.");
    let mut reasoning = String::new();
    for payload in chat.told().await {
        match payload {
            ChunkPayload::Thinking { content, .. } => reasoning.push_str(&content),
            ChunkPayload::TextDelta { .. } => break,
            _ => {}
        }
    }
    assert_eq!(reasoning, "Let me think about it.");
}

#[tokio::test]
async fn server_tool_tells_the_weather() {
    let chat = Chat::new();
    let answer = chat.ask("scenario:server-tool").await;
    assert_eq!(answer, "It is 21 degrees in Paris.");
    let wanted = called(
        "get_weather",
        json!({ "city": "Paris" }),
        json!({ "tempC": 21 }),
    );
    assert_eq!(chat.calls().await, [wanted]);
}

#[tokio::test]
async fn tool_error_says_that_the_tool_failed() {
    let chat = Chat::new();
    assert_eq!(chat.ask("scenario:tool-error").await, "The tool failed.");
    let error = json!({ "error": "boom: this tool always fails" });
    assert_eq!(chat.calls().await, [called("explode", json!({}), error)]);
}

#[tokio::test]
async fn client_tool_waits_for_a_color() {
    let chat = Chat::new();
    let calls = chat.waits("scenario:client-tool").await;
    let answer = chat
        .answer(
            calls
                .iter()
                .map(|call| call.result(json!({ "color": "teal" }))),
        )
        .await;
    assert_eq!(answer, "You picked teal.");
    assert_eq!(chat.calls().await, [picked("Pick a color", "teal")]);

    let calls = chat.waits("scenario:client-tool").await;
    let failed = calls
        .iter()
        .map(|call| call.error("user closed the dialog"));
    let answer = chat.answer(failed).await;
    assert_eq!(answer, "The client tool failed: user closed the dialog");
}

#[tokio::test]
async fn client_tool_two_joins_the_colors_in_the_order_of_the_calls() {
    let chat = Chat::new();
    let calls = chat.waits("scenario:client-tool-two").await;
    assert_eq!(calls.len(), 2);
    let color_for = |call: &PendingCall| match call.input["prompt"].as_str() {
        Some("First") => json!({ "color": "red" }),
        _ => json!({ "color": "blue" }),
    };
    let answers = calls.iter().rev().map(|call| call.result(color_for(call)));
    assert_eq!(chat.answer(answers).await, "You picked red and blue.");
    let wanted = [picked("First", "red"), picked("Second", "blue")];
    assert_eq!(chat.calls().await, wanted);
}

#[tokio::test]
async fn client_tool_slow_continues_with_the_slow_text() {
    let chat = Chat::new();
    let calls = chat.waits("scenario:client-tool-slow n=3 ms=1").await;
    let answers = calls
        .iter()
        .map(|call| call.result(json!({ "color": "teal" })));
    assert_eq!(chat.answer(answers).await, "w0 w1 w2");
    assert_eq!(chat.calls().await, [picked("Pick a color", "teal")]);
    assert_eq!(chat.deltas().await, ["w0", " w1", " w2"]);
}

#[tokio::test]
async fn approval_deletes_only_what_was_approved() {
    let chat = Chat::new();
    let calls = chat.waits("scenario:approval").await;
    let answer = chat.answer(calls.iter().map(PendingCall::approve)).await;
    assert_eq!(answer, "Deleted /tmp/x.");
    assert_eq!(chat.calls().await, [deleted(json!({ "deleted": true }))]);
}

#[tokio::test]
async fn a_denial_gives_its_reason() {
    for reason in ["too risky", "Reason: none", "a \"quoted\"\nReason: two"] {
        let chat = Chat::new();
        let calls = chat.waits("scenario:approval").await;
        let answer = chat
            .answer(calls.iter().map(|call| call.deny(reason)))
            .await;
        assert_eq!(answer, format!("Not deleted: {reason}"));
        assert_eq!(chat.calls().await, [deleted(denied(reason))]);
    }
}

#[tokio::test]
async fn approval_slow_takes_its_time_and_the_same_arguments() {
    let chat = Chat::new();
    // The second call has an id that the session makes unique.
    for turn in 0..2 {
        let calls = chat.waits("scenario:approval-slow ms=60").await;
        let begun = Instant::now();
        let answer = chat.answer(calls.iter().map(PendingCall::approve)).await;
        assert!(begun.elapsed() >= Duration::from_millis(60));
        assert_eq!(answer, "Deleted /tmp/x.");
        let calls = chat.calls().await;
        assert_eq!(calls[turn], deleted(json!({ "deleted": true })));
    }
}

#[tokio::test]
async fn mixed_waits_for_both() {
    let cases = [
        (
            true,
            json!({ "deleted": true }),
            "You picked teal. Deleted /tmp/x.",
        ),
        (false, denied("no"), "You picked teal. Not deleted."),
    ];
    for (approved, result, text) in cases {
        let chat = Chat::new();
        let calls = chat.waits("scenario:mixed").await;
        assert_eq!(calls.len(), 2);
        let answers = calls.iter().map(|call| match call.tool_name.as_str() {
            "pick_color" => call.result(json!({ "color": "teal" })),
            _ if approved => call.approve(),
            _ => call.deny("no"),
        });
        assert_eq!(chat.answer(answers).await, text);
        let wanted = [picked("Pick a color", "teal"), deleted(result)];
        assert_eq!(chat.calls().await, wanted);
    }
}

#[tokio::test]
async fn state_patch_changes_the_state_twice() {
    let chat = Chat::new();
    chat.ask("scenario:text").await;
    assert_eq!(chat.state().await, json!({ "counter": 0, "items": [] }));
    assert_eq!(chat.ask("scenario:state-patch").await, "State updated.");
    let wanted = json!({ "counter": 2, "items": ["a", "b"] });
    assert_eq!(chat.state().await, wanted);
    let told = chat.told().await.into_iter();
    let patches = told.filter_map(|payload| match payload {
        ChunkPayload::StatePatch { patches, .. } => Some(json!(patches)),
        _ => None,
    });
    let step = |counter, item| {
        json!([
            { "op": "replace", "path": "/counter", "value": counter },
            { "op": "add", "path": "/items/-", "value": item },
        ])
    };
    let wanted = [step(1, "a"), step(2, "b")];
    assert_eq!(patches.collect::<Vec<_>>(), wanted);
}

#[tokio::test]
async fn slow_gives_one_word_per_delta() {
    let chat = Chat::new();
    let begun = Instant::now();
    assert_eq!(chat.ask("scenario:slow n=4 ms=20").await, "w0 w1 w2 w3");
    assert!(begun.elapsed() >= Duration::from_millis(60));
    assert_eq!(chat.deltas().await, ["w0", " w1", " w2", " w3"]);
}

#[tokio::test]
async fn error_fails_once_after_some_text() {
    let chat = Chat::new();
    let run = chat.start("scenario:error").await;
    let told: Vec<_> = run.chunks().map(|chunk| chunk.unwrap()).collect().await;
    let told = told.iter().filter_map(|chunk| match &chunk.chunk.payload {
        ChunkPayload::TextDelta { delta } => Some(delta.as_str()),
        ChunkPayload::Error { error, .. } => Some(error.as_str()),
        _ => None,
    });
    let told: Vec<_> = told.collect();
    assert_eq!(told, ["Partial ", "The model failed: scripted failure."]);
    let Outcome::Failed(error) = run.outcome().await.unwrap() else {
        panic!("the model fails");
    };
    assert!(error.user_message().contains("scripted failure"), "{error}");
    assert_eq!(chat.ask("scenario:text").await, "Echo: hello world");
}

#[tokio::test]
async fn anything_else_is_told_what_there_is() {
    let chat = Chat::new();
    for message in ["hello", "scenario:nothing", "a scenario:text"] {
        assert_eq!(chat.ask(message).await, HELP);
    }
    // Whatever it offers is a scenario.
    for word in HELP.split([' ', ',']).filter(|word| word.contains(':')) {
        let known = Scenario::parse(word) != Scenario::Unknown;
        assert!(known || !word.starts_with("scenario:"), "{word}");
    }
}

#[test]
fn a_scenario_is_read_with_its_numbers() {
    let slow = |count, ms| {
        let apart = Duration::from_millis(ms);
        Scenario::Slow(Words { count, apart })
    };
    for (message, wanted) in [
        ("scenario:slow n=40 ms=25", slow(40, 25)),
        (" scenario:slow  ms=0\tn=2 x=1 y\n", slow(2, 0)),
        ("scenario:slow", slow(10, 100)),
        ("scenario:slow n=x ms=-1", slow(10, 100)),
        ("scenario:slow n=99999999999", slow(1_000_000, 100)),
        ("scenario:text and more", Scenario::Text),
        ("scenario:", Scenario::Unknown),
        ("", Scenario::Unknown),
    ] {
        assert_eq!(Scenario::parse(message), wanted, "{message:?}");
    }
}

/// The ids of all calls of a session differ as the model makes them, so nobody has to rename one.
#[tokio::test]
async fn call_ids_are_unique_in_the_session() {
    let chat = Chat::new();
    for _ in 0..2 {
        chat.ask("scenario:server-tool").await;
        chat.ask("scenario:state-patch").await;
        let calls = chat.waits("scenario:client-tool-two").await;
        let answers = calls
            .iter()
            .map(|call| call.result(json!({ "color": "red" })));
        chat.answer(answers).await;
    }
    let mut ids = Vec::new();
    for message in chat.runtime.messages("s").await.unwrap().items {
        if let Message::Assistant(reply) = message {
            ids.extend(reply.tool_calls().map(|call| call.id.to_string()));
        }
    }
    assert_eq!(ids.len(), 10);
    assert!(ids.iter().all(|id| !id.contains("_2")), "{ids:?}");
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 10);
}
