//! The names that most programs need, for one import: `use helix_agents::prelude::*`.

pub use futures_util::StreamExt;
pub use helix_agents_core::agent::Agent;
pub use helix_agents_core::error::Error;
pub use helix_agents_core::id::{RunId, SessionId, UserId};
pub use helix_agents_core::memory::MemoryStore;
pub use helix_agents_core::model::Model;
pub use helix_agents_core::runtime::{
    Handle, Outcome, Pending, Resume, Runtime, RuntimeExt, Stop, Turn,
};
pub use helix_agents_core::tool::{Tool, ToolCx, ToolError, ToolResult};
pub use helix_agents_macros::{tool, toolset};
#[cfg(feature = "runtime-local")]
pub use helix_agents_runtime_local::LocalRuntime;
#[cfg(feature = "server")]
pub use helix_agents_server::Tokens;
#[cfg(feature = "store-postgres")]
pub use helix_agents_store_postgres::PostgresStore;
#[cfg(feature = "store-redis")]
pub use helix_agents_store_redis::RedisStore;
#[cfg(feature = "store-sqlite")]
pub use helix_agents_store_sqlite::SqliteStore;
pub use serde_json::json;

#[cfg(feature = "testing")]
pub use crate::testing::{CrashTest, MockModel, TestRuntime};
