//! Agents that do not lose work.
//!
//! An agent is a model, its tools and a few rules. It is written once, as plain types and documented
//! async methods; which runtime performs it, where its sessions are stored and who reads its stream are
//! decided elsewhere. Sessions survive crashes, tools wait for a person or a browser as long as it
//! takes, and streams survive a page refresh.
//!
//! This crate is what a user depends on: one name and one version for everything. This page is a tour.
//!
//! # Hello
//!
//! An [`Agent`] is built, a [`LocalRuntime`] over a [`SqliteStore`] performs it, and
//! [`execute`](RuntimeExt::execute) starts a turn. An agent without an output schema is an
//! `Agent<String>`.
//!
//! ```no_run
//! use helix_agents::prelude::*;
//!
//! # async fn hello() -> Result<(), Error> {
//! let agent = Agent::builder("assistant").model("anthropic/claude-sonnet-4-5").system_prompt("Be brief.").build()?;
//! let runtime = LocalRuntime::new(SqliteStore::open("helix.db").await?);
//! let answer: String = runtime.execute(&agent, "What is a fence?").await?.output().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A pause, a failure or an interruption is an error of [`output`](Handle::output). A name like
//! `anthropic/claude-sonnet-4-5` is looked up in the runtime
//! ([`LocalRuntimeBuilder::model`]); an agent whose model nobody knows is refused when it is first used.
//!
//! A runtime recovers by itself: runs whose process died, and sessions whose time is over. Agents that
//! shall be recovered from the start are registered: `LocalRuntime::builder(store).agent(support).build()`.
//!
//! # Streaming
//!
//! [`text`](Handle::text) gives what the agent says, [`chunks`](Handle::chunks) everything that a reader
//! is told, and [`RuntimeExt::chunks`] the rest to a reader that comes back. The streams own what they
//! need, so they can be the body of an HTTP answer.
//!
//! ```
//! use helix_agents::prelude::*;
//!
//! async fn tell(runtime: &dyn Runtime, agent: &Agent) -> Result<(), Error> {
//!     let run = runtime.execute(agent, "Tell me a story.").await?;
//!     let mut text = run.text();
//!     while let Some(piece) = text.next().await {
//!         print!("{}", piece?);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! A model call that fails in the middle of a reply is retried, and its text comes again from the beginning.
//! A user interface reads [`text_events`](Handle::text_events), which also says where to remove the text of
//! the failed attempt. [`messages`](RuntimeExt::messages) gives the finished messages of a session, and
//! [`sessions`](RuntimeExt::sessions) lists sessions. The guide `docs/streaming.md` has the rest.
//!
//! After a restart, [`handle`](RuntimeExt::handle) gives the latest run of a session, and `None` for a new one. Its
//! [`outcome`](Handle::outcome) waits for a run that is being recovered; after a pause, answer what is still
//! pending and [`resume`](RuntimeExt::resume).
//!
//! # The next message
//!
//! [`send`](RuntimeExt::send) starts the next turn of a session. Whatever else can be said about a turn
//! travels in a [`Turn`]. Its user, metadata and tags belong to the session: later turns see them, too.
//!
//! ```
//! use helix_agents::prelude::*;
//!
//! async fn talk(runtime: &dyn Runtime, agent: &Agent, session: &SessionId) -> Result<(), Error> {
//!     let run = runtime.send(agent, session, "And shorter?").await?;
//!     run.output().await?;
//!     let turn = Turn::new("Hi").session("chat-7").user("alice").metadata("tenant", "acme").tag("beta");
//!     let run = runtime.execute(agent, turn).await?;
//!     Ok(())
//! }
//! ```
//!
//! # People in the loop
//!
//! A pause is an [`Outcome`]. What waits is plain data; the process may end, and somebody answers next
//! week, from another one.
//!
//! ```
//! use helix_agents::prelude::*;
//! # async fn notify(call: &helix_agents::PendingCall) {}
//!
//! async fn resolve(runtime: &dyn Runtime, support: &Agent) -> Result<(), Error> {
//!     let run = runtime.execute(support, "Order 42 arrived broken.").await?;
//!     match run.outcome().await? {
//!         Outcome::Done(answer) => println!("{answer}"),
//!         Outcome::Suspended(pause) => for call in pause.pending() { notify(call).await },
//!         Outcome::Interrupted => println!("interrupted"),
//!         Outcome::Failed(error) => return Err(error),
//!     }
//!     Ok(())
//! }
//!
//! // Elsewhere, next week.
//! async fn approve_all(runtime: &dyn Runtime) -> Result<(), Error> {
//!     for call in runtime.pending(Pending::of_user("alice")).await? {
//!         runtime.submit(call.approve().by("bob")).await?;
//!     }
//!     Ok(())
//! }
//! ```
//!
//! Whoever answers resumes the session ([`resume`](RuntimeExt::resume)), unless the runtime was built with
//! [`auto_continue`](LocalRuntimeBuilder::auto_continue). The guide
//! `docs/people-in-the-loop.md` has the rest.
//!
//! # Tools with what they need
//!
//! A tool is a documented async method of a [`toolset`]: its parameters are the schema, shared resources
//! are fields, and a [`ToolCx`] has what belongs to the request.
//!
//! ```
//! use helix_agents::prelude::*;
//! # use serde::{Deserialize, Serialize};
//! # #[derive(Default)] struct Pool;
//! # impl Pool {
//! #     async fn refund(&self, tenant: &str, order: &str, cents: u64, key: &str) -> std::io::Result<Receipt> {
//! #         Ok(Receipt { id: format!("{tenant}-{order}-{cents}-{key}") })
//! #     }
//! # }
//! # #[derive(Serialize)] struct Receipt { id: String }
//! # #[derive(Default, Serialize, Deserialize)] struct Cart { refunds: u32 }
//!
//! struct Shop {
//!     db: Pool,
//! }
//!
//! #[toolset]
//! impl Shop {
//!     /// Refund part or all of an order.
//!     #[tool(approval_if = |a| a.cents > 10_000)]
//!     async fn refund(&self, cx: &ToolCx, order_id: String, cents: u64) -> ToolResult<Receipt> {
//!         let tenant: String = cx.metadata("tenant")?;
//!         cx.update_state(|s: &mut Cart| s.refunds += 1)?;
//!         Ok(self.db.refund(&tenant, &order_id, cents, cx.idempotency_key()).await?)
//!     }
//! }
//!
//! let support = Agent::builder("support").model("anthropic/claude-sonnet-4-5").tools(Shop { db: Pool }).build()?;
//! assert_eq!(support.tools().len(), 1);
//! # Ok::<(), Error>(())
//! ```
//!
//! `?` on any error tells the model that the tool failed and logs the rest; [`ToolError::tell_model`]
//! chooses the words. [`AgentHooks`] see every model call, tool, message and state change.
//! The guide
//! `docs/agents-and-tools.md` has all options.
//!
//! # Typed output
//!
//! [`output::<Report>()`](AgentBuilder::output) makes an `Agent<Report>`, and the output of its run is a
//! `Report`. Its schema is derived with `schemars`: a dependency of your own, or [the one of this
//! crate](schemars).
//!
//! ```
//! use helix_agents::prelude::*;
//! # use schemars::JsonSchema;
//! # use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Report {
//!     summary: String,
//! }
//!
//! async fn report(runtime: &dyn Runtime) -> Result<Report, Error> {
//!     let agent = Agent::builder("analyst").model("anthropic/claude-sonnet-4-5").output::<Report>().build()?;
//!     runtime.execute(&agent, "How was the week?").await?.output().await
//! }
//! ```
#![cfg_attr(
    feature = "server",
    doc = r#"
