//! The agents of the chat tests, and a server for them.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use helix_agents_core::agent::Agent;
use helix_agents_core::entries::DoubleTexting;
use helix_agents_core::id::IdSource;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::message::Message;
use helix_agents_core::model::{EventStream, Model, ModelRequest};
use helix_agents_core::runtime::Backend;
use helix_agents_core::tool::{Tool, ToolCx};
use helix_agents_core::{ToolError, ToolResult};
use helix_agents_models::{Script, ScriptedModel};
use helix_agents_runtime_local::LocalRuntime;
use helix_agents_server::ServerBuilder;
use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::{SequentialIds, VirtualClock};
use serde_json::{Value, json};

use crate::kit::{Outside, Place, builder, clock, tokens};

/// The replies of the agent of most tests. A message that contains `slow` is answered up to its second delta, and on
/// after the gate.
const CLERK: &str = r#"{ "rules": [
  { "match": "size", "steps": [
      { "tool_calls": [ { "id": "l1", "name": "look", "arguments": { "at": 1 } },
        { "id": "q1", "name": "ask", "arguments": { "what": "size" } } ] },
      { "text": "{{tool_result:l1}} and {{tool_result:q1}}" } ] },
  { "match": "edit me", "steps": [ { "text": "turn {{turn}}: {{last_user}}" } ] },
  { "match": "count", "steps": [ { "text": "turn {{turn}}" } ] },
  { "match": "think", "steps": [ { "thinking": "Let me think about it.", "text": "The answer is 42." } ] },
  { "match": "look", "steps": [
      { "thinking": "where?", "text": "I look. ", "tool_calls": [ { "id": "l1", "name": "look", "arguments": { "at": 7 } } ] },
      { "text": "seen: {{tool_result:l1}}" } ] },
  { "match": "explode", "steps": [
      { "tool_calls": [ { "id": "x1", "name": "explode", "arguments": {} } ] }, { "text": "It failed." } ] },
  { "match": "bad input", "steps": [
      { "tool_calls": [ { "id": "x1", "name": "look", "arguments": { "at": "nowhere" } } ] }, { "text": "It was refused." } ] },
  { "match": "gate", "steps": [
      { "tool_calls": [ { "id": "g1", "name": "gate", "arguments": {} } ] }, { "text": "passed: {{tool_result:g1}}" } ] },
  { "match": "pay then ask", "steps": [
      { "text": "First. ", "tool_calls": [ { "id": "p1", "name": "pay", "arguments": { "cents": 5 } } ] },
      { "text": "Second. ", "tool_calls": [ { "id": "q1", "name": "ask", "arguments": { "what": "color" } } ] },
      { "text": "{{tool_result:p1}}, {{tool_result:q1}}" } ] },
  { "match": "pay and ask", "steps": [
      { "text": "Two. ", "tool_calls": [ { "id": "q1", "name": "ask", "arguments": { "what": "color" } },
        { "id": "p1", "name": "pay", "arguments": { "cents": 5 } } ] },
      { "text": "{{tool_result:q1}} and {{tool_result:p1}}" } ] },
  { "match": "ask two", "steps": [
      { "tool_calls": [ { "id": "q1", "name": "ask", "arguments": { "what": "first" } },
        { "id": "q2", "name": "ask", "arguments": { "what": "second" } } ] },
      { "text": "{{tool_result:q1}} and {{tool_result:q2}}" } ] },
  { "match": "huge number", "steps": [
      { "tool_calls": [ { "id": "p1", "name": "pay", "arguments": { "cents": 9007199254740993, "of": [ 0.1, -12345678901234567890 ] } } ] },
      { "text": "paid: {{tool_result:p1}}" } ] },
  { "match": "pay", "steps": [
      { "text": "May I? ", "tool_calls": [ { "id": "p1", "name": "pay", "arguments": { "cents": 5 } } ] },
      { "text": "paid: {{tool_result:p1}}" } ] },
  { "match": "ask late", "steps": [
      { "tool_calls": [ { "id": "q1", "name": "ask_soon", "arguments": { "what": "color" } } ] },
      { "text": "answer: {{tool_result:q1}}" } ] },
  { "match": "ask", "steps": [
      { "tool_calls": [ { "id": "q1", "name": "ask", "arguments": { "what": "color" } } ] },
      { "text": "answer: {{tool_result:q1}}" } ] },
  { "match": "note", "steps": [
      { "tool_calls": [ { "id": "n1", "name": "note", "arguments": {} } ] }, { "text": "State updated." } ] },
  { "match": "fail", "steps": [ { "text": "Partial ", "error": { "kind": "auth", "attempts": 99, "after_chars": 8 } } ] },
  { "match": "hiccup", "steps": [ { "text": "Once and for all.", "chunk_chars": 5,
      "error": { "kind": "overloaded", "attempts": 1, "retry_after_ms": 1, "after_chars": 16 } } ] },
  { "match": "slow", "steps": [ { "thinking": "hm", "text": "one two three four five six", "chunk_chars": 4 } ] } ],
  "default": [ { "text": "Echo: {{last_user}}" } ] }"#;

