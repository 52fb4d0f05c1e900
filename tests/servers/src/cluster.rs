//! Private Redis clusters.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::port;
use crate::redis::{RedisServer, RedisSettings, ask};

/// A private Redis cluster of three nodes without replicas.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts three empty nodes and makes them a cluster.
    ///
    /// # Errors
    /// If Redis is not installed, or the nodes do not find each other.
    pub fn start(settings: &RedisSettings) -> Result<Self> {
        let mut nodes = Vec::new();
        for _ in 0..3 {
            let settings = settings.clone().set("cluster-enabled", "yes");
            nodes.push(RedisServer::start_on(settings, port::free_for_node()?)?);
        }
        let addresses: Vec<String> = nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port()))
            .collect();
        let mut words = vec!["--cluster", "create"];
        words.extend(addresses.iter().map(String::as_str));
        words.extend(["--cluster-replicas", "0", "--cluster-yes"]);
        let Some(first) = nodes.first() else {
            bail!("a cluster has nodes");
        };
        let said = ask(first.port(), &words)?;
        let begun = Instant::now();
        let is_up = |node: &RedisServer| {
            let info = ask(node.port(), &["CLUSTER", "INFO"]);
            info.is_ok_and(|info| info.contains("cluster_state:ok"))
        };
        while !nodes.iter().all(is_up) {
            if begun.elapsed() > Duration::from_secs(30) {
                bail!("the nodes do not make a cluster:\n{said}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Self { nodes })
    }

    /// Returns the URLs of all nodes, with commas between them.
    #[must_use]
    pub fn url(&self) -> String {
        let urls: Vec<String> = self.nodes.iter().map(RedisServer::url).collect();
        urls.join(",")
    }

    /// Returns the nodes.
    #[must_use]
    pub fn nodes(&mut self) -> &mut [RedisServer] {
        &mut self.nodes
    }
}
