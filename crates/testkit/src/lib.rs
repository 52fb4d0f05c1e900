//! Test doubles, contract suites and crash tests for agents, stores and runtimes.
//!
//! A test that waits for a real clock is slow, and one with random ids cannot compare whole values.
//! This crate replaces them: [`VirtualClock`] moves only when the test advances it,
//! [`SequentialIds`] counts, [`MockModel`] gives prepared replies and records its requests,
//! [`RoutingModel`] gives every agent a model of its own, and [`block_on`] runs a future without an
//! async runtime. [`drive`] performs a run in this process, and [`ThreadRuntime`] is a runtime
//! around it. [`Scheduler`] runs tasks in an order that a seed decides, [`UnreliableStore`] fails
//! as a seed decides, and [`CrowdedHost`] performs effects more than once. [`contract`] holds the
//! cases that every store, stream, lock manager and runtime has to pass, ours and yours.
//!
//! ```
//! use std::sync::Arc;
//! use helix_agents_models::{Script, ScriptedModel};
//! use helix_agents_testkit::{MockModel, MockReply, RoutingModel};
//!
//! let echo = Script::parse(r#"{ "default": [ { "text": "Echo: {{last_user}}" } ] }"#)?;
//! let models = RoutingModel::new()
//!     .route("support", Arc::new(MockModel::replies([MockReply::text("Hello.")])))
//!     .route("researcher", Arc::new(ScriptedModel::new(echo)));
//! # Ok::<(), helix_agents_models::ScriptError>(())
//! ```

pub mod contract;
pub mod crash;
pub mod scenarios;

mod amnesiac;
mod block_on;
mod clock;
mod crowded;
mod dice;
mod events;
mod every_tool;
mod hasty_clock;
mod host;
mod ids;
mod mock;
mod narrow;
mod routing;
mod scheduler;
mod sharded;
mod threads;
mod unreliable;
mod unsteady;

pub use amnesiac::{AmnesiacHost, MAX_MESSAGE_BYTES, MAX_STATE_BYTES};
pub use block_on::block_on;
pub use clock::{HeldTime, VirtualClock};
pub use crowded::CrowdedHost;
pub use dice::Dice;
pub use events::{Events, SeenEvent};
pub use every_tool::EveryTool;
pub use hasty_clock::HastyClock;
pub use host::{Host, PlainHost, drive, drive_on};
pub use ids::SequentialIds;
pub use mock::{MockModel, MockReply, SeenRequest};
pub use narrow::NarrowStreams;
pub use routing::RoutingModel;
pub use scheduler::{Scheduler, SchedulerOutcome, Spawner, TaskId, yields};
pub use sharded::ShardedStore;
pub use threads::{Driver, ThreadRuntime};
pub use unreliable::{Faults, UnreliableStore};
pub use unsteady::UnsteadyLog;