/// An agent with a structured output, after a first attempt that is refused.
const POET: &str = r#"{ "default": [
  { "text": "Let me see. ", "tool_calls": [ { "id": "l1", "name": "look", "arguments": { "at": 2 } } ] },
  { "finish": { "verses": "many" } }, { "finish": { "verses": 3 } } ] }"#;

/// An agent that gives its work to another one.
const BOSS: &str = r#"{ "rules": [
  { "match": "same ids", "steps": [
      { "tool_calls": [ { "id": "p1", "name": "pay", "arguments": { "cents": 1 } },
        { "id": "c1", "name": "subagent__helper", "arguments": { "message": "pay" } } ] },
      { "text": "boss: {{tool_result:c1}}" } ] },
  { "match": "both ask", "steps": [
      { "tool_calls": [ { "id": "q1", "name": "ask", "arguments": { "what": "name" } } ] },
      { "tool_calls": [ { "id": "c1", "name": "subagent__helper", "arguments": { "message": "ask" } } ] },
      { "text": "boss: {{tool_result:q1}}, {{tool_result:c1}}" } ] },
  { "match": "two helpers", "steps": [
      { "tool_calls": [ { "id": "c1", "name": "subagent__helper", "arguments": { "message": "twice" } },
        { "id": "c2", "name": "subagent__helper", "arguments": { "message": "ask" } } ] },
      { "text": "boss: {{tool_result:c1}}, {{tool_result:c2}}" } ] },
  { "match": "after paying", "steps": [
      { "tool_calls": [ { "id": "p1", "name": "pay", "arguments": { "cents": 1 } } ] },
      { "tool_calls": [ { "id": "c1", "name": "subagent__helper", "arguments": { "message": "pay" } } ] },
      { "text": "boss: {{tool_result:c1}}" } ] } ],
  "default": [
  { "text": "I ask the helper. ", "tool_calls": [ { "id": "c1", "name": "subagent__helper", "arguments": { "message": "{{last_user}}" } } ] },
  { "text": "boss: {{tool_result:c1}}" } ] }"#;

const HELPER: &str = r#"{ "rules": [
  { "match": "twice", "steps": [
      { "tool_calls": [ { "id": "t1", "name": "ask", "arguments": { "what": "name" } } ] },
      { "tool_calls": [ { "id": "t2", "name": "ask", "arguments": { "what": "age" } } ] },
      { "text": "helped: {{tool_result:t1}} {{tool_result:t2}}" } ] },
  { "match": "pay", "steps": [
      { "text": "Helping. ", "tool_calls": [ { "id": "p1", "name": "pay", "arguments": { "cents": 2 } } ] },
      { "text": "helped: {{tool_result:p1}}" } ] },
  { "match": "ask", "steps": [
      { "tool_calls": [ { "id": "q1", "name": "ask", "arguments": { "what": "name" } } ] },
      { "text": "helped: {{tool_result:q1}}" } ] } ],
  "default": [ { "thinking": "hm", "text": "Looking. ", "tool_calls": [ { "id": "l1", "name": "look", "arguments": { "at": 3 } } ] }, { "text": "helped: {{tool_result:l1}}" } ] }"#;

