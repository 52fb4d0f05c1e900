//! Runs a command with private PostgreSQL and Redis servers, whose addresses are in its environment.
//!
//! ```sh
//! with-servers cargo nextest run -p helix-agents-store-postgres
//! ```

use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};
use helix_agents_test_servers::{
    POSTGRES, PostgresServer, PostgresSettings, REDIS, REDIS_CLUSTER, RedisCluster, RedisServer,
    RedisSettings,
};

fn main() -> Result<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let program = words
        .next()
        .context("usage: with-servers COMMAND [ARGUMENT..]")?;
    // They end when these values are dropped, or with this process.
    let postgres = PostgresServer::start(PostgresSettings::quick())?;
    let redis = RedisServer::start(RedisSettings::quick())?;
    let cluster = RedisCluster::start(&RedisSettings::quick())?;
    let status = Command::new(&program)
        .args(words)
        .env(POSTGRES, postgres.url())
        .env(REDIS, redis.url())
        .env(REDIS_CLUSTER, cluster.url())
        .status()
        .with_context(|| format!("{} cannot be started", program.display()))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}
