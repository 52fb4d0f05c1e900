//! Streams that were lost, whole or in part: runs end, and readers are told that chunks are missing.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::agent::Agent;
use helix_agents_core::runtime::RuntimeExt;
use helix_agents_core::session::RunStatus;
use helix_agents_core::store::SessionStore;
use helix_agents_core::stream::{
    ChunkPayload, Outbox, Sequence, StreamItem, StreamLog, StreamManager, StreamReader,
    StreamStatus,
};
use helix_agents_core::tool::Tool;
use helix_agents_test_servers::{REDIS, RedisServer, RedisSettings, shared};

use helix_agents_testkit::MockModel;
use serde_json::json;

use crate::deployment::{Deployment, Process, created, says, with_servers, words, writes};
use crate::faults::{host, until_said};
use crate::spoken::speaker;

/// Nothing takes as long.
const LONG: Duration = Duration::from_secs(60);

/// A server that keeps nothing on the disk by itself.
fn server() -> Option<RedisServer> {
    shared(REDIS).map(|_| RedisServer::start(RedisSettings::quick()).unwrap())
}

fn reader(process: &Process, root: &helix_agents_core::SessionId) -> StreamReader {
    let relayed = Arc::new(process.relayed());
    StreamReader::new(relayed.clone(), relayed, root.clone(), Sequence::START)
}

async fn next(reader: &mut StreamReader) -> Option<StreamItem> {
    let next = tokio::time::timeout(LONG, reader.next()).await;
    next.unwrap().unwrap()
}

/// What a reader is told from now on, until the end.
async fn rest(reader: &mut StreamReader) -> Vec<StreamItem> {
    let mut items = Vec::new();
    while let Some(item) = next(reader).await {
        items.push(item);
    }
    items
}

/// The texts among what a reader was told.
fn said(items: &[StreamItem]) -> String {
    let texts = items.iter().filter_map(|item| match item {
        StreamItem::Chunk(stored) => match &stored.chunk.payload {
            ChunkPayload::TextDelta { delta } => Some(delta.as_str()),
            _ => None,
        },
        _ => None,
    });
    texts.collect()
}

async fn send(url: &str, command: &str) {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let _: redis::Value = redis::cmd(command)
        .query_async(&mut connection)
        .await
        .unwrap();
}

#[test]
fn a_run_goes_on_when_its_stream_is_lost_and_readers_reach_the_end() {
    let Some(server) = server() else { return };
    with_servers(async {
        let deployment = Deployment::on(server.url());
        let (here, there) = (deployment.process().await, deployment.process().await);
        let (agent, voice) = speaker();
        let handle = host(&here).execute(&agent, "go").await.unwrap();
        let root = handle.session_id().clone();
        voice.say("one ");
        until_said(&there, &root, "one ").await;
        let mut reader = reader(&there, &root);
        let mut read = 0;
        while !matches!(next(&mut reader).await, Some(StreamItem::Chunk(chunk))
            if matches!(chunk.chunk.payload, ChunkPayload::TextDelta { .. }))
        {
            read += 1;
            assert!(read < 100);
        }
        send(&server.url(), "FLUSHALL").await;
        voice.say("two ");
        until_said(&there, &root, "two ").await;
        voice.say("three");
        voice.finish();
        let ended = handle.ended().await.unwrap();
        assert_eq!(ended.status, RunStatus::Completed);
        let last = reader.cursor();
        let told = rest(&mut reader).await;
        assert!(
            matches!(told.first(), Some(StreamItem::Trimmed { up_to }) if *up_to > last),
            "{told:?}"
        );
        assert_eq!(told.last(), Some(&StreamItem::End(StreamStatus::Ended)));
        assert_eq!(words(&there.streams, &root).await.concat(), "two three");
    });
}

