//! What is checked when a store is opened.

use std::sync::Arc;

use helix_agents_core::store::StoreError;
use helix_agents_core::time::Timestamp;
use redis::Cmd;

use crate::config::{Durability, RedisConfig};
use crate::error::{Error, Result};
use crate::failure::{BACKEND, Failure};
use crate::keys::{Keys, Shard};
use crate::link::Link;
use crate::nodes::Nodes;
use crate::reply;

/// The version of the layout of the keys.
const LAYOUT: u32 = 1;

/// Takes what is ours out of an address, and says whether it names a cluster.
pub(crate) fn address(url: &str) -> (String, bool) {
    let Some((base, query)) = url.split_once('?') else {
        // The client wants the two slashes.
        let path = url
            .strip_prefix("unix:")
            .filter(|path| !path.starts_with("//"));
        let url = path.map_or_else(|| url.to_owned(), |path| format!("unix://{path}"));
        return (url, false);
    };
    let (ours, others): (Vec<_>, Vec<_>) = query
        .split('&')
        .partition(|part| part.starts_with("cluster="));
    let is_cluster = ours
        .iter()
        .any(|part| matches!(*part, "cluster=true" | "cluster=1"));
    let (base, _) = address(base);
    match others.is_empty() {
        true => (base, is_cluster),
        false => (format!("{base}?{}", others.join("&")), is_cluster),
    }
}

/// An address as errors show it.
pub(crate) fn without_password(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://***@{host}"),
        _ => url.to_owned(),
    }
}

pub(crate) fn check_prefix(prefix: &str) -> Result<()> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    if !prefix.is_empty() && prefix.chars().all(is_fine) {
        return Ok(());
    }
    let prefix = prefix.to_owned();
    Err(Error::BadPrefix { prefix })
}