# HTTP in your own app

[`server::router`] is an axum router over any runtime, for those whom
[`Tokens`](server::Tokens) know.

```no_run
use helix_agents::prelude::*;

# fn app(runtime: LocalRuntime) -> Result<axum::Router, Error> {
let app = axum::Router::new().nest("/agents", helix_agents::server::router(runtime, Tokens::from_env()?));
# Ok(app)
# }
```
"#
)]
//!
//! # A model of your own
//!
//! A [`Model`] is one method that maps a request to a stream of events.
//! [`Model::from_fn`] makes one of an async function that returns a whole reply.
//!
//! ```
//! use helix_agents::ModelReply;
//! use helix_agents::prelude::*;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! let model = Model::from_fn(|input| async move {
//!     Ok(ModelReply::text(format!("You said: {}", input.last_user_text())))
//! });
//! let echo = Agent::builder("echo").model(model).build()?;
//! let runtime = LocalRuntime::new(MemoryStore::new());
//! assert_eq!(runtime.execute(&echo, "Hello.").await?.output().await?, "You said: Hello.");
//! # Ok(())
//! # }
//! ```
#![cfg_attr(
    feature = "testing",
    doc = r#"
# Tests of your agent

[`testing`] has a model that says what it is told, a runtime in memory, and
[`CrashTest`](testing::CrashTest), which kills your agent at every point and compares what is left.

```
use helix_agents::prelude::*;

# struct Shop;
# #[toolset]
# impl Shop {
#     /// Refund an order.
#     #[tool]
#     async fn refund(&self, order_id: String, cents: u64) -> ToolResult<String> {
#         Ok(format!("refunded {cents} of {order_id}"))
#     }
# }
# #[tokio::main(flavor = "current_thread")]
# async fn main() -> Result<(), Error> {
let support = Agent::builder("support").model("anthropic/claude-sonnet-4-5").tools(Shop).build()?;

let model = MockModel::new().calls("refund", json!({"order_id": "42", "cents": 5000})).says("Refunded.");
let run = TestRuntime::new().execute(&support.with_model(model), "broken").await?;
assert_eq!(run.output().await?, "Refunded.");
CrashTest::of(&support).assert_survives().await;
# Ok(())
# }
```

