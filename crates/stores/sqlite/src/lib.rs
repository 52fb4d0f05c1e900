//! Sessions, streams and locks in one SQLite file.
//!
//! The embedded default: no server, one file, and everything an agent must not lose survives the
//! end of the process and a loss of power. Several processes may use the same file at once. A commit
//! of one session is one transaction made by the caller itself; when many sessions commit at once,
//! their commits share a transaction and with it the wait for the disk.
//!
//! ```
//! # helix_agents_testkit::block_on(async {
//! use helix_agents_core::store::{NewSession, SessionStore, Sessions};
//! use helix_agents_core::time::Timestamp;
//! use helix_agents_store_sqlite::SqliteStore;
//! use helix_agents_testkit::VirtualClock;
//!
//! let store = SqliteStore::in_memory().await?;
//! let clock = VirtualClock::new(Timestamp::from_millis(1));
//! let id = "order-42".parse()?;
//! Sessions::new(&store, &clock).create_session(&id, NewSession::of("support")).await?;
//! assert_eq!(store.list(&Default::default()).await?.total, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

mod answered_calls;
mod backlog;
mod change_log;
mod change_notifier;
mod change_poller;
mod checkpoints;
mod commit;
mod condense;
mod config;
mod connection;
mod content;
mod delete;
mod due;
mod error;
mod extras;
mod headers;
mod json;
mod key;
mod locks;
mod messages;
mod oneshot;
mod open_steps;
mod operation_error;
mod origins;
mod packed_chunks;
mod packed_messages;
mod packed_usage;
mod pending;
mod process;
mod query;
mod readers;
mod row_writer;
mod runs;
mod schema;
mod sessions;
mod shared_reads;
mod short_id;
mod state_cache;
mod states;
mod store;
mod stream_manager;
mod streams;
mod usage;
mod wal;
mod writable;
mod write_cache;
mod write_connection;
mod write_request;
mod writer;
mod writer_state;

pub use config::{SqliteConfig, Synchronous};
pub use error::{Error, Result};
pub use store::SqliteStore;