/// What the models were asked.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<Vec<Vec<Message>>>);

impl Seen {
    /// The number of model calls so far.
    pub(crate) fn calls(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// The texts of the user messages of the last model call, hidden ones included.
    pub(crate) fn last_users(&self) -> Vec<String> {
        let last = self.0.lock().unwrap().last().cloned().unwrap();
        let users = last.into_iter().filter_map(|message| match message {
            Message::User(user) => Some(user.content),
            _ => None,
        });
        users.collect()
    }
}

/// A scripted model that can be held in the middle of a reply.
#[derive(Debug)]
struct Held {
    script: ScriptedModel,
    outside: Arc<Outside>,
    seen: Arc<Seen>,
}

impl Model for Held {
    fn name(&self) -> &'static str {
        "held"
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        let history = request.prompt.history();
        let asked = history.last_visible_user();
        let is_slow = asked.is_some_and(|(_, user)| user.content.contains("slow"));
        let all = history.iter().cloned().collect();
        self.seen.0.lock().unwrap().push(all);
        let events = self.script.stream(request).enumerate();
        Box::pin(events.then(move |(at, event)| async move {
            if is_slow && at == 3 {
                self.outside.pass().await;
            }
            event
        }))
    }
}

/// Predictable ids that two processes do not share.
#[derive(Debug)]
struct Ids(String, SequentialIds);

impl IdSource for Ids {
    fn next(&self, prefix: &str) -> String {
        self.1.next(&format!("{}{prefix}", self.0))
    }
}

/// A server with these agents, in memory or over a store.
pub(crate) struct Desk {
    pub(crate) place: Place,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) seen: Arc<Seen>,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self::over(MemoryStore::new())
    }

    pub(crate) fn over(backend: impl Into<Backend>) -> Self {
        Self::with(backend, "", |server| server)
    }

    /// A server with this rule for a message that is sent while a run goes on.
    pub(crate) fn ruled(rule: DoubleTexting) -> Self {
        Self::with(MemoryStore::new(), "", |server| server.double_texting(rule))
    }

    /// A server over a SQLite file, as the process of this name would open it.
    pub(crate) async fn sqlite(folder: &Path, process: &str) -> Self {
        let store = SqliteStore::open(folder.join("helix.db")).await.unwrap();
        Self::with(store, process, |server| server)
    }

    pub(crate) fn with(
        backend: impl Into<Backend>,
        process: &str,
        more: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        Self::running(backend, process, true, more)
    }

    /// A server whose runtime continues answered runs by itself, or leaves that to the caller.
    pub(crate) fn running(
        backend: impl Into<Backend>,
        process: &str,
        auto_continue: bool,
        more: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        let outside = Outside::new();
        let seen = Arc::new(Seen::default());
        let clock = clock();
        let runtime = LocalRuntime::builder(backend)
            .recovery(false)
            .clock(clock.clone())
            .ids(Arc::new(Ids(process.to_owned(), SequentialIds::new())))
            .holder(format!("{process}holder"))
            .auto_continue(auto_continue);
        let (clerk, boss, poet) = agents(&outside, &seen);
        let runtime = runtime.agent(clerk).agent(boss).agent(poet).build();
        let server = more(
            builder(&runtime)
                .authenticate(tokens())
                .default_agent("clerk"),
        );
        Self {
            place: Place {
                app: server.build().unwrap().router(),
                runtime,
                outside,
            },
            clock,
            seen,
        }
    }

    /// Lets enough time pass for what a model has said to be written.
    pub(crate) fn tick(&self) {
        self.clock.advance(Duration::from_millis(50));
    }
}

