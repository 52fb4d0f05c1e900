//! Sessions in PostgreSQL, their streams in Redis.
//!
//! Commits leave their chunks in an outbox of the database, and the library relays them; deltas go to Redis alone.
//!
//! ```no_run
//! use helix_agents_core::runtime::Backend;
//! use helix_agents_store_postgres::{PostgresConfig, PostgresStore};
//! use helix_agents_store_redis::RedisStreams;
//!
//! # async fn open() -> Result<Backend, Box<dyn std::error::Error>> {
//! let config = PostgresConfig::new().with_outbox();
//! let store = PostgresStore::connect_with("postgres://helix@db/agents", config).await?;
//! let streams = RedisStreams::open("redis://cache:6379").await?;
//! let backend = Backend::from(store.clone())
//!     .streaming_to(store, streams.clone())
//!     .retained_by(streams);
//! # Ok(backend)
//! # }
//! ```
