//! A test agent, a server for it, and a client of that server.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, Response, StatusCode};
use helix_agents_core::agent::Agent;
use helix_agents_core::entries::DoubleTexting;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::model::Model;
use helix_agents_core::runtime::{Backend, Runtime, StartedRun};
use helix_agents_core::time::Timestamp;
use helix_agents_core::tool::{Tool, ToolCx};
use helix_agents_core::{RunId, SessionId, ToolResult};
use helix_agents_models::{Script, ScriptedModel};
use helix_agents_runtime_local::LocalRuntime;
use helix_agents_server::{RunMetrics, Server, ServerBuilder, Tokens};
use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::{SequentialIds, VirtualClock};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tower::ServiceExt;

use crate::openapi;

/// The time of these tests, which does not move.
pub(crate) const NOW: u64 = 1_000_000;

pub(crate) const ALICE: Option<&str> = Some("alice's token");
pub(crate) const BOB: Option<&str> = Some("bob's token");
pub(crate) const ADMIN: Option<&str> = Some("admin's token");

/// The replies of the test agent, by message.
const SCRIPT: &str = r#"{ "rules": [
  { "match": "hello", "steps": [ { "thinking": "greet", "text": "Hello, how are you?", "usage": { "input": 7, "output": 5 } } ] },
  { "match": "look", "steps": [
      { "tool_calls": [ { "id": "l1", "name": "look", "arguments": { "at": 7 } } ], "usage": { "input": 10, "output": 2 } },
      { "text": "seen: {{tool_result:l1}}", "usage": { "input": 20, "output": 3 } } ] },
  { "match": "wait", "steps": [
      { "tool_calls": [ { "id": "w1", "name": "wait", "arguments": {} } ] },
      { "text": "waited: {{tool_result:w1}}" } ] },
  { "match": "pay", "steps": [
      { "text": "May I?", "tool_calls": [ { "id": "p1", "name": "pay", "arguments": { "cents": 5 } } ] },
      { "text": "paid: {{tool_result:p1}}" } ] },
  { "match": "ask", "steps": [
      { "tool_calls": [ { "id": "q1", "name": "ask", "arguments": { "what": "color" } } ] },
      { "text": "answer: {{tool_result:q1}}" } ] },
  { "match": "both", "steps": [
      { "text": "Two things.", "tool_calls": [
        { "id": "b1", "name": "look", "arguments": { "at": 1 } },
        { "id": "b2", "name": "ask", "arguments": { "what": "size" } } ] },
      { "text": "{{tool_result:b1}} and {{tool_result:b2}}" } ] },
  { "match": "two questions", "steps": [
      { "tool_calls": [
        { "id": "p2", "name": "pay", "arguments": { "cents": 6 } },
        { "id": "q2", "name": "ask", "arguments": { "what": "size" } } ] },
      { "text": "{{tool_result:p2}} and {{tool_result:q2}}" } ] },
  { "match": "sum", "steps": [ { "text": "1", "chunk_chars": 1 }, { "text": "2" } ] },
  { "match": "long", "steps": [ { "text": "abcdefghijklmnopqrstuvwxyz0123456789", "chunk_chars": 1 } ] },
  { "match": "huge", "steps": [ { "text": "HUGE", "chunk_chars": 1 } ] },
  { "match": "fail", "steps": [ { "error": { "kind": "auth", "attempts": 99 } } ] } ],
  "default": [ { "text": "Echo: {{last_user}}" } ] }"#;

/// Counts payments, and blocks tools that wait.
#[derive(Debug)]
pub(crate) struct Outside {
    pub(crate) paid: AtomicUsize,
    reached: Semaphore,
    open: Semaphore,
}

impl Outside {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            paid: AtomicUsize::new(0),
            reached: Semaphore::new(0),
            open: Semaphore::new(0),
        })
    }

    /// Waits until the tool has reached the gate.
    pub(crate) async fn reached(&self) {
        self.reached.acquire().await.unwrap().forget();
    }

    /// Lets one tool pass.
    pub(crate) fn open(&self) {
        self.open.add_permits(1);
    }

    /// Waits at the gate, as a tool does.
    pub(crate) async fn pass(&self) {
        self.reached.add_permits(1);
        self.open.acquire().await.unwrap().forget();
    }
}

pub(crate) fn desk(outside: &Arc<Outside>) -> Agent {
    let (pays, waits) = (Arc::clone(outside), Arc::clone(outside));
    let object = || json!({ "type": "object" });
    let script = SCRIPT.replace("HUGE", &"x".repeat(5_000));
    let model: Arc<dyn Model> = Arc::new(ScriptedModel::new(Script::parse(&script).unwrap()));
    Agent::builder("desk")
        .description("Serves people.")
        .model(model)
        .system_prompt("Serve.")
        .initial_state(json!({ "visits": 0 }))
        .tools(Tool::raw(
            "look",
            "Looks.",
            object(),
            |input: Value, _: ToolCx| async move {
                let seen: ToolResult<Value> = Ok(json!({ "seen": input["at"] }));
                seen
            },
        ))
        .tools(
            Tool::raw("pay", "Pays.", object(), move |_: Value, _: ToolCx| {
                let outside = Arc::clone(&pays);
                async move {
                    outside.paid.fetch_add(1, Ordering::SeqCst);
                    let paid: ToolResult<Value> = Ok(json!("5 cents"));
                    paid
                }
            })
            .approval(),
        )
        .tools(Tool::raw(
            "wait",
            "Waits at the door.",
            object(),
            move |_: Value, _: ToolCx| {
                let outside = Arc::clone(&waits);
                async move {
                    outside.pass().await;
                    let done: ToolResult<Value> = Ok(json!("done"));
                    done
                }
            },
        ))
        .tools(Tool::client_raw("ask", "Asks the client.", object()))
        .build()
        .unwrap()
}

