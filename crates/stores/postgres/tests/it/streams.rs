//! What reads and removals of chunks fetch, and appends whose answer does not come.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::SessionId;
use helix_agents_core::store::{Change, Commit, Fence, SessionStore};
use helix_agents_core::stream::{
    Chunk, ChunkOrigin, ChunkPayload, Sequence, StreamError, StreamManager, StreamWriter,
};
use helix_agents_store_postgres::PostgresStore;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

use crate::builders::{NOW, create, delta, id, on, run};
use crate::counting_proxy::CountingProxy;
use crate::faults::port;
use crate::server::{config, open, schema, try_open, url, with_server};

/// The number of chunks in a row.
const ROW: usize = 250;
/// The number of chunks that a reader asks for.
const PAGE: usize = 256;
/// Nothing takes as long.
const LONG: Duration = Duration::from_secs(60);

/// A chunk whose content is nowhere else.
fn event(session: &SessionId, number: usize) -> Chunk {
    let payload = ChunkPayload::Custom {
        event_name: "tick".to_owned(),
        data: json!({ "number": number }),
    };
    let base = ChunkOrigin::new(id("agent"), "adder", session.clone(), id("run-1"), 1);
    Chunk::new(Arc::new(base), NOW, payload)
}

/// A session with a run.
async fn running(store: &PostgresStore) -> (SessionId, StreamWriter) {
    let session = create(store, "s").await;
    let start = on("s").then(Change::StartRun(Box::new(run(&session))));
    store.commit(start).await.unwrap();
    let writer = StreamWriter::new(session.clone(), session.clone(), Fence(0));
    (session, writer)
}

/// Appends rows, whose chunks are made of their numbers.
async fn append(
    store: &PostgresStore,
    writer: &StreamWriter,
    rows: usize,
    chunk: impl Fn(usize) -> Chunk,
) {
    for row in 0..rows {
        let chunks = (row * ROW..(row + 1) * ROW).map(&chunk).collect();
        store.append_deltas(writer, chunks).await.unwrap();
    }
}

/// The sequences of a stream, read in pages.
async fn sequences(store: &PostgresStore, session: &SessionId) -> Vec<u64> {
    let (mut all, mut after) = (Vec::new(), Sequence::START);
    loop {
        let page = StreamManager::read(store, session, after, PAGE).await;
        let page = page.unwrap();
        let Some(last) = page.last() else {
            return all;
        };
        after = last.sequence;
        all.extend(page.iter().map(|stored| stored.sequence.0));
    }
}

#[test]
fn a_reader_that_is_far_behind_fetches_about_what_it_returns() {
    with_server(async {
        const ROWS: usize = 200;
        let proxy = CountingProxy::start(port());
        let name = schema();
        let settings = config(&name).connections(1).notifications(false);
        let reader = try_open(&proxy.url(), settings).await.unwrap();
        let store = open(config(&name)).await;
        let (session, writer) = running(&store).await;
        append(&store, &writer, ROWS, |number| {
            delta(&session, &number.to_string())
        })
        .await;
        let (bytes, asked) = (proxy.answered(), proxy.asked());
        let all = StreamManager::read(&reader, &session, Sequence::START, usize::MAX);
        assert_eq!(all.await.unwrap().len(), ROWS * ROW);
        let whole = proxy.answered() - bytes;
        assert!(proxy.asked() - asked < 30, "{}", proxy.asked() - asked);
        let (bytes, asked) = (proxy.answered(), proxy.asked());
        let read = sequences(&reader, &session).await;
        assert!(read.into_iter().eq(1..=(ROWS * ROW) as u64));
        let fetched = (proxy.answered() - bytes) as f64 / whole as f64;
        // A page may end within a row, which the next page begins with.
        assert!(fetched < 2.5, "fetched {fetched:.1} times what there is");
        let pages = (ROWS * ROW).div_ceil(PAGE) + 1;
        assert!(proxy.asked() - asked <= pages, "a page is one question");
    });
}

#[test]
fn nothing_is_read_after_any_end() {
    with_server(async {
        let store = open(config(&schema())).await;
        let (session, writer) = running(&store).await;
        append(&store, &writer, 1, |number| event(&session, number)).await;
        for after in [ROW as u64, ROW as u64 + 1, i64::MAX as u64, u64::MAX] {
            for limit in [1, usize::MAX] {
                let read = StreamManager::read(&store, &session, Sequence(after), limit);
                assert_eq!(read.await.unwrap(), [], "after {after}");
            }
        }
    });
}