/// The server comes back without its last second, in which the turn had ended.
#[test]
fn a_reader_of_a_stream_that_lost_its_end_is_told_how_the_turn_stands() {
    let Some(mut server) = server() else { return };
    let deployment = Deployment::on(server.url());
    let mut played = None;
    with_servers(async {
        let process = deployment.process().await;
        let (agent, voice) = speaker();
        let handle = host(&process).execute(&agent, "go").await.unwrap();
        let root = handle.session_id().clone();
        voice.say("one ");
        until_said(&process, &root, "one ").await;
        send(&server.url(), "SAVE").await;
        voice.say("two");
        voice.finish();
        assert_eq!(handle.ended().await.unwrap().status, RunStatus::Completed);
        until_said(&process, &root, "one two").await;
        played = Some((process, root));
    });
    server.kill().unwrap();
    server.start_again().unwrap();
    with_servers(async {
        let Some((process, root)) = played else {
            return;
        };
        drop(process);
        let process = deployment.process().await;
        assert_eq!(words(&process.streams, &root).await.concat(), "one ");
        let mut reader = reader(&process, &root);
        let told = rest(&mut reader).await;
        let trimmed = told
            .iter()
            .any(|item| matches!(item, StreamItem::Trimmed { .. }));
        assert!(trimmed, "{told:?}");
        assert_eq!(told.last(), Some(&StreamItem::End(StreamStatus::Ended)));
        // From now on it is whole.
        let info = process
            .backend()
            .streams
            .info(&root)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(info.last, info.trimmed);
    });
}

/// A run waits for a person when the streams are lost. What is said next, a warning for example, says nothing about the
/// status of the stream.
#[test]
fn a_reader_of_a_suspended_session_is_not_kept_waiting_by_a_stream_that_began_anew() {
    let Some(server) = server() else { return };
    with_servers(async {
        let deployment = Deployment::on(server.url());
        let process = deployment.process().await;
        let parameters = json!({ "type": "object" });
        let agent = Agent::<String>::builder("asker")
            .model(MockModel::new().calls("ask", json!({})))
            .tools(Tool::client_raw("ask", "Asks the client.", parameters))
            .build()
            .unwrap();
        let handle = host(&process).execute(&agent, "go").await.unwrap();
        let root = handle.session_id().clone();
        assert!(handle.ended().await.unwrap().status.is_suspended());
        send(&server.url(), "FLUSHALL").await;
        let relayed = process.relayed();
        let receipt = relayed.commit(says(&root, "soon")).await.unwrap();
        let info = process.streams.info(&root).await.unwrap().unwrap();
        assert_eq!(
            (info.status, info.last),
            (StreamStatus::Paused, receipt.sequence)
        );
        // The same, and the process that began the stream anew died at once.
        send(&server.url(), "FLUSHALL").await;
        process.store.commit(says(&root, "at once")).await.unwrap();
        let left = process.store.entries(&root, 0, 10).await.unwrap();
        process.streams.relay(&root, &left).await.unwrap();
        let told = rest(&mut reader(&process, &root)).await;
        assert_eq!(said(&told), "at once");
        assert_eq!(told.last(), Some(&StreamItem::End(StreamStatus::Paused)));
    });
}

/// The server comes back without the last deltas, and has been told everything else. Their sequences are not used again.
#[test]
fn a_stream_that_lost_deltas_alone_begins_anew_above_them() {
    let Some(mut server) = server() else { return };
    let deployment = Deployment::on(server.url());
    let mut begun = None;
    with_servers(async {
        let process = deployment.process().await;
        let relayed = process.relayed();
        let root = created(&relayed).await;
        relayed.commit(says(&root, "1")).await.unwrap();
        writes(&relayed, &root, 0, "2").await.unwrap();
        send(&server.url(), "SAVE").await;
        writes(&relayed, &root, 0, "3").await.unwrap();
        let last = writes(&relayed, &root, 0, "4").await.unwrap();
        begun = Some((process, relayed, root, last));
    });
    let Some((process, relayed, root, last)) = begun else {
        return;
    };
    server.kill().unwrap();
    // It notices that its connection is gone.
    with_servers(async { drop(process.streams.info(&root).await.unwrap_err()) });
    server.start_again().unwrap();
    with_servers(async {
        assert_eq!(words(&process.streams, &root).await.concat(), "12");
        let after = writes(&relayed, &root, 0, "5").await.unwrap();
        assert!(after > last.next(), "{after:?}");
        let info = process.streams.info(&root).await.unwrap().unwrap();
        assert_eq!((info.trimmed.next(), info.last), (after, after));
        assert_eq!(words(&process.streams, &root).await, ["5"]);
        // A commit goes on there, too.
        let receipt = relayed.commit(says(&root, "6")).await.unwrap();
        assert_eq!(receipt.sequence, after.next());
        assert_eq!(words(&process.streams, &root).await, ["5", "6"]);
    });
}
