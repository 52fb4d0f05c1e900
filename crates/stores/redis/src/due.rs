//! Due work: read and counted in the indexes of each shard.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::try_join_all;
use helix_agents_core::SessionId;
use helix_agents_core::store::{Backlog, DueCursor, DuePage, DueQuery, Header};

use crate::failure::{Failure, Result};
use crate::index::{END, Indexes, instant, kind_number, split};
use crate::keys::Shard;
use crate::reply::{self, Answers};
use crate::script::{Arguments, Reads, words};
use crate::store::RedisStore;

/// Calls the script for due work on a shard.
async fn ranges(
    store: &RedisStore,
    shard: Shard,
    kinds: &[u8],
    [after, now, limit]: [&str; 3],
    agents: &[String],
) -> Result<Vec<redis::Value>> {
    let indexes = Indexes {
        keys: store.keys(),
        shard,
    };
    let kinds: Vec<_> = kinds.iter().map(u8::to_string).collect();
    let start = indexes.due();
    let words = [
        start,
        kinds.join(","),
        after.into(),
        now.into(),
        limit.into(),
    ];
    let mut arguments = Arguments::of(words);
    for agent in agents {
        arguments.push(agent.as_str());
    }
    let script = &store.inner.scripts.due;
    let keys = [indexes.agents(), store.keys().never(shard)];
    reply::list(store.ask(shard, script, &keys, &arguments).await?)
}

/// A page of due work.
pub(crate) async fn page(store: &RedisStore, query: &DueQuery) -> Result<DuePage> {
    let now = store.measured_now(store.keys().shard("")).await?;
    let kinds: Vec<u8> = query
        .kinds
        .iter()
        .map(|kind| kind_number(*kind))
        .collect::<Result<_>>()?;
    let is_empty = query.limit == 0 || query.agents.as_ref().is_some_and(Vec::is_empty);
    let none = |_: &SessionId| Ok::<Option<Arc<Header>>, Failure>(None);
    if is_empty || kinds.is_empty() {
        return query.page(now, [], none);
    }
    let after = match &query.after {
        Some(place) => format!("({}{}", instant(place.since), place.session),
        None => "-".to_owned(),
    };
    let until = format!("[{}{END}", instant(now));
    let limit = query.limit.min(i32::MAX as usize).to_string();
    let bounds = [after.as_str(), &until, &limit];
    let agents = query.agents.clone().unwrap_or_default();
    let (agents, kinds) = (&agents, &kinds);
    let asked = store.keys().shards().map(|shard| async move {
        let found = ranges(store, shard, kinds, bounds, agents).await?;
        Ok::<_, Failure>((shard, found))
    });
    let mut shards = BTreeMap::new();
    let mut all = Vec::new();
    for (shard, found) in try_join_all(asked).await? {
        for range in found {
            let mut cursors = Vec::new();
            for member in reply::present(range)? {
                let (since, session) = split(&member)?;
                let session = SessionId::new(session)?;
                shards.insert(session.clone(), shard);
                cursors.push(DueCursor::new(since, session));
            }
            all.push(cursors);
        }
    }
    let headers = headers(store, first(query, &all, shards)).await?;
    query.page(now, all, |session| Ok(headers.get(session).cloned()))
}

/// The sessions that may be on the page: the first ones of all ranges together.
fn first(
    query: &DueQuery,
    ranges: &[Vec<DueCursor>],
    mut shards: BTreeMap<SessionId, Shard>,
) -> Vec<(Shard, SessionId)> {
    // Where a range continues in the store, the page ends with it at the latest.
    let full = ranges.iter().filter(|range| range.len() >= query.limit);
    let end = full.filter_map(|range| range.last()).min();
    let mut places: Vec<_> = ranges.iter().flatten().collect();
    places.retain(|place| end.is_none_or(|end| *place <= end));
    places.sort();
    let sessions = places.into_iter().map(|place| &place.session);
    sessions
        .filter_map(|session| Some((shards.remove(session)?, session.clone())))
        .collect()
}

async fn headers(
    store: &RedisStore,
    sessions: Vec<(Shard, SessionId)>,
) -> Result<BTreeMap<SessionId, Arc<Header>>> {
    let mut by_shard: BTreeMap<Shard, Vec<SessionId>> = BTreeMap::new();
    for (shard, session) in sessions {
        by_shard.entry(shard).or_default().push(session);
    }
    let asked = by_shard.into_iter().map(|(shard, sessions)| async move {
        let (places, _) = store.places(shard, &sessions).await?;
        let found = sessions.into_iter().zip(places);
        let found = found.filter_map(|(session, place)| Some((session, place.head?.header)));
        Ok::<Vec<_>, Failure>(found.collect())
    });
    Ok(try_join_all(asked).await?.into_iter().flatten().collect())
}

/// Counts what waits.
pub(crate) async fn backlog(store: &RedisStore) -> Result<Backlog> {
    let now = store.measured_now(store.keys().shard("")).await?;
    let until = format!("[{}{END}", instant(now));
    let kinds: Vec<u8> = Backlog::COUNTED
        .iter()
        .map(|kind| kind_number(*kind))
        .collect::<Result<_>>()?;
    let (until, kinds) = (until.as_str(), &kinds);
    let asked = store.keys().shards().map(|shard| async move {
        let counts = ranges(store, shard, kinds, ["-", until, "count"], &[]).await?;
        let indexes = Indexes {
            keys: store.keys(),
            shard,
        };
        let pending = indexes.pending();
        let mut reads = Reads::default();
        reads.ask(words!["ZCARD", pending.as_str()]);
        reads.ask(words!["ZRANGE", pending.as_str(), "0", "0"]);
        Ok::<_, Failure>((counts, store.read(shard, reads).await?))
    });
    let mut backlog = Backlog::default();
    for (counts, mut pending) in try_join_all(asked).await? {
        for count in counts {
            let mut answers = Answers::of(count)?;
            let number = reply::number(answers.next()?)?;
            let (due, all) = (
                reply::number(answers.next()?)?,
                reply::number(answers.next()?)?,
            );
            for kind in Backlog::COUNTED {
                if u64::from(kind_number(kind)?) == number {
                    backlog.add_due(kind, due, all.saturating_sub(due));
                }
            }
        }
        backlog.pending_calls += reply::number(pending.next()?)?;
        if let Some(member) = reply::present(pending.next()?)?.first() {
            let (since, _) = split(member)?;
            let oldest = backlog.oldest_pending.get_or_insert(since);
            *oldest = since.min(*oldest);
        }
    }
    Ok(backlog)
}
