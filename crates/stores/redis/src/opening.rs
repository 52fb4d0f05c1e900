//! What is checked when a store is opened.

use std::sync::Arc;

use helix_agents_core::store::StoreError;
use helix_agents_core::time::Timestamp;
use redis::Cmd;

use crate::config::{Durability, RedisConfig};
use crate::error::{Error, Result};
use crate::failure::{BACKEND, Failure, is_lost};
use crate::keys::{Keys, Shard};
use crate::link::Link;
use crate::nodes::Nodes;
use crate::reply;
use crate::script::RIGHTS;

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

/// The addresses in a text, with commas between them. A comma within an address, as in a password, divides nothing.
pub(crate) fn addresses(url: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for part in url.split(',') {
        let begins = part.contains("://") || part.trim_start().starts_with("unix:");
        match all.last_mut() {
            Some(last) if !begins => {
                last.push(',');
                last.push_str(part);
            }
            _ => all.push(part.to_owned()),
        }
    }
    all
}

/// An address as errors show it: neither a user nor options, in which a password may be.
pub(crate) fn without_password(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    let (user, host) = match rest.rsplit_once('@') {
        Some((_, host)) => ("***@", host),
        None => ("", rest),
    };
    let host = host.split_once('?').map_or(host, |(host, _)| host);
    format!("{scheme}{user}{host}")
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
        source: Box::new(StoreError::Backend {
            backend: BACKEND,
            source: source.into(),
        }),
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
        check_version(link, config).await?;
        check_settings(link, config).await?;
        check_rights(link, config, keys).await?;
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
        source: Box::new(failure.into()),
    }
}

fn hidden(link: &Link, failure: Failure) -> Error {
    Error::SettingsHidden {
        address: link.address(),
        source: StoreError::from(failure).into(),
    }
}

async fn check_version(link: &Arc<Link>, config: &RedisConfig) -> Result<()> {
    let mut command = redis::cmd("INFO");
    command.arg("server");
    let info = match send(link, &command).await {
        Ok(info) => reply::text(info).map_err(opening(link))?,
        Err(Failure::Server(error)) if !is_lost(&error) && config.trusts => return Ok(()),
        Err(Failure::Server(error)) if !is_lost(&error) => return Err(hidden(link, error.into())),
        Err(failure) => return Err(opening(link)(failure)),
    };
    let info = info.unwrap_or_default();
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
            return Err(hidden(link, failure));
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

/// Refuses a user who may not use all commands: one that is refused in the middle of a script leaves there what the
/// commands before it have written.
async fn check_rights(link: &Arc<Link>, config: &RedisConfig, keys: &Keys) -> Result<()> {
    let mut command = redis::cmd("EVAL");
    let key = keys.meta(Shard(0));
    command.arg(RIGHTS).arg(0).arg(key).arg(keys.channel());
    let missing = send(link, &command).await.and_then(reply::present);
    for command in missing.map_err(opening(link))? {
        let address = link.address();
        if command == "PUBLISH" {
            tracing::warn!(
                event = "store.not_publishing",
                address,
                "the user of the server may not publish; those who wait look every 100 ms, which costs more"
            );
            continue;
        }
        let prefix = config.prefix.clone();
        return Err(Error::NotPermitted {
            address,
            command,
            prefix,
        });
    }
    Ok(())
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
        source: Box::new(failure.into()),
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
