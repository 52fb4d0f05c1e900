//! How many commands operations need, and that changes wake those who wait elsewhere.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helix_agents_core::id::RunId;
use helix_agents_core::message::UserMessage;
use helix_agents_core::session::{RunRecord, RunTrigger, StopKind, StopRequest};
use helix_agents_core::store::{Change, Commit, NewSession, SessionStore, Sessions, WatchStops};
use helix_agents_core::stream::{
    Chunk, ChunkOrigin, ChunkPayload, Sequence, StreamManager, StreamStatus, StreamWriter,
};
use helix_agents_core::time::Timestamp;
use helix_agents_core::{AgentId, SessionId};
use helix_agents_store_redis::RedisStore;
use helix_agents_test_servers::RedisSettings;
use helix_agents_testkit::VirtualClock;

use crate::stores::{block_on, command, open, private, quick};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

async fn created(store: &RedisStore) -> SessionId {
    let clock = VirtualClock::new(NOW);
    let id = SessionId::new("order").unwrap();
    let sessions = Sessions::new(store, &clock);
    sessions
        .create_session(&id, NewSession::of("helper"))
        .await
        .unwrap();
    id
}

fn appending(id: &SessionId, text: &str) -> Commit {
    Commit::new(id.clone(), NOW).then(Change::AppendUser(UserMessage::new(text)))
}

/// How often clients have sent each command that is no part of a script.
async fn calls(url: &str) -> Vec<(String, u64)> {
    let info = command(url, &["INFO", "commandstats"]).await;
    let line = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let calls = rest.split(',').next()?.parse().ok()?;
        Some((name.to_owned(), calls))
    };
    info.lines().filter_map(line).collect()
}

/// How many bytes a server has sent.
async fn sent(url: &str) -> usize {
    let info = command(url, &["INFO", "stats"]).await;
    let mut lines = info.lines();
    let sent = lines.find_map(|line| line.strip_prefix("total_net_output_bytes:"));
    sent.unwrap().parse().unwrap()
}

/// A batch has many chunks: those of about as many batches are sent as are wanted.
#[test]
fn reading_some_chunks_does_not_fetch_many_more() {
    let Some(server) = private(RedisSettings::quick()) else {
        return;
    };
    block_on(async {
        let url = server.url();
        let store = open(&url, quick("some")).await;
        let id = created(&store).await;
        let (agent, run) = (AgentId::new("a").unwrap(), RunId::new("r").unwrap());
        let origin = Arc::new(ChunkOrigin::new(agent, "agent", id.clone(), run, 1));
        let delta = |n: usize| {
            let delta = format!("{n:>9}");
            let payload = ChunkPayload::TextDelta { delta };
            Chunk::new(Arc::clone(&origin), NOW, payload)
        };
        let fence = store.load(id.as_root()).await.unwrap().unwrap().fence;
        let writer = StreamWriter::new(id.clone(), id.clone(), fence);
        let all: Vec<_> = (0..10_000).map(delta).collect();
        for batch in all.chunks(100) {
            store.append_deltas(&writer, batch.to_vec()).await.unwrap();
        }
        let mut last = Sequence::START;
        for _ in 0..10 {
            let before = sent(&url).await;
            let some = store.read(&id, last, 256).await.unwrap();
            let for_some = sent(&url).await - before;
            assert_eq!(some.len(), 256);
            assert_eq!(some.first().unwrap().sequence, last.next());
            last = some.last().unwrap().sequence;
            assert!(for_some < 100_000, "{for_some} bytes for 256 chunks");
        }
        let rest = store.read(&id, last, 20_000).await.unwrap();
        assert_eq!(rest.len(), 10_000 - 2_560);
        assert_eq!(rest.last().unwrap().sequence, Sequence(10_000));
    });
}

