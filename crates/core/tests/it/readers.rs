//! A stream reader, on a stream that changes between any two of its calls.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::future::join;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::store::{Commit, NewSession, SessionStore, Sessions};
use helix_agents_core::stream::{
    Chunk, ChunkOrigin, ChunkPayload, Sequence, StoredChunk, StreamError, StreamInfo, StreamItem,
    StreamLimits, StreamManager, StreamReader, StreamStatus, StreamWriter,
};
use helix_agents_core::time::Timestamp;
use helix_agents_core::{AgentId, RunId, SessionId};
use helix_agents_testkit::{VirtualClock, block_on};

/// Streams that are trimmed right after somebody looked at them for the first time, where that is
/// wanted. They count how often they are asked.
#[derive(Debug)]
struct TrimmedMeanwhile {
    inner: MemoryStore,
    up_to: Mutex<Option<Sequence>>,
    asked: AtomicUsize,
}

#[async_trait]
impl StreamManager for TrimmedMeanwhile {
    fn limits(&self) -> StreamLimits {
        self.inner.limits()
    }

    async fn append_deltas(
        &self,
        writer: &StreamWriter,
        chunks: Vec<Chunk>,
    ) -> Result<Sequence, StreamError> {
        self.inner.append_deltas(writer, chunks).await
    }

    async fn discard_deltas(
        &self,
        writer: &StreamWriter,
        after: Sequence,
        say: Chunk,
    ) -> Result<Sequence, StreamError> {
        self.inner.discard_deltas(writer, after, say).await
    }

    async fn read(
        &self,
        root: &SessionId,
        after: Sequence,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StreamError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.inner.read(root, after, limit).await
    }

    async fn info(&self, root: &SessionId) -> Result<Option<StreamInfo>, StreamError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let info = self.inner.info(root).await;
        let up_to = self.up_to.lock().unwrap().take();
        if let Some(up_to) = up_to {
            self.inner.trim(root, up_to).await?;
        }
        info
    }

    async fn changed(
        &self,
        root: &SessionId,
        known: Option<StreamInfo>,
    ) -> Result<(), StreamError> {
        self.inner.changed(root, known).await
    }

    async fn condense(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        self.inner.condense(root, up_to).await
    }

    async fn trim(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        self.inner.trim(root, up_to).await
    }
}

fn resumed(root: &SessionId) -> Chunk {
    let agent = AgentId::new("a").unwrap();
    let run = RunId::new("run").unwrap();
    let base = ChunkOrigin::new(agent, "agent", root.clone(), run, 1);
    let at = Timestamp::from_millis(1);
    Chunk::new(Arc::new(base), at, ChunkPayload::RunResumed {})
}

/// A reader is told what it missed, also when that was removed between its look at the stream and
/// its reading, whether a part or all of it went.
///
/// proves: STR-01
#[test]
fn a_reader_is_told_about_chunks_that_are_trimmed_while_it_reads() {
    for (up_to, left) in [(2, 1), (3, 0)] {
        let inner = MemoryStore::new();
        let clock = VirtualClock::new(Timestamp::from_millis(1));
        let root = SessionId::new("s").unwrap();
        let chunk = || resumed(&root);
        block_on(async {
            let sessions = Sessions::new(&inner, &clock);
            sessions
                .create_session(&root, NewSession::of("agent"))
                .await
                .unwrap();
            let commit = Commit::new(root.clone(), Timestamp::from_millis(1));
            let commit = (0..3).fold(commit, |commit, _| commit.say(chunk()));
            inner
                .commit(commit.stream(StreamStatus::Ended))
                .await
                .unwrap();
            let streams = TrimmedMeanwhile {
                inner: inner.clone(),
                up_to: Mutex::new(Some(Sequence(up_to))),
                asked: AtomicUsize::new(0),
            };
            let mut reader = StreamReader::new(
                Arc::new(streams),
                Arc::new(inner.clone()),
                root.clone(),
                Sequence::START,
            );
            let up_to = Sequence(up_to);
            assert_eq!(
                reader.next().await.unwrap(),
                Some(StreamItem::Trimmed { up_to })
            );
            for _ in 0..left {
                let item = reader.next().await.unwrap();
                assert!(matches!(item, Some(StreamItem::Chunk(_))), "{item:?}");
            }
            let end = Some(StreamItem::End(StreamStatus::Ended));
            assert_eq!(reader.next().await.unwrap(), end);
        });
    }
}

/// A reader that waits for the next chunk asks for it once, and looks once whether the stream is still
/// the same: with a thousand readers, whatever else it asked would be asked a thousand times.
#[test]
fn a_chunk_costs_a_reader_that_waits_two_questions() {
    let inner = MemoryStore::new();
    let clock = VirtualClock::new(Timestamp::from_millis(1));
    let root = SessionId::new("s").unwrap();
    let streams = Arc::new(TrimmedMeanwhile {
        inner: inner.clone(),
        up_to: Mutex::new(None),
        asked: AtomicUsize::new(0),
    });
    let say = async || {
        let commit = Commit::new(root.clone(), Timestamp::from_millis(1));
        let commit = commit.say(resumed(&root)).stream(StreamStatus::Active);
        inner.commit(commit).await.unwrap();
    };
    block_on(async {
        let sessions = Sessions::new(&inner, &clock);
        let made = sessions.create_session(&root, NewSession::of("agent"));
        made.await.unwrap();
        say().await;
        let own = Arc::clone(&streams) as Arc<dyn StreamManager>;
        let mut reader =
            StreamReader::new(own, Arc::new(inner.clone()), root.clone(), Sequence::START);
        reader.next().await.unwrap();
        for sequence in 2..6 {
            let asked = streams.asked.load(Ordering::Relaxed);
            // The reader waits first.
            let (item, ()) = join(reader.next(), say()).await;
            let item = item.unwrap();
            assert!(matches!(item, Some(StreamItem::Chunk(read)) if read.sequence.0 == sequence));
            assert_eq!(streams.asked.load(Ordering::Relaxed), asked + 2);
        }
    });
}
