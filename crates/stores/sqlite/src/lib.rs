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

mod answer;
mod answered;
mod backlog;
mod bells;
mod checkpoints;
mod chunks;
mod commit;
mod config;
mod connection;
mod content;
mod delete;
mod desk;
mod due;
mod error;
mod fail;
mod family;
mod headers;
mod json;
mod key;
mod known;
mod locks;
mod log;
mod messages;
mod open_steps;
mod pack;
mod pending;
mod poll;
mod process;
mod query;
mod readers;
mod rows;
mod runs;
mod schema;
mod sessions;
mod slot;
mod state_cache;
mod states;
mod store;
mod stream_manager;
mod streams;
mod ticket;
mod told;
mod usage;
mod writable;
mod writer;

pub use config::{SqliteConfig, Synchronous};
pub use error::{Error, Result};
pub use store::SqliteStore;