fn agents(outside: &Arc<Outside>, seen: &Arc<Seen>) -> (Agent, Agent, Agent<Value>) {
    let model = |script: &str| -> Arc<dyn Model> {
        Arc::new(Held {
            script: ScriptedModel::new(Script::parse(script).unwrap()),
            outside: Arc::clone(outside),
            seen: Arc::clone(seen),
        })
    };
    let helper = Agent::builder("helper")
        .model(model(HELPER))
        .tools([look(), pay(outside), ask("ask", None)])
        .build()
        .unwrap();
    let boss = Agent::builder("boss")
        .model(model(BOSS))
        .tools([pay(outside), ask("ask", None)])
        .tools(Tool::sub_agent(&helper))
        .build()
        .unwrap();
    let clerk = Agent::builder("clerk")
        .model(model(CLERK))
        .initial_state(json!({ "counter": 0, "items": [] }))
        .tools([look(), pay(outside), explode(), gate(outside), note()])
        .tools([
            ask("ask", None),
            ask("ask_soon", Some(Duration::from_secs(60))),
        ])
        .build()
        .unwrap();
    (clerk, boss, poet(model(POET)))
}

/// The agent with a structured output.
fn poet(model: Arc<dyn Model>) -> Agent<Value> {
    let schema = json!({ "type": "object", "required": ["verses"],
        "properties": { "verses": { "type": "integer" } } });
    let poet = Agent::builder("poet").model(model).tools(look());
    poet.output_schema(schema).build().unwrap()
}

fn object() -> Value {
    json!({ "type": "object" })
}

fn look() -> Tool {
    let input = json!({ "type": "object", "required": ["at"], "properties": { "at": { "type": "integer" } } });
    let run = |input: Value, _: ToolCx| async move {
        let seen: ToolResult<Value> = Ok(json!({ "seen": input["at"] }));
        seen
    };
    Tool::raw("look", "Looks.", input, run).build().unwrap()
}

fn pay(outside: &Arc<Outside>) -> Tool {
    let outside = Arc::clone(outside);
    let run = move |_: Value, _: ToolCx| {
        outside
            .paid
            .fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async {
            let paid: ToolResult<Value> = Ok(json!("5 cents"));
            paid
        }
    };
    Tool::raw("pay", "Pays.", object(), run)
        .approval()
        .build()
        .unwrap()
}

fn explode() -> Tool {
    let run = |_: Value, _: ToolCx| async {
        let failed: ToolResult<Value> = Err(ToolError::tell_model("boom"));
        failed
    };
    Tool::raw("explode", "Fails.", object(), run)
        .build()
        .unwrap()
}

fn gate(outside: &Arc<Outside>) -> Tool {
    let outside = Arc::clone(outside);
    let run = move |_: Value, _: ToolCx| {
        let outside = Arc::clone(&outside);
        async move {
            outside.pass().await;
            let done: ToolResult<Value> = Ok(json!("done"));
            done
        }
    };
    Tool::raw("gate", "Waits.", object(), run).build().unwrap()
}

fn note() -> Tool {
    let run = |_: Value, cx: ToolCx| async move {
        for item in ["a", "b"] {
            cx.update_state(|state: &mut Value| {
                state["counter"] = json!(state["counter"].as_u64().unwrap() + 1);
                state["items"].as_array_mut().unwrap().push(json!(item));
            })?;
            cx.emit("progress", json!({ "item": item }))?;
        }
        let done: ToolResult<Value> = Ok(json!({ "noted": 2 }));
        done
    };
    Tool::raw("note", "Notes.", object(), run).build().unwrap()
}

fn ask(name: &str, deadline: Option<Duration>) -> Tool {
    let tool = Tool::client_raw(name, "Asks the client.", object());
    match deadline {
        Some(deadline) => tool.deadline(deadline),
        None => tool,
    }
    .build()
    .unwrap()
}
