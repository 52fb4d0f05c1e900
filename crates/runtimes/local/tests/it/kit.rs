//! Agents, gates and stores for the tests.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use helix_agents_core::agent::Agent;
use helix_agents_core::entries::Entries;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::model::{EventStream, Model, ModelRequest};
use helix_agents_core::runtime::{Backend, Handle, RuntimeError, RuntimeExt, Turn};
use helix_agents_core::session::RunRecord;
use helix_agents_core::store::{Lookup, Page};
use helix_agents_core::time::Timestamp;
use helix_agents_core::tool::{Tool, ToolCx};
use helix_agents_core::{Error, SessionId, ToolResult};
use helix_agents_models::{Script, ScriptedModel};
use helix_agents_runtime_local::{LocalRuntime, LocalRuntimeBuilder, UuidIds};
use helix_agents_store_sqlite::{SqliteConfig, SqliteStore};
use helix_agents_testkit::VirtualClock;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Semaphore;

/// The kind of store that a test uses.
pub(crate) enum Place {
    Memory(MemoryStore),
    Sqlite(TempDir),
}

impl Place {
    pub(crate) fn memory() -> Self {
        Self::Memory(MemoryStore::new())
    }

    /// Returns every kind of store; the output of a failing test names the kind.
    pub(crate) fn all() -> [Self; 2] {
        let folder = Self::Sqlite(tempfile::tempdir().unwrap());
        [Self::memory(), folder]
    }

    /// Opens the same store as another process would.
    pub(crate) async fn open(&self) -> Backend {
        self.open_with(SqliteConfig::new()).await
    }

    /// Opens the same store as a process whose host has this clock. (The memory store has no clock
    /// and uses the time that each process gives.)
    pub(crate) async fn open_at(&self, clock: &Arc<VirtualClock>) -> Backend {
        let config = SqliteConfig::new().clock(Arc::clone(clock) as _);
        self.open_with(config).await
    }

    #[expect(clippy::print_stdout, reason = "a failing test shows its store")]
    async fn open_with(&self, config: SqliteConfig) -> Backend {
        match self {
            Self::Memory(store) => {
                println!("on memory");
                store.clone().into()
            }
            Self::Sqlite(folder) => {
                println!("on sqlite");
                let file: PathBuf = folder.path().join("helix.db");
                let store = SqliteStore::open_with(file, config).await;
                store.unwrap().into()
            }
        }
    }

    /// Opens the same store with its own clock, which all processes share.
    pub(crate) async fn clocked(&self, clock: &Arc<VirtualClock>) -> Backend {
        match self {
            Self::Memory(store) => store.clone().with_clock(Arc::clone(clock) as _).into(),
            Self::Sqlite(_) => self.open_at(clock).await,
        }
    }

    /// Returns a builder of a runtime over the store, as in another process.
    pub(crate) async fn builder(&self) -> LocalRuntimeBuilder {
        LocalRuntime::builder(self.open().await).recovery(false)
    }

    /// Returns the same builder for a process and host with this clock.
    pub(crate) async fn builder_at(&self, clock: &Arc<VirtualClock>) -> LocalRuntimeBuilder {
        let builder = LocalRuntime::builder(self.open_at(clock).await).recovery(false);
        builder.clock(Arc::clone(clock) as _)
    }

    pub(crate) async fn runtime(&self) -> LocalRuntime {
        self.builder().await.build()
    }
}

/// A gate in a tool: it reports that it was reached, and blocks until it is opened.
#[derive(Debug)]
pub(crate) struct Gate {
    reached: Semaphore,
    open: Semaphore,
    entered: AtomicUsize,
    passed: AtomicUsize,
}