#[test]
fn a_reader_passes_what_was_removed_in_a_few_questions() {
    with_server(async {
        const ROWS: usize = 120;
        let proxy = CountingProxy::start(port());
        let name = schema();
        let settings = config(&name).connections(1).notifications(false);
        let reader = try_open(&proxy.url(), settings).await.unwrap();
        let store = open(config(&name)).await;
        let (session, writer) = running(&store).await;
        // Of each row one chunk is left, and of some rows none.
        append(&store, &writer, ROWS, |number| {
            match number % ROW == 7 && number % (3 * ROW) != 7 {
                true => event(&session, number),
                false => delta(&session, "a"),
            }
        })
        .await;
        let end = Sequence((ROWS * ROW) as u64);
        store.condense(&session, end).await.unwrap();
        let asked = proxy.asked();
        let left = StreamManager::read(&reader, &session, Sequence::START, PAGE);
        let left: Vec<u64> = left
            .await
            .unwrap()
            .iter()
            .map(|one| one.sequence.0)
            .collect();
        let wanted = (0..ROWS).filter(|row| row % 3 != 0);
        let wanted: Vec<u64> = wanted.map(|row| (row * ROW + 8) as u64).collect();
        assert_eq!(left, wanted);
        assert!(proxy.asked() - asked <= 8, "{}", proxy.asked() - asked);
    });
}

#[test]
fn a_stream_is_condensed_from_where_it_was_condensed_before() {
    with_server(async {
        const ROWS: usize = 40;
        let proxy = CountingProxy::start(port());
        let settings = config(&schema()).connections(1).notifications(false);
        let store = try_open(&proxy.url(), settings).await.unwrap();
        let (session, writer) = running(&store).await;
        append(&store, &writer, ROWS, |number| match number % 2 {
            0 => event(&session, number),
            _ => delta(&session, "a"),
        })
        .await;
        // In the middle of a row.
        let (half, end) = ((ROWS / 2 * ROW + 100) as u64, (ROWS * ROW) as u64);
        let condense = async |up_to| {
            let (bytes, asked) = (proxy.answered(), proxy.asked());
            store.condense(&session, Sequence(up_to)).await.unwrap();
            (proxy.answered() - bytes, proxy.asked() - asked)
        };
        let (first, questions) = condense(half).await;
        assert!(questions <= 12, "{questions} questions");
        let (second, _) = condense(end).await;
        // In between lies the row that was condensed in part.
        let ratio = second as f64 / first as f64;
        assert!(ratio < 1.2, "{ratio:.2} times as much for the other half");
        let (again, _) = condense(end).await;
        assert!(again < first / 20, "{again} bytes, and nothing to do");
        let left = sequences(&store, &session).await;
        assert!(left.into_iter().eq((1..=end).step_by(2)));
    });
}

/// A connection of its own to the shared server.
async fn connect() -> (Client, JoinHandle<Result<(), tokio_postgres::Error>>) {
    let (client, connection) = tokio_postgres::connect(&url().unwrap(), NoTls)
        .await
        .unwrap();
    (client, tokio::spawn(connection))
}

/// Waits until a statement that calls this function waits for a lock.
async fn waits_for_a_lock(client: &Client, function: &str) {
    let sql = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
               AND position($1 IN query) > 0 AND pid <> pg_backend_pid()";
    while client.query(sql, &[&function]).await.unwrap().is_empty() {}
}

/// Whoever condenses a stream has locked it, and goes on to its chunks.
#[test]
fn a_session_is_deleted_beside_a_removal_of_chunks_without_a_deadlock() {
    with_server(async {
        let name = schema();
        let store = open(config(&name)).await;
        let (session, writer) = running(&store).await;
        append(&store, &writer, 1, |number| event(&session, number)).await;
        let (client, _task) = connect().await;
        let (watcher, _watching) = connect().await;
        client.batch_execute("BEGIN").await.unwrap();
        let lock = format!("SELECT 1 FROM {name}.stream FOR UPDATE");
        client.query(&lock, &[]).await.unwrap();
        let deleting = tokio::spawn({
            let (store, session) = (store.clone(), session.clone());
            let delete = Commit::new(session, NOW).then(Change::Delete);
            async move { store.commit(delete).await }
        });
        waits_for_a_lock(&watcher, &format!("{name}\".commit")).await;
        let chunks = format!("SELECT 1 FROM {name}.chunk FOR UPDATE NOWAIT");
        let found = client.query(&chunks, &[]).await.unwrap();
        assert_eq!(
            found.len(),
            1,
            "the chunks are not locked before the stream"
        );
        client.batch_execute("COMMIT").await.unwrap();
        deleting.await.unwrap().unwrap();
    });
}