/// A runtime with one agent, and a server over it.
pub(crate) struct Place {
    pub(crate) runtime: LocalRuntime,
    pub(crate) outside: Arc<Outside>,
    pub(crate) app: Router,
}

/// Builds a runtime over a backend.
pub(crate) fn runtime(backend: impl Into<Backend>, outside: &Arc<Outside>) -> LocalRuntime {
    runtime_at(clock(), backend, outside)
}

/// Returns a clock that stands at [`NOW`].
pub(crate) fn clock() -> Arc<VirtualClock> {
    Arc::new(VirtualClock::new(Timestamp::from_millis(NOW)))
}

fn runtime_at(
    clock: Arc<VirtualClock>,
    backend: impl Into<Backend>,
    outside: &Arc<Outside>,
) -> LocalRuntime {
    LocalRuntime::builder(backend)
        .recovery(false)
        .agent(desk(outside))
        .clock(clock)
        .ids(Arc::new(SequentialIds::new()))
        .auto_continue(true)
        .build()
}

pub(crate) fn builder(runtime: &LocalRuntime) -> ServerBuilder {
    Server::builder(Arc::new(runtime.clone()))
}

pub(crate) fn tokens() -> Tokens {
    Tokens::new()
        .token(ALICE.unwrap(), "alice")
        .unwrap()
        .token(BOB.unwrap(), "bob")
        .unwrap()
        .token(ADMIN.unwrap(), "root")
        .unwrap()
        .admin()
}

impl Place {
    /// Creates a server in memory, with the users Alice and Bob and an administrator.
    pub(crate) fn new() -> Self {
        Self::over(MemoryStore::new())
    }

    pub(crate) fn over(backend: impl Into<Backend>) -> Self {
        Self::with(clock(), backend, |server| server)
    }

    /// Creates a server in memory with this rule for double texting.
    pub(crate) fn ruled(rule: DoubleTexting) -> Self {
        let more = |server: ServerBuilder| server.double_texting(rule);
        Self::with(clock(), MemoryStore::new(), more)
    }

    /// Creates a server with metrics of runs, on this clock.
    pub(crate) fn measured(clock: Arc<VirtualClock>, backend: impl Into<Backend>) -> Self {
        let metrics = RunMetrics::new();
        let backend = metrics.watch(backend);
        Self::with(clock, backend, |server| server.run_metrics(metrics))
    }

    fn with(
        clock: Arc<VirtualClock>,
        backend: impl Into<Backend>,
        more: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        let outside = Outside::new();
        let runtime = runtime_at(clock, backend, &outside);
        let server = more(builder(&runtime).authenticate(tokens()));
        let app = server.build().unwrap().router();
        Self {
            runtime,
            outside,
            app,
        }
    }

    /// Creates a server over a SQLite file, as another process would open it.
    pub(crate) async fn sqlite(folder: &Path) -> Self {
        let store = SqliteStore::open(folder.join("helix.db")).await.unwrap();
        Self::over(store)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(ALICE, "GET", path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask(ALICE, "POST", path, Some(body)).await
    }

    pub(crate) async fn ask(
        &self,
        token: Option<&str>,
        method: &str,
        path: &str,
        body: Option<Value>,
    ) -> Answer {
        let request = request(token, method, path, body.clone());
        let answer = Answer::of(self.app.clone().oneshot(request).await.unwrap()).await;
        openapi::check(method, path, body.as_ref(), &answer).await;
        answer
    }

    /// Starts session `s` with a message and waits until the run has ended.
    pub(crate) async fn ended(&self, message: &str) {
        let body = json!({ "sessionId": "s", "agentType": "desk", "message": message });
        self.post("/start", body).await.ok();
        self.settled("s").await;
    }

    /// Waits until the latest run of a session has ended.
    pub(crate) async fn settled(&self, session: &str) {
        let id = SessionId::new(session).unwrap();
        let found = self
            .runtime
            .backend()
            .store
            .load(id.as_root())
            .await
            .unwrap();
        let run = found.unwrap().run.unwrap().id;
        self.run_ended(session, run.as_str()).await;
    }

    pub(crate) async fn run_ended(&self, session: &str, run: &str) {
        let run = StartedRun::new(
            SessionId::new(session).unwrap().as_root(),
            RunId::new(run).unwrap(),
        );
        self.runtime.ended(&run).await.unwrap();
    }
}

pub(crate) fn request(
    token: Option<&str>,
    method: &str,
    path: &str,
    body: Option<Value>,
) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    match body {
        Some(body) => request
            .header("content-type", "application/json")
            .body(Body::from(body.to_string())),
        None => request.body(Body::empty()),
    }
    .unwrap()
}

/// The response to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
}

impl Answer {
    pub(crate) async fn of(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        Self {
            status: parts.status,
            headers: parts.headers,
            bytes: body.collect().await.unwrap().to_bytes(),
        }
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// Returns the body of a success.
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{}", self.text());
        self.json()
    }

    /// Returns the status and code of an error, whose body has exactly the pinned fields.
    pub(crate) fn refused(&self) -> (u16, String) {
        let body = self.json();
        let keys: Vec<_> = body.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["code", "detail", "error"], "{body}");
        assert!(body["error"].is_string() && body["detail"].is_string());
        let code = body["code"].as_str().unwrap().to_owned();
        (self.status.as_u16(), code)
    }

    /// Asserts that the response is an error with this status and code.
    pub(crate) fn is(&self, status: u16, code: &str) {
        assert_eq!(self.refused(), (status, code.to_owned()), "{}", self.text());
    }
}
