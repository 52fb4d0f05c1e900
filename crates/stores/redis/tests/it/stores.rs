use std::future::Future;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use helix_agents_store_redis::{Durability, RedisConfig, RedisStore};
use helix_agents_test_servers::{REDIS, REDIS_CLUSTER, RedisServer, RedisSettings, shared};
use helix_agents_testkit::crash::CrashReport;
use tokio::runtime::Runtime;
use tokio::task::unconstrained;

/// The runtime of all tests, whose threads drive the connections.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().unwrap()
    })
}

/// Runs a future in that runtime.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    // Cases wait for the store inside of the future that is polled here; with a budget of polls they would wait for ever.
    runtime().block_on(unconstrained(future))
}

/// Runs a test that needs the shared server, or skips it.
pub(crate) fn on_server<F: Future<Output = ()>>(test: F) {
    if shared(REDIS).is_some() {
        block_on(test);
    }
}

/// Runs a test that needs the shared cluster, or skips it.
pub(crate) fn on_cluster<F: Future<Output = ()>>(test: F) {
    if shared(REDIS_CLUSTER).is_some() {
        block_on(test);
    }
}

/// Plays a crash test on the shared server, or skips it.
pub(crate) fn crash_test<F: Future<Output = CrashReport>>(test: F) -> Option<CrashReport> {
    shared(REDIS).map(|_| block_on(test))
}

/// A server of its own; `None` if servers are not tested.
pub(crate) fn private(settings: RedisSettings) -> Option<RedisServer> {
    shared(REDIS).map(|_| RedisServer::start(settings).unwrap())
}

/// A prefix that no other test has.
pub(crate) fn prefix() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = now.unwrap().as_nanos();
    format!("test-{}-{nanos:x}-{count}", std::process::id())
}

/// A configuration for servers that keep nothing on the disk.
pub(crate) fn quick(prefix: &str) -> RedisConfig {
    RedisConfig::new()
        .prefix(prefix)
        .durability(Durability::Memory)
}

/// Opens a store.
pub(crate) async fn open(url: &str, config: RedisConfig) -> RedisStore {
    RedisStore::open_with(url, config).await.unwrap()
}

async fn answer(url: &str, words: &[&str]) -> redis::Value {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut command = redis::Cmd::new();
    command.arg(words);
    command.query_async(&mut connection).await.unwrap()
}

/// Sends a command to a server, as its operator would.
pub(crate) async fn command(url: &str, words: &[&str]) -> String {
    match answer(url, words).await {
        redis::Value::BulkString(bytes) => String::from_utf8(bytes).unwrap(),
        redis::Value::VerbatimString { text, .. } => text,
        _ => String::new(),
    }
}

/// Sends a command whose answer is a number.
pub(crate) async fn integer(url: &str, words: &[&str]) -> i64 {
    redis::from_redis_value(answer(url, words).await).unwrap()
}

/// Sends a command whose answer is a list of texts.
pub(crate) async fn list(url: &str, words: &[&str]) -> Vec<String> {
    redis::from_redis_value(answer(url, words).await).unwrap()
}