The guide `docs/testing.md` has the rest.
"#
)]
//!
//! # Errors
//!
//! Everything that users call gives one [`Error`]: a [`code`](Error::code), whether trying again may help
//! ([`is_retryable`](Error::is_retryable)), the session and the run it is about, and its cause.
//!
//! # Features
//!
//! - `genai`: the long tail of providers, as `models::genai`.
//! - `models` (on by default): the models, among them one that plays a script.
//! - `runtime-local` (on by default): [`LocalRuntime`], which runs agents in your own process.
//! - `store-sqlite` (on by default): [`SqliteStore`], which keeps sessions in a file. [`MemoryStore`] is
//!   always there.
//! - `store-postgres`: `PostgresStore`, and `store-redis`: `RedisStore`, which processes on several hosts share.
//! - `server`: the agent and chat routes, as a router to serve or to nest, and the bridge to the AI SDK as `wire`.
//! - `testing`: the test kit, as `helix_agents::testing`.
//!
//! [`core`] is all of `helix-agents-core`, for those who write a loop, a store or a runtime.

#[doc(hidden)]
pub mod __private;
#[cfg(all(
    doctest,
    feature = "runtime-local",
    feature = "server",
    feature = "store-sqlite"
))]
mod guides;
pub mod prelude;
#[cfg(feature = "testing")]
pub mod testing;

pub use async_trait::async_trait;
pub use helix_agents_core as core;
pub use helix_agents_core::agent::{AgentBuilder, AnyAgent, ModelRef};
pub use helix_agents_core::budget::{Budget, BudgetScope, BudgetUnit, Budgets};
pub use helix_agents_core::context::{ContextPolicy, StandIn};
pub use helix_agents_core::entries::{
    Continuation, DoubleTexting, ExpectedSession, Submitted, ToolAnswer,
};
pub use helix_agents_core::hooks::{
    AfterModelCall, AfterTool, AgentComplete, AgentFail, AgentHooks, AgentResumed, AgentStart,
    AgentSuspended, BeforeModelCall, BeforeTool, HookCx, HookResult, MessageAdded, StateChange,
    SuspendReason,
};
pub use helix_agents_core::memory::MemoryStore;
pub use helix_agents_core::message::{AssistantMessage, FilePart, ToolCall, UserMessage};
pub use helix_agents_core::model::{
    EventStream, MessageFormat, Model, ModelConfig, ModelError, ModelErrorKind, ModelEvent,
    ModelInput, ModelLimits, ModelReply, ModelRequest, TokenUsage, ToolChoice, ToolSchema,
};
pub use helix_agents_core::runtime::{
    Backend, Branch, ChunkStream, Handle, Messages, NoOutput, Outcome, Pause, Pending, Resume,
    Runtime, RuntimeExt, Stop, TextEvent, TextEventStream, TextStream, Turn,
};
pub use helix_agents_core::session::{
    PendingCall, PendingKind, RunRecord, RunStatus, SessionState, SessionStatus, SubmissionOutcome,
    WaitingCall,
};
pub use helix_agents_core::step::{StepResult, StopReason};
pub use helix_agents_core::store::{Page, Paged, SessionQuery, Sessions};
pub use helix_agents_core::stream::{Chunk, ChunkPayload, Sequence, StoredChunk, StreamStatus};
pub use helix_agents_core::tool::{
    ApprovalMode, ExecutedBy, OnUnknown, PersistentAgent, Reconciled, ToolBuilder, ToolSpec,
};
pub use helix_agents_core::usage::{CustomUsage, UsageRollup};
pub use helix_agents_core::{
    Agent, AgentRegistry, CallId, CheckpointId, DefinitionError, Error, ErrorCode, ErrorRecord,
    IdError, IntoTools, Message, RunId, SessionId, Tool, ToolCx, ToolError, ToolResult, Transcript,
    UserId,
};
pub use helix_agents_macros::{tool, toolset};
#[cfg(feature = "models")]
pub use helix_agents_models as models;
#[cfg(feature = "runtime-local")]
pub use helix_agents_runtime_local::{
    LocalRuntime, LocalRuntimeBuilder, ShutdownReport, SweepReport, SystemClock, UuidIds, blocking,
};
#[cfg(feature = "server")]
pub use helix_agents_server as server;
#[cfg(feature = "store-postgres")]
pub use helix_agents_store_postgres::{PostgresConfig, PostgresStore};
#[cfg(feature = "store-redis")]
pub use helix_agents_store_redis::{Durability, RedisConfig, RedisStore};
#[cfg(feature = "store-sqlite")]
pub use helix_agents_store_sqlite::{SqliteConfig, SqliteStore};
#[cfg(feature = "server")]
pub use helix_agents_wire as wire;
/// The crate of JSON schemas that this version of the library uses. A derive does not find it here by itself:
/// depend on `schemars` 1, or tell every derive where it is.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::schemars::JsonSchema;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// #[schemars(crate = "helix_agents::schemars")]
/// struct Report {
///     summary: String,
/// }
///
/// let analyst = Agent::builder("analyst").model("anthropic/claude-sonnet-4-5").output::<Report>().build()?;
/// # Ok::<(), Error>(())
/// ```
pub use schemars;
pub use serde_json;
