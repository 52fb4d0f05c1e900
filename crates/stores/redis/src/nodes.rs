//! The servers of a store: one, or those of a cluster, and which of them has a shard.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use redis::{Client, Cmd, ConnectionAddr, RedisError, ServerErrorKind, Value};

use crate::config::RedisConfig;
use crate::failure::{Failure, Result, is_lost};
use crate::keys::{Keys, Shard, slot};
use crate::link::Link;
use crate::reply;
use crate::script::{Arguments, Prepared};

/// How often a command is sent to another node because a shard has moved. It did nothing where it was refused.
const MOVES: usize = 8;

/// The servers of a store.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// The servers that were named, of which any may answer which there are.
    seeds: Vec<Arc<Link>>,
    is_cluster: bool,
    settings: RedisConfig,
    slots: Vec<u16>,
    owners: RwLock<Owners>,
    /// The owners are asked for again before the next command.
    is_stale: AtomicBool,
}

#[derive(Debug, Default)]
struct Owners {
    /// The link of each shard.
    by_shard: Vec<Arc<Link>>,
    by_address: BTreeMap<String, Arc<Link>>,
}

impl Nodes {
    pub(crate) fn new(clients: Vec<Client>, config: &RedisConfig, keys: &Keys) -> Self {
        let link = |client| {
            Arc::new(Link::new(
                client,
                config.connect_timeout,
                config.response_timeout,
            ))
        };
        let seeds: Vec<_> = clients.into_iter().map(link).collect();
        let slots = keys.shards().map(|shard| slot(keys.tag(shard)));
        let is_cluster = config.cluster || seeds.len() > 1;
        Self {
            seeds,
            is_cluster,
            settings: config.clone(),
            slots: slots.collect(),
            owners: RwLock::default(),
            is_stale: AtomicBool::new(is_cluster),
        }
    }

    /// The addresses that were named, for errors.
    pub(crate) fn address(&self) -> String {
        let all: Vec<_> = self.seeds.iter().map(|link| link.address()).collect();
        all.join(", ")
    }

    /// Every server that has a shard.
    pub(crate) async fn all(&self) -> Result<Vec<Arc<Link>>> {
        if !self.is_cluster {
            return Ok(self.seeds.clone());
        }
        self.refresh().await?;
        let owners = self.owners.read().unwrap_or_else(PoisonError::into_inner);
        let used = owners
            .by_address
            .values()
            .filter(|link| owners.by_shard.iter().any(|owner| Arc::ptr_eq(owner, link)));
        Ok(used.cloned().collect())
    }

    /// A server to hear messages from, another one at each attempt.
    pub(crate) fn any(&self, attempt: usize) -> Option<Arc<Link>> {
        let owners = self.owners.read().unwrap_or_else(PoisonError::into_inner);
        let all = if owners.by_shard.is_empty() {
            &self.seeds
        } else {
            &owners.by_shard
        };
        all.get(attempt % all.len().max(1)).cloned()
    }

    async fn owner(&self, shard: Shard) -> Result<Arc<Link>> {
        let none = || Failure::unavailable("no node of the cluster has this part of the keys");
        if !self.is_cluster {
            return self.seeds.first().cloned().ok_or_else(none);
        }
        if self.is_stale.load(Ordering::Acquire) {
            self.refresh().await?;
        }
        let owners = self.owners.read().unwrap_or_else(PoisonError::into_inner);
        owners
            .by_shard
            .get(usize::from(shard.0))
            .cloned()
            .ok_or_else(none)
    }

    /// Asks the nodes which of them has which slots.
    async fn refresh(&self) -> Result<()> {
        self.is_stale.store(false, Ordering::Release);
        let mut command = redis::cmd("CLUSTER");
        command.arg("SLOTS");
        let known: Vec<_> = {
            let owners = self.owners.read().unwrap_or_else(PoisonError::into_inner);
            owners.by_address.values().cloned().collect()
        };
        let mut last = Failure::unavailable("no node of the cluster is known");
        for link in self.seeds.iter().chain(&known) {
            match link.send(&command).await {
                Ok(answer) => match self.learn(answer, link) {
                    Ok(()) => return Ok(()),
                    // It knows less than it should; another may know more.
                    Err(failure) => last = failure,
                },
                Err(error) => last = error.into(),
            }
        }
        self.is_stale.store(true, Ordering::Release);
        Err(last)
    }

