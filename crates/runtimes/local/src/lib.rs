//! Runs agents in your own process, on any store.
//!
//! An agent that waits for a person for a day should not need a cluster. This crate performs runs
//! as tasks of the tokio runtime you already have; all durable data is in the store, so the
//! process may end at any time and another one continues. The rules of a run are in [`decide`] and
//! [`perform`], which this crate calls.
//!
//! ```
//! # use helix_agents_models::{Script, ScriptedModel};
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use helix_agents_core::Agent;
//! use helix_agents_core::memory::MemoryStore;
//! use helix_agents_core::runtime::RuntimeExt;
//! use helix_agents_runtime_local::LocalRuntime;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let script = Script::parse(r#"{ "default": [ { "text": "Hello, {{last_user}}." } ] }"#)?;
//! # let model = Arc::new(ScriptedModel::new(script));
//! let greeter = Agent::builder("greeter").model(model).system_prompt("Greet.").build()?;
//! // Use a `SqliteStore` to keep sessions after the process ends.
//! let runtime = LocalRuntime::new(MemoryStore::new());
//!
//! let run = runtime.execute(&greeter, "Ada").await?;
//! assert_eq!(run.output().await?, "Hello, Ada.");
//!
//! let report = runtime.shutdown(Duration::from_secs(10)).await;
//! assert_eq!(report.busy, 0);
//! # Ok(())
//! # }
//! ```
//!
//! # Behaviour
//!
//! - **A handle is dropped**: the run continues, and [`LocalRuntime::shutdown`] waits for it.
//! - **A run pauses**: its task ends. Answer the calls and resume, in this process or another. With
//!   [`auto_continue`](LocalRuntimeBuilder::auto_continue) the last answer resumes the session
//!   automatically.
//! - **The process is killed**: each run holds a lease, which is renewed while it is performed. Once
//!   it has lapsed, any runtime that has the agent takes the run over, by itself
//!   ([`recovery`](LocalRuntimeBuilder::recovery)). Calls that had a result are not run again.
//! - **The store cannot be reached for longer than a lease**: effects in progress continue, and no new
//!   one is started before the lease is renewed under the same fence.
//! - **The process is shut down**: runs finish the step they are in, give up their leases, and are
//!   taken over at once.
//! - **Two processes perform one run**: they cannot. The one that was taken over can no longer
//!   write, and its handle ends with [`RuntimeError::Superseded`].
//!
//! [`decide`]: helix_agents_core::machine::decide
//! [`perform`]: helix_agents_core::perform::perform
//! [`RuntimeError::Superseded`]: helix_agents_core::runtime::RuntimeError::Superseded

mod agents;
mod blocking;
mod builder;
mod children;
mod clock;
mod deliver;
mod driver;
mod ids;
mod lease;
mod runtime;
mod shutdown;
mod sweep;
mod table;
mod tidy;
mod under_way;

pub use blocking::blocking;
pub use builder::LocalRuntimeBuilder;
pub use clock::SystemClock;
pub use ids::UuidIds;
pub use runtime::LocalRuntime;
pub use shutdown::ShutdownReport;
pub use sweep::SweepReport;