/// The server gets to an append after its writer has given it up, looked, and appended again: in the place that is
/// named another transaction holds it.
async fn an_append_is_held(lock: &str) {
    let name = schema();
    let settings = config(&name).notifications(false);
    let store = open(settings.response_timeout(Duration::from_secs(1))).await;
    let (session, writer) = running(&store).await;
    let said = on("s").say(event(&session, 0));
    store.commit(said).await.unwrap();
    let (client, _task) = connect().await;
    client.batch_execute("BEGIN").await.unwrap();
    let lock = format!("SELECT 1 FROM {name}.{lock} FOR UPDATE");
    client.query(&lock, &[]).await.unwrap();
    let deltas = || vec![delta(&session, "a"), delta(&session, "b")];
    let lost = store.append_deltas(&writer, deltas()).await;
    assert!(matches!(lost, Err(StreamError::Store(_))), "{lost:?}");
    // As the library does it: nothing is appended before a look has said whether the first one was.
    let look = async || StreamManager::read(&store, &session, Sequence(1), PAGE).await;
    let mut seen = look().await;
    client.batch_execute("COMMIT").await.unwrap();
    while seen.is_err() {
        seen = look().await;
    }
    if seen.unwrap().is_empty() {
        store.append_deltas(&writer, deltas()).await.unwrap();
    }
    // Whoever waited for the lock has ended.
    let (watcher, _watching) = connect().await;
    let sql = "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid() \
               AND position($1 IN query) > 0";
    while !watcher.query(sql, &[&name]).await.unwrap().is_empty() {}
    assert_eq!(sequences(&store, &session).await, [1, 2, 3], "{lock}");
}

#[test]
fn an_append_that_was_given_up_and_waits_for_its_stream_is_not_made_beside_the_next() {
    with_server(async {
        let held = tokio::time::timeout(LONG, an_append_is_held("stream"));
        held.await.unwrap();
    });
}

#[test]
fn an_append_that_was_given_up_and_waits_for_its_session_is_not_made_beside_the_next() {
    with_server(async {
        let held = tokio::time::timeout(LONG, an_append_is_held("session"));
        held.await.unwrap();
    });
}

/// As the one before, of a stream that begins with it.
#[test]
fn an_append_that_was_given_up_does_not_begin_a_stream() {
    with_server(async {
        let name = schema();
        let settings = config(&name).notifications(false);
        let store = open(settings.response_timeout(Duration::from_secs(1))).await;
        let (session, writer) = running(&store).await;
        let (client, _task) = connect().await;
        client.batch_execute("BEGIN").await.unwrap();
        let lock = format!("SELECT 1 FROM {name}.session FOR UPDATE");
        client.query(&lock, &[]).await.unwrap();
        let deltas = || vec![delta(&session, "a")];
        store.append_deltas(&writer, deltas()).await.unwrap_err();
        let seen = StreamManager::read(&store, &session, Sequence::START, PAGE).await;
        assert_eq!(seen.unwrap(), []);
        client.batch_execute("COMMIT").await.unwrap();
        store.append_deltas(&writer, deltas()).await.unwrap();
        let (watcher, _watching) = connect().await;
        let sql = "SELECT 1 FROM pg_stat_activity WHERE state = 'active' \
                   AND pid <> pg_backend_pid() AND position($1 IN query) > 0";
        while !watcher.query(sql, &[&name]).await.unwrap().is_empty() {}
        assert_eq!(sequences(&store, &session).await, [1]);
    });
}

/// It must not be created by a look.
#[test]
fn a_look_at_a_session_that_is_gone_finds_nothing() {
    with_server(async {
        let name = schema();
        let settings = config(&name).notifications(false);
        let store = open(settings.response_timeout(Duration::from_secs(1))).await;
        let (session, writer) = running(&store).await;
        let (client, _task) = connect().await;
        client.batch_execute("BEGIN").await.unwrap();
        let lock = format!("SELECT 1 FROM {name}.session FOR UPDATE");
        client.query(&lock, &[]).await.unwrap();
        let deltas = vec![delta(&session, "a")];
        store.append_deltas(&writer, deltas).await.unwrap_err();
        client.batch_execute("COMMIT").await.unwrap();
        let delete = Commit::new(session.clone(), NOW).then(Change::Delete);
        store.commit(delete).await.unwrap();
        let seen = StreamManager::read(&store, &session, Sequence::START, PAGE).await;
        assert_eq!(seen.unwrap(), []);
        assert_eq!(store.info(&session).await.unwrap(), None);
    });
}
