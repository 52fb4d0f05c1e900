use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use helix_agents_core::runtime::Backend;
use helix_agents_core::store::Fence;
use helix_agents_core::store::{Commit, NewSession, Sessions};
use helix_agents_core::stream::{
    Chunk, ChunkOrigin, ChunkPayload, Relayed, Sequence, StreamError, StreamManager, StreamWriter,
};
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_core::{AgentId, RunId, SessionId};
use helix_agents_store_postgres::{PostgresConfig, PostgresStore};
use helix_agents_store_redis::{Durability, RedisConfig, RedisStreams};
use helix_agents_test_servers::{POSTGRES, REDIS, shared};
use helix_agents_testkit::VirtualClock;
use tokio::runtime::{Builder, Runtime};
use tokio::task::unconstrained;

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// The runtime of all connections of this process.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().unwrap()
    })
}

/// Whether both servers are there; otherwise it is said that the test is skipped.
pub(crate) fn has_servers() -> bool {
    shared(POSTGRES).is_some() && shared(REDIS).is_some()
}

/// Runs a test on the runtime, if there are servers.
pub(crate) fn with_servers(test: impl Future<Output = ()>) {
    if has_servers() {
        // Cases wait for the store inside of the future that is polled here; with a budget of polls they would wait for ever.
        runtime().block_on(unconstrained(test));
    }
}

/// A name that no other test has.
pub(crate) fn name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = now.as_micros() % 1_000_000_000;
    format!("m{}_{now}_{count}", std::process::id())
}

/// A schema on the shared PostgreSQL, and keys on a Redis.
#[derive(Debug, Clone)]
pub(crate) struct Deployment {
    pub(crate) schema: String,
    pub(crate) prefix: String,
    pub(crate) redis: String,
    clock: Option<Arc<dyn Clock>>,
}

/// A process of a deployment.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) store: PostgresStore,
    pub(crate) streams: RedisStreams,
}

impl Deployment {
    /// One with a schema of its own on the shared servers.
    pub(crate) fn new() -> Self {
        Self::on(shared(REDIS).unwrap())
    }

    /// The same with a Redis at another address.
    pub(crate) fn on(redis: String) -> Self {
        Self {
            schema: name(),
            prefix: name(),
            redis,
            clock: None,
        }
    }

    /// The same schema with streams of their own.
    pub(crate) fn with_other_streams(mut self) -> Self {
        self.prefix = name();
        self
    }

    pub(crate) fn clocked(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Starts a process, whichever executor polls this.
    pub(crate) async fn process(&self) -> Process {
        // Many tests share two cores.
        let patience = Duration::from_secs(30);
        let mut store = PostgresConfig::new()
            .schema(&self.schema)
            .connections(4)
            .connect_timeout(patience)
            .notifications(false)
            .with_outbox();
        let mut streams = RedisConfig::new()
            .prefix(&self.prefix)
            .shards(4)
            .durability(Durability::Memory)
            .connect_timeout(patience);
        if let Some(clock) = &self.clock {
            store = store.clock(Arc::clone(clock));
            streams = streams.clock(Arc::clone(clock));
        }
        let redis = self.redis.clone();
        let opening = async move {
            let url = shared(POSTGRES).unwrap();
            let store = PostgresStore::connect_with(&url, store).await.unwrap();
            let streams = RedisStreams::open_with(&redis, streams).await.unwrap();
            Process { store, streams }
        };
        runtime().spawn(opening).await.unwrap()
    }
}

impl Process {
    pub(crate) fn relayed(&self) -> Relayed {
        let store = Arc::new(self.store.clone());
        Relayed::new(store.clone(), store, Arc::new(self.streams.clone()))
    }

    pub(crate) fn backend(&self) -> Backend {
        Backend::from(self.store.clone())
            .streaming_to(self.store.clone(), self.streams.clone())
            .retained_by(self.streams.clone())
    }
}

/// Creates the session `s`, through a process.
pub(crate) async fn created(process: &Relayed) -> SessionId {
    let root = SessionId::new("s").unwrap();
    let clock = VirtualClock::new(NOW);
    let sessions = Sessions::new(process, &clock);
    sessions
        .create_session(&root, NewSession::of("agent"))
        .await
        .unwrap();
    root
}

pub(crate) fn chunk(root: &SessionId, text: &str) -> Chunk {
    let (agent, run) = (AgentId::new("a").unwrap(), RunId::new("r").unwrap());
    let origin = ChunkOrigin::new(agent, "agent", root.clone(), run, 1);
    let delta = text.to_owned();
    Chunk::new(Arc::new(origin), NOW, ChunkPayload::TextDelta { delta })
}

/// A commit that says something.
pub(crate) fn says(root: &SessionId, text: &str) -> Commit {
    Commit::new(root.clone(), NOW).say(chunk(root, text))
}

/// Writes a delta under a fence.
pub(crate) async fn writes(
    process: &Relayed,
    root: &SessionId,
    fence: u64,
    text: &str,
) -> Result<Sequence, StreamError> {
    let writer = StreamWriter::new(root.clone(), root.clone(), Fence(fence));
    process
        .append_deltas(&writer, vec![chunk(root, text)])
        .await
}

/// The texts of a stream as it is stored.
pub(crate) async fn words(streams: &dyn StreamManager, root: &SessionId) -> Vec<String> {
    let read = streams.read(root, Sequence::START, 1000).await.unwrap();
    let words = read
        .into_iter()
        .filter_map(|stored| match stored.chunk.payload {
            ChunkPayload::TextDelta { delta } => Some(delta),
            _ => None,
        });
    words.collect()
}
