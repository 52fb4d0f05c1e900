//! Private servers for tests.
//!
//! A test that needs an ordinary server uses the shared one, whose address `./test` puts into the environment
//! ([`shared`]). A test that kills or restarts a server starts one of its own ([`PostgresServer`], [`RedisServer`],
//! [`RedisCluster`]). All of them listen on loopback, on free ports, keep their data in temporary folders, and end
//! with the process that started them. [`Proxy`] stands between a client and a server and breaks their connections.

mod cluster;
mod port;
mod postgres;
mod programs;
mod proxy;
mod redis;
mod server;
mod shared;

pub use cluster::RedisCluster;
pub use postgres::{PostgresServer, PostgresSettings};
pub use proxy::Proxy;
pub use redis::{RedisServer, RedisSettings};
pub use shared::{POSTGRES, REDIS, REDIS_CLUSTER, shared, skips_without};