impl Gate {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            reached: Semaphore::new(0),
            open: Semaphore::new(0),
            entered: AtomicUsize::new(0),
            passed: AtomicUsize::new(0),
        })
    }

    pub(crate) async fn pass(&self) {
        self.entered.fetch_add(1, Ordering::SeqCst);
        self.reached.add_permits(1);
        self.open.acquire().await.unwrap().forget();
        self.passed.fetch_add(1, Ordering::SeqCst);
    }

    /// Waits until a call reaches the gate.
    pub(crate) async fn reached(&self) {
        self.reached.acquire().await.unwrap().forget();
    }

    /// Lets one call pass.
    pub(crate) fn open(&self) {
        self.open.add_permits(1);
    }

    pub(crate) fn entered(&self) -> usize {
        self.entered.load(Ordering::SeqCst)
    }

    pub(crate) fn passed(&self) -> usize {
        self.passed.load(Ordering::SeqCst)
    }
}

/// The replies of the test agent, by message.
const SCRIPT: &str = r#"{ "rules": [
  { "match": "hello", "steps": [ { "text": "Hello, how are you?", "usage": { "input": 7, "output": 5 } } ] },
  { "match": "wait", "steps": [
      { "tool_calls": [ { "id": "w1", "name": "wait", "arguments": {} } ] },
      { "text": "waited: {{tool_result:w1}}" } ] },
  { "match": "pay", "steps": [
      { "text": "May I?", "tool_calls": [ { "id": "p1", "name": "pay", "arguments": { "cents": 5 } } ],
        "usage": { "input": 10, "output": 2 } },
      { "text": "paid: {{tool_result:p1}}", "usage": { "input": 20, "output": 3 } } ] },
  { "match": "ask", "steps": [
      { "tool_calls": [ { "id": "q1", "name": "ask", "arguments": {} }, { "id": "q2", "name": "ask", "arguments": {} } ] },
      { "text": "answers: {{tool_result:q1}} {{tool_result:q2}}" } ] },
  { "match": "both", "steps": [
      { "tool_calls": [ { "id": "w1", "name": "wait", "arguments": {} }, { "id": "w2", "name": "wait", "arguments": {} } ] },
      { "text": "{{tool_result:w1}} and {{tool_result:w2}}" } ] },
  { "match": "busy", "steps": [ { "error": { "kind": "overloaded", "attempts": 1 }, "text": "not busy any more" } ] },
  { "match": "close", "steps": [ { "tool_calls": [ { "id": "f1", "name": "close", "arguments": {} } ] } ] },
  { "match": "fail", "steps": [ { "error": { "kind": "auth", "attempts": 99 } } ] },
  { "match": "boom", "steps": [
      { "tool_calls": [ { "id": "b1", "name": "boom", "arguments": {} } ] },
      { "text": "told: {{tool_result:b1}}" } ] } ] }"#;

/// The model of the test agent. Its reply is a function of the transcript, so it is the same in any
/// process.
pub(crate) fn model() -> Arc<dyn Model> {
    Arc::new(ScriptedModel::new(Script::parse(SCRIPT).unwrap()))
}

/// A model that waits at a gate before each reply.
#[derive(Debug)]
pub(crate) struct Slow(pub(crate) Arc<Gate>);

impl Model for Slow {
    fn name(&self) -> &str {
        "test/slow"
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        let reply = async move {
            self.0.pass().await;
            model().stream(request).collect::<Vec<_>>().await
        };
        Box::pin(stream::once(reply).flat_map(stream::iter))
    }

    fn supports_native_output(&self) -> bool {
        false
    }
}

/// An agent with a tool of each kind. `pay` opens the gate itself, to count its calls.
pub(crate) fn desk(gate: &Arc<Gate>) -> Agent {
    desk_with(model(), gate)
}