#[test]
fn a_commit_is_one_command() {
    let Some(server) = private(RedisSettings::quick()) else {
        return;
    };
    block_on(async {
        let url = server.url();
        let store = open(&url, quick("one")).await;
        let id = created(&store).await;
        store.commit(appending(&id, "first")).await.unwrap();
        command(&url, &["CONFIG", "RESETSTAT"]).await;
        for _ in 0..50 {
            store.commit(appending(&id, "more")).await.unwrap();
        }
        let calls = calls(&url).await;
        let of = |name: &str| {
            calls
                .iter()
                .find(|(have, _)| have == name)
                .map_or(0, |(_, n)| *n)
        };
        // In a script: HSET and ZADD write, HGET compares, TIME tells the time.
        assert_eq!(
            (of("evalsha"), of("eval"), of("zadd")),
            (50, 0, 50),
            "{calls:?}"
        );
        let inside = [
            "evalsha",
            "time",
            "hget",
            "hset",
            "zadd",
            "config|resetstat",
        ];
        let others: Vec<_> = calls
            .iter()
            .filter(|(name, _)| !inside.contains(&name.as_str()))
            .collect();
        assert!(
            others
                .iter()
                .all(|(name, _)| name.starts_with("client") || name == "info"),
            "{others:?}"
        );
    });
}

/// A write here wakes a reader there, well before it would look by itself.
#[test]
fn writes_wake_readers_of_another_store() {
    let Some(server) = private(RedisSettings::quick()) else {
        return;
    };
    block_on(async {
        let here = open(&server.url(), quick("wake")).await;
        let there = open(&server.url(), quick("wake")).await;
        let id = created(&here).await;
        let mut slowest = Duration::ZERO;
        for round in 0..20 {
            let known = there.info(&id).await.unwrap();
            let (theirs, name) = (there.clone(), id.clone());
            let (begun, began) = tokio::sync::oneshot::channel();
            let reader = tokio::spawn(async move {
                let wait = theirs.changed(&name, known);
                begun.send(()).unwrap();
                wait.await.unwrap();
                Instant::now()
            });
            began.await.unwrap();
            let status = if round % 2 == 0 {
                StreamStatus::Paused
            } else {
                StreamStatus::Active
            };
            here.commit(Commit::new(id.clone(), NOW).stream(status))
                .await
                .unwrap();
            let written = Instant::now();
            let woken = reader.await.unwrap();
            // The first ones wait until the connection that listens is made.
            if round > 2 {
                slowest = slowest.max(woken.saturating_duration_since(written));
            }
        }
        assert!(slowest < Duration::from_millis(500), "{slowest:?}");
    });
}

/// A request to stop is noticed in another process within 250 ms.
#[test]
fn a_stop_is_noticed_by_another_store_in_time() {
    let Some(server) = private(RedisSettings::quick()) else {
        return;
    };
    block_on(async {
        let here = open(&server.url(), quick("stop")).await;
        let there = open(&server.url(), quick("stop")).await;
        let id = created(&here).await;
        let run = RunId::new("run").unwrap();
        let record = RunRecord::started(run.clone(), id.clone(), RunTrigger::Execute, "local", NOW);
        let start = Change::StartRun(Box::new(record));
        here.commit(Commit::new(id.clone(), NOW).then(start))
            .await
            .unwrap();
        let (theirs, name, wanted) = (there.clone(), id.clone(), run.clone());
        let (begun, began) = tokio::sync::oneshot::channel();
        let watcher = tokio::spawn(async move {
            begun.send(()).unwrap();
            let stop = theirs.stopped(name.as_root(), &wanted).await.unwrap();
            (stop, Instant::now())
        });
        began.await.unwrap();
        let stop = StopRequest::new(run, StopKind::Interrupt, NOW);
        here.commit(Commit::new(id, NOW).then(Change::Stop(stop.clone())))
            .await
            .unwrap();
        let written = Instant::now();
        let (found, noticed) = watcher.await.unwrap();
        assert_eq!(found, stop);
        let took = noticed.saturating_duration_since(written);
        assert!(took < Duration::from_millis(250), "{took:?}");
    });
}
