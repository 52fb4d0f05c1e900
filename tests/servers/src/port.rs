//! Free ports on loopback.

use std::net::TcpListener;

use anyhow::{Context as _, Result};

/// Returns a port that nobody listens on at this moment.
pub(crate) fn free() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("no free port on loopback")?;
    Ok(listener.local_addr()?.port())
}

/// Returns a port for a node of a Redis cluster, which listens 10,000 above it, too.
pub(crate) fn free_for_node() -> Result<u16> {
    for _ in 0..100 {
        let port = free()?;
        let Some(bus) = port.checked_add(10_000) else {
            continue;
        };
        if TcpListener::bind(("127.0.0.1", bus)).is_ok() {
            return Ok(port);
        }
    }
    anyhow::bail!("no free pair of ports on loopback for a node of a cluster")
}