/// The same agent with another model.
pub(crate) fn desk_with(model: Arc<dyn Model>, gate: &Arc<Gate>) -> Agent {
    let object = || json!({ "type": "object" });
    let (waits, pays, closes) = (Arc::clone(gate), Arc::clone(gate), Arc::clone(gate));
    Agent::builder("desk")
        .model(model)
        .system_prompt("Serve.")
        .tools(Tool::raw(
            "wait",
            "Waits at the gate.",
            object(),
            move |_: Value, _: ToolCx| {
                let gate = Arc::clone(&waits);
                async move {
                    gate.pass().await;
                    let done: ToolResult<Value> = Ok(json!("done"));
                    done
                }
            },
        ))
        .tools(
            Tool::raw("pay", "Pays.", object(), move |input: Value, _: ToolCx| {
                let gate = Arc::clone(&pays);
                async move {
                    gate.open();
                    gate.pass().await;
                    let paid: ToolResult<Value> =
                        Ok(input.get("cents").cloned().unwrap_or_default());
                    paid
                }
            })
            .approval(),
        )
        .tools(
            Tool::raw(
                "close",
                "Waits at the gate and ends the turn.",
                object(),
                move |_: Value, _: ToolCx| {
                    let gate = Arc::clone(&closes);
                    async move {
                        gate.pass().await;
                        let closed: ToolResult<Value> = Ok(json!("closed"));
                        closed
                    }
                },
            )
            .finish_with(),
        )
        .tools(Tool::client_raw("ask", "Asks the client.", object()))
        .tools(Tool::raw(
            "boom",
            "Panics.",
            object(),
            |_: Value, _: ToolCx| async move {
                if true {
                    panic!("the tool fell over");
                }
                let never: ToolResult<Value> = Ok(Value::Null);
                never
            },
        ))
        .build()
        .unwrap()
}

/// A typed output of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub(crate) struct Sum {
    pub(crate) total: u64,
}

/// An agent that ends its turn with a [`Sum`].
pub(crate) fn counter() -> Agent<Sum> {
    let script = r#"{ "default": [ { "finish": { "total": 42 } } ] }"#;
    Agent::builder("counter")
        .model(Arc::new(ScriptedModel::new(Script::parse(script).unwrap())) as Arc<dyn Model>)
        .system_prompt("Count.")
        .output::<Sum>()
        .build()
        .unwrap()
}

pub(crate) fn clock() -> Arc<VirtualClock> {
    Arc::new(VirtualClock::new(Timestamp::from_millis(1_000_000)))
}

pub(crate) fn session(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

/// Returns every run of a session, oldest first.
pub(crate) async fn runs(backend: &Backend, session: &SessionId) -> Vec<RunRecord> {
    let page = backend
        .store
        .runs(session.as_root(), Lookup::Page(Page::ALL))
        .await;
    page.unwrap().items
}

/// Returns the entries over a store, for runs that no runtime performs.
pub(crate) fn entries(backend: &Backend, clock: &Arc<VirtualClock>) -> Entries {
    Entries::new(
        Arc::clone(&backend.store),
        Arc::clone(&backend.streams),
        Arc::clone(clock) as _,
        Arc::new(UuidIds::new()),
    )
}

/// The lease duration of tests that control the clock.
pub(crate) const LEASE: Duration = Duration::from_secs(10);

/// Returns a runtime with this holder name and clock, as in another process.
pub(crate) async fn timed(place: &Place, holder: &str, clock: &Arc<VirtualClock>) -> LocalRuntime {
    let builder = place.builder_at(clock).await;
    builder.holder(holder).lease(LEASE).build()
}

/// Starts a run in session `s` that stands before the gate.
pub(crate) async fn waiting(runtime: &LocalRuntime, agent: &Agent, gate: &Gate) -> Handle<String> {
    let request = Turn::new("wait").session(session("s"));
    let handle = runtime.execute(agent, request).await.unwrap();
    gate.reached().await;
    handle
}

/// The [`RuntimeError`] behind an error; `None` when there is none.
pub(crate) fn cause<T, E>(told: &Result<T, E>) -> Option<&RuntimeError>
where
    E: std::error::Error + 'static,
{
    let error = told.as_ref().err()? as &dyn std::error::Error;
    let direct = error.downcast_ref::<RuntimeError>();
    direct.or_else(|| error.downcast_ref::<Error>()?.downcast_ref())
}