    fn learn(&self, answer: Value, from: &Link) -> Result<()> {
        let mut ranges = Vec::new();
        for range in reply::list(answer)? {
            let mut range = reply::list(range)?.into_iter();
            let mut next = || range.next().unwrap_or_default();
            let (low, high) = (reply::number(next())?, reply::number(next())?);
            let mut node = reply::list(next())?.into_iter();
            let mut next = || node.next().unwrap_or_default();
            let (host, port) = (reply::text(next())?, reply::number(next())?);
            ranges.push((low..=high, host.unwrap_or_default(), port));
        }
        let mut owners = self.owners.write().unwrap_or_else(PoisonError::into_inner);
        let (mut by_address, mut by_shard) = (BTreeMap::new(), Vec::new());
        for slot in &self.slots {
            let found = ranges
                .iter()
                .find(|(range, ..)| range.contains(&u64::from(*slot)));
            let Some((_, host, port)) = found else {
                return Err(Failure::unavailable(
                    "the cluster has no node for some of its slots",
                ));
            };
            let name = format!("{host}:{port}");
            let known = by_address.get(&name);
            let link = known.or_else(|| owners.by_address.get(&name)).cloned();
            let link = match link {
                Some(link) => link,
                None => Arc::new(self.node(host, *port, from)?),
            };
            by_address.insert(name, Arc::clone(&link));
            by_shard.push(link);
        }
        *owners = Owners {
            by_shard,
            by_address,
        };
        Ok(())
    }

    /// The link to a node, which has the credentials and the protection of the node that named it.
    fn node(&self, host: &str, port: u64, from: &Link) -> Result<Link> {
        let port = u16::try_from(port).unwrap_or_default();
        let info = from.info();
        let addr = match info.addr().clone() {
            ConnectionAddr::TcpTls {
                host: near,
                insecure,
                tls_params,
                ..
            } => ConnectionAddr::TcpTls {
                host: if host.is_empty() {
                    near
                } else {
                    host.to_owned()
                },
                port,
                insecure,
                tls_params,
            },
            ConnectionAddr::Tcp(near, _) if host.is_empty() => ConnectionAddr::Tcp(near, port),
            _ => ConnectionAddr::Tcp(host.to_owned(), port),
        };
        let client = Client::open(info.clone().set_addr(addr))?;
        let (connect, response) = (
            self.settings.connect_timeout,
            self.settings.response_timeout,
        );
        Ok(Link::new(client, connect, response))
    }

    /// Sends a command about a shard, once; again only where a server said that it did nothing.
    pub(crate) async fn send(&self, shard: Shard, command: &Cmd) -> Result<Value, Failure> {
        for _ in 0..MOVES {
            let owner = self.owner(shard).await?;
            match owner.send(command).await {
                Err(error) if is_moved(&error) => self.refresh().await?,
                Err(error) => {
                    // Another node may take its place.
                    if self.is_cluster && is_lost(&error) {
                        self.is_stale.store(true, Ordering::Release);
                    }
                    return Err(error.into());
                }
                Ok(answer) => return Ok(answer),
            }
        }
        Err(Failure::unavailable(
            "the nodes of the cluster do not agree on who has these keys",
        ))
    }

    /// Calls a script.
    pub(crate) async fn call(
        &self,
        shard: Shard,
        script: &Prepared,
        keys: &[String],
        arguments: &Arguments,
    ) -> Result<Value> {
        match self.send(shard, &script.call(true, keys, arguments)).await {
            Err(Failure::Server(error)) if is_unknown(&error) => {
                self.send(shard, &script.call(false, keys, arguments)).await
            }
            answer => answer,
        }
    }
}

fn is_moved(error: &RedisError) -> bool {
    error.kind() == ServerErrorKind::Moved.into()
}

/// Whether the server does not know a script by its hash, and so did nothing.
fn is_unknown(error: &RedisError) -> bool {
    error.kind() == ServerErrorKind::NoScript.into()
}
