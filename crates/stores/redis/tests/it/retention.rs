//! Deltas of past turns.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::id::{AgentId, RunId, SessionId};
use helix_agents_core::session::{RunRecord, RunTrigger};
use helix_agents_core::store::{Change, Commit, NewSession, SessionStore, Sessions};
use helix_agents_core::stream::{
    Chunk, ChunkOrigin, ChunkPayload, Retention, Sequence, StreamManager, StreamStatus,
    StreamWriter,
};
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_store_redis::RedisStore;
use helix_agents_test_servers::RedisSettings;
use helix_agents_testkit::VirtualClock;

use crate::stores::{block_on, open, private, quick};

const WINDOW: Duration = Duration::from_secs(600);

/// Creates a root, streams a reply of three pieces, and leaves the stream with a status.
async fn turn(store: &RedisStore, clock: &VirtualClock, status: StreamStatus) -> SessionId {
    let root = SessionId::new("chat").unwrap();
    let sessions = Sessions::new(store, clock);
    let new = NewSession::of("helper");
    sessions.create_session(&root, new).await.unwrap();
    let run = RunId::new("run").unwrap();
    let record = RunRecord::started(
        run.clone(),
        root.clone(),
        RunTrigger::Execute,
        "local",
        clock.now(),
    );
    let start = Commit::new(root.clone(), clock.now())
        .then(Change::RaiseFence)
        .then(Change::StartRun(Box::new(record)));
    let receipt = store.commit(start).await.unwrap();
    let writer = StreamWriter::new(root.clone(), root.clone(), receipt.sessions[&root].fence);
    let agent = AgentId::new("helper").unwrap();
    let base = Arc::new(ChunkOrigin::new(agent, "helper", root.clone(), run, 1));
    for piece in ["one ", "two ", "three"] {
        let delta = piece.to_owned();
        let payload = ChunkPayload::TextDelta { delta };
        let chunk = Chunk::new(Arc::clone(&base), clock.now(), payload);
        store.append_deltas(&writer, vec![chunk]).await.unwrap();
    }
    let end = Commit::new(root.clone(), clock.now()).stream(status);
    store.commit(end).await.unwrap();
    root
}

/// The end of a turn that was deleted with its session condenses nothing of the session that has the id now.
///
/// proves in part: STR-01
#[test]
fn a_deleted_turn_is_not_condensed_in_a_stream_of_its_name() {
    let Some(server) = private(RedisSettings::quick()) else {
        return;
    };
    block_on(async {
        let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(1_700_000_000_000)));
        let config = quick("again").keep_deltas(WINDOW).clock(clock.clone());
        let store = open(&server.url(), config).await;
        let root = turn(&store, &clock, StreamStatus::Ended).await;
        let sessions = Sessions::new(&store, &*clock);
        assert!(sessions.delete_session(&root).await.unwrap());
        turn(&store, &clock, StreamStatus::Active).await;
        let before = store.read(&root, Sequence::START, 100).await.unwrap();
        assert_eq!(before.len(), 3);
        clock.advance(WINDOW * 2);
        store.condense_old_turns(clock.now(), 100).await.unwrap();
        let after = store.read(&root, Sequence::START, 100).await.unwrap();
        assert_eq!(after, before, "its turn has not ended");
        // One that has ended is condensed.
        let end = Commit::new(root.clone(), clock.now()).stream(StreamStatus::Ended);
        store.commit(end).await.unwrap();
        clock.advance(WINDOW * 2);
        assert_eq!(store.condense_old_turns(clock.now(), 100).await.unwrap(), 1);
        let after = store.read(&root, Sequence::START, 100).await.unwrap();
        assert_eq!(after, []);
    });
}