/// A text that no other store has.
pub(crate) fn random_text() -> Result<String> {
    let mut bytes = [0; 12];
    getrandom::fill(&mut bytes).map_err(|source| Error::Open {
        address: "the source of random numbers".to_owned(),
        source: StoreError::Backend {
            backend: BACKEND,
            source: source.into(),
        },
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The instant that the command `TIME` names.
pub(crate) fn instant(seconds: u64, micros: u64) -> Timestamp {
    Timestamp::from_millis(seconds.saturating_mul(1000).saturating_add(micros / 1000))
}

/// Does what [`check`] does, and gives up when connecting may not take longer.
pub(crate) async fn check_in_time(
    nodes: &Nodes,
    config: &RedisConfig,
    keys: &Keys,
) -> Result<Timestamp> {
    let checked = tokio::time::timeout(config.connect_timeout, check(nodes, config, keys)).await;
    checked.unwrap_or_else(|late| {
        let (address, source) = (nodes.address(), late.into());
        Err(Error::Unreachable { address, source })
    })
}

/// Checks every server, and returns the time of one.
async fn check(nodes: &Nodes, config: &RedisConfig, keys: &Keys) -> Result<Timestamp> {
    let unreachable = |failure: Failure| Error::Unreachable {
        address: nodes.address(),
        source: StoreError::from(failure).into(),
    };
    let all = nodes.all().await.map_err(unreachable)?;
    let mut told = None;
    for link in &all {
        let time = send(link, &redis::cmd("TIME")).await.map_err(unreachable)?;
        let mut time = reply::present(time).map_err(unreachable)?.into_iter();
        let mut next = || {
            time.next()
                .and_then(|text| text.parse().ok())
                .unwrap_or_default()
        };
        told = Some(instant(next(), next()));
        check_version(link).await?;
        check_settings(link, config).await?;
    }
    check_layout(nodes, config, keys).await?;
    told.ok_or_else(|| unreachable(Failure::unavailable("the cluster has no nodes")))
}

async fn send(link: &Arc<Link>, command: &Cmd) -> Result<redis::Value, Failure> {
    Ok(link.send(command).await?)
}

fn opening(link: &Link) -> impl Fn(Failure) -> Error {
    let address = link.address();
    move |failure| Error::Open {
        address: address.clone(),
        source: failure.into(),
    }
}

async fn check_version(link: &Arc<Link>) -> Result<()> {
    let mut command = redis::cmd("INFO");
    command.arg("server");
    let info = send(link, &command).await.and_then(reply::text);
    let info = info.map_err(opening(link))?.unwrap_or_default();
    let version = info
        .lines()
        .find_map(|line| line.strip_prefix("redis_version:"));
    let found = version.unwrap_or_default();
    let major = found
        .split('.')
        .next()
        .and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major >= 7) {
        return Ok(());
    }
    Err(Error::TooOld {
        address: link.address(),
        found: found.to_owned(),
    })
}

/// Compares what the server promises with what is wanted.
async fn check_settings(link: &Arc<Link>, config: &RedisConfig) -> Result<()> {
    let ask = async |name: &str| {
        let mut command = redis::cmd("CONFIG");
        command.arg("GET").arg(name);
        let answer = link.send(&command).await?;
        let pairs = reply::pairs(answer)?;
        Ok::<_, Failure>(pairs.into_iter().next().map(|(_, value)| value))
    };
    let settings = async {
        Ok::<_, Failure>([
            ask("maxmemory-policy").await?,
            ask("appendonly").await?,
            ask("appendfsync").await?,
        ])
    };
    let found = match settings.await {
        Ok(found) => found,
        Err(_) if config.trusts => return Ok(()),
        Err(failure) => {
            return Err(Error::SettingsHidden {
                address: link.address(),
                source: StoreError::from(failure).into(),
            });
        }
    };
    let [policy, appendonly, appendfsync] = found.map(Option::unwrap_or_default);
    if policy != "noeviction" && !(policy.is_empty() && config.trusts) {
        let address = link.address();
        return Err(Error::Evicts { address, policy });
    }
    let promised = match (appendonly.as_str(), appendfsync.as_str()) {
        ("yes", "always") => Durability::Always,
        ("yes", "everysec") => Durability::EverySecond,
        _ => Durability::Memory,
    };
    if promised >= config.durability || config.trusts {
        return Ok(());
    }
    Err(Error::LessDurable {
        address: link.address(),
        appendonly,
        appendfsync,
        wanted: config.durability,
    })
}

/// Notes the layout at the first opening, and refuses another one later.
async fn check_layout(nodes: &Nodes, config: &RedisConfig, keys: &Keys) -> Result<()> {
    let kind = if config.streams_only { "/streams" } else { "" };
    let wanted = format!("{LAYOUT}/{}{kind}", config.shards);
    let first = Shard(0);
    let key = format!("{}:layout", keys.tag(first));
    let mut command = redis::cmd("SET");
    command.arg(&key).arg(&wanted).arg("NX").arg("GET");
    let found = nodes.send(first, &command).await.and_then(reply::text);
    let found = found.map_err(|failure| Error::Open {
        address: nodes.address(),
        source: failure.into(),
    })?;
    match found {
        Some(found) if found != wanted => Err(Error::OtherLayout {
            prefix: config.prefix.clone(),
            found,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_clusters_and_hide_passwords() {
        let of = |url: &str| address(url);
        assert_eq!(of("redis://a:1"), ("redis://a:1".to_owned(), false));
        assert_eq!(of("redis://a?cluster=true"), ("redis://a".to_owned(), true));
        let both = of("redis://a?protocol=resp3&cluster=1");
        assert_eq!(both, ("redis://a?protocol=resp3".to_owned(), true));
        assert_eq!(
            of("unix:/run/r.sock"),
            ("unix:///run/r.sock".to_owned(), false)
        );
        let shown = without_password("redis://me:secret@host:1/2");
        assert_eq!(shown, "redis://***@host:1/2");
    }
}
