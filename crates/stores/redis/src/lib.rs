//! Sessions, streams and locks on a Redis server or cluster.
//!
//! For several processes and hosts that share their sessions. It needs Redis 7.0 or later, or a server that is
//! compatible with it.
//!
//! # What is stored
//!
//! The store is divided into 64 shards. A root, the sessions under it and its stream are in one shard, whose keys have
//! one hash tag (`{helix:07}`), so a cluster keeps them on one node. A session has a hash with its header, one with its
//! documents (runs, checkpoints, pending calls, versions of the state), a sorted set of messages with one member for
//! each step, and a few lists. A stream is a Redis Stream with one entry for each batch of chunks.
//!
//! A commit is one call of one script, which compares the generations of the headers on which the commit was planned,
//! and then performs plain commands. It knows no rules: those are core's [`plan`](helix_agents_core::store::plan).
//! Headers are remembered between commits, so that the usual commit needs one command.
//!
//! # What is durable
//!
//! What the server promises: see [`Durability`]. A commit is acknowledged when the server has answered, so with
//! `appendonly yes` and `appendfsync always` it is on the disk. A failover to a replica may lose acknowledged commits,
//! because Redis copies them afterwards.
//!
//! # Which settings matter
//!
//! - `maxmemory-policy noeviction`. Any other policy is refused, because it would remove sessions.
//! - `appendonly` and `appendfsync`, which are compared with [`RedisConfig::durability`].
//! - `maxmemory`: a commit that finds no memory is refused as a whole
//!   ([`StoreError::Full`](helix_agents_core::store::StoreError::Full)); sessions can still be deleted.
//!
//! # What the user of the server may do
//!
//! All commands on the keys that begin with `{helix:`, and `INFO`, `CONFIG GET` and the channel `helix:changes`
//! (`~{helix:* &helix:changes +@all`). Without `INFO` and `CONFIG GET`, as on managed servers, the store is opened
//! with [`RedisConfig::trust_server`]. Without the channel it works, and those who wait for a change look every 100 ms.
//! A user who lacks another command is refused.
//!
//! # While a cluster moves keys
//!
//! While the slot of a shard moves to another node, reads and commits of that shard are unavailable
//! ([`StoreError::Unavailable`](helix_agents_core::store::StoreError::Unavailable)) and nothing of them is made. They
//! work again by themselves when all of its keys have moved. A cluster is enlarged slot by slot, so this concerns one
//! shard of 64 at a time.
//!
//! # What expires
//!
//! No key of a session has a time to live, so that none is left without the others. A session with an `expires_at` is
//! deleted as a whole, with its children and its stream, by the process that looks for due work; the deltas of past
//! turns go after [`RedisConfig::keep_deltas`].
//!
//! # Only streams
//!
//! Where sessions are in another store with an outbox, like PostgreSQL, [`RedisStreams`] keeps their streams. Entries of
//! the outbox are relayed by one command for all that wait, each once; writers of deltas are judged by what was relayed.
//!
//! Operations must run within a tokio runtime.

mod acknowledged;
mod batches;
mod changes;
mod commit;
mod config;
mod directory;
mod documents;
mod due;
mod error;
mod failure;
mod gates;
mod head;
mod index;
mod keys;
mod link;
mod locks;
mod log;
mod messages;
mod nodes;
mod opening;
mod query;
mod reading;
mod remembered;
mod reply;
mod rows;
mod script;
mod server_clock;
mod sessions;
mod states;
mod store;
mod stream_manager;
mod stream_store;
mod streams;
mod turns;
mod writable;

pub use config::{Durability, RedisConfig};
pub use error::{Error, Result};
pub use store::RedisStore;
pub use stream_store::RedisStreams;
