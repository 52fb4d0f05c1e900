//! Sessions, streams and locks in a PostgreSQL database, shared by any number of processes.
//!
//! # What is stored
//!
//! Everything is in one schema, `helix` unless another is named: sessions with their messages, states, runs and
//! checkpoints, streams, due work, and locks. Opening a store creates the schema, or brings it up to date. Documents
//! and ids are `bytea` columns, since a `text` column cannot hold every text.
//!
//! # Commits
//!
//! A commit is one round trip. The store remembers the headers that it read or wrote last, judges the commit on them
//! ([`plan`](helix_agents_core::store::plan)), and sends one statement: a call of the function `commit` of the schema,
//! which locks the headers in the order of their names, compares their numbers and versions, and writes. The function
//! has no rules of its own. If a header is another one it writes nothing, and the store reads the headers and judges
//! again; it never returns a refusal that was judged on remembered headers. The isolation level is READ COMMITTED: the
//! locks of the headers are what makes commits happen one after another.
//!
//! A read is made again if its connection is lost; a write never is. It is reported as unavailable, since it may have
//! been made, and the library looks before it repeats a commit. An append of deltas that the server has not come to by
//! then is forbidden by that look, so that none is made twice.
//!
//! # What is durable
//!
//! A commit is as durable as the server is told to make it. Keep `fsync`, `full_page_writes` and `synchronous_commit`
//! on, as they are by default. With `synchronous_commit = off` the last commits may be lost in a crash of the server.
//! For a fail-over without loss the server needs a synchronous standby.
//!
//! # Time
//!
//! Leases and due work are judged by the clock of the database. A commit that asks whether a lease has lapsed reads the
//! time with its headers, after it began. Other commits use the time that the last answers carried, and the monotonic
//! clock of the process since: it is not behind the real one, and ahead by at most the time of a round trip, so a lease
//! lasts at least as long as its holder believes.
//!
//! # Changes
//!
//! Who waits for a stream or a stop is woken at once by writes of this process, and by those of other processes with
//! `LISTEN` and `NOTIFY`. Notifications are gathered and sent on a connection of their own after the commits, since
//! PostgreSQL takes a lock of the whole database for them. Nothing depends on them: while somebody waits, the store
//! looks for changes every 100 ms, with one statement for all who wait.
//!
//! # Streams elsewhere
//!
//! With [`PostgresConfig::with_outbox`] a commit leaves its chunks in an outbox instead, in the same round trip, and a
//! [`Relayed`](helix_agents_core::stream::Relayed) store relays them. Entries of a root have numbers that grow in the
//! order of its commits: each is drawn under a lock of the root that is held until the commit is visible. Before each
//! batch of deltas the outbox is looked at; those of all sessions of a process share the looks, one statement at a time.
//!
//! # Settings that matter
//!
//! - The URL is `postgres://user:password@host:port/database`, with the parameters of libpq: `sslmode` (`disable`,
//!   `prefer`, `require`, `verify-ca`, `verify-full`), `sslrootcert`, `connect_timeout`, and `host` for a folder with a
//!   unix socket. As in libpq only the `verify` modes, or an `sslrootcert`, verify the certificate of the server. Here all
//!   of these verify its name, too, and insist on TLS unless `sslmode` is `disable`.
//! - [`PostgresConfig::connections`]: 16 by default, and up to two for notifications.
//! - Behind pgbouncer with `pool_mode = transaction`: switch [prepared statements](PostgresConfig::prepared_statements)
//!   off, and give the direct address as [`PostgresConfig::listen_url`], or switch
//!   [notifications](PostgresConfig::notifications) off.
//!
//! ```no_run
//! use helix_agents_core::store::SessionStore;
//! use helix_agents_store_postgres::{PostgresConfig, PostgresStore};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let config = PostgresConfig::new().schema("support");
//! let url = "postgres://helix@db.example/agents?sslmode=verify-full";
//! let store = PostgresStore::connect_with(url, config).await?;
//! println!("{} sessions", store.list(&Default::default()).await?.total);
//! # Ok(())
//! # }
//! ```

mod address;
mod commit;
mod config;
mod convert;
mod cuts;
mod database;
mod due;
mod error;
mod given_up;
mod headers;
mod key_blocks;
mod listeners;
mod load;
mod locks;
mod notifications;
mod operation_error;
mod ops;
mod outbox;
mod outbox_reads;
mod outbox_removals;
mod pages;
mod poller;
mod query;
mod remembered;
mod schema;
mod server_clock;
mod session_rows;
mod sessions;
mod states;
mod store;
mod stream_manager;
mod stream_removals;
mod stream_rows;
mod streams;
mod tls;
mod told;
mod turns;
mod writable;
mod write;
mod write_plan;

pub use config::PostgresConfig;
pub use error::{Error, Result};
pub use store::PostgresStore;
