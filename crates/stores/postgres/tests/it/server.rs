use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use helix_agents_store_postgres::{Error, PostgresConfig, PostgresStore};
use helix_agents_test_servers::{POSTGRES, shared};
use tokio::runtime::{Builder, Runtime};
use tokio::task::unconstrained;
use tokio_postgres::NoTls;

/// The runtime of all stores of this process.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().unwrap()
    })
}

/// The URL of the shared server; `None` if there is none, which is said.
pub(crate) fn url() -> Option<String> {
    shared(POSTGRES)
}

/// Runs a test on the runtime, if there is a server.
pub(crate) fn with_server(test: impl Future<Output = ()>) {
    if url().is_some() {
        // Cases wait for the store inside of the future that is polled here; with a budget of polls they would wait for ever.
        runtime().block_on(unconstrained(test));
    }
}

/// The name of a schema that no other test uses.
pub(crate) fn schema() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = since.unwrap().as_micros() % 1_000_000_000;
    format!("t{}_{now}_{count}", std::process::id())
}

/// The configuration of a small store in this schema.
pub(crate) fn config(schema: &str) -> PostgresConfig {
    let patience = Duration::from_secs(30);
    let config = PostgresConfig::new().schema(schema).connections(4);
    // Many tests share two cores.
    config.connect_timeout(patience)
}

/// Opens a store, whichever executor polls this.
pub(crate) async fn try_open(url: &str, config: PostgresConfig) -> Result<PostgresStore, Error> {
    let url = url.to_owned();
    let opening = async move { PostgresStore::connect_with(&url, config).await };
    runtime().spawn(opening).await.unwrap()
}

/// Opens a store on the shared server.
pub(crate) async fn open(config: PostgresConfig) -> PostgresStore {
    try_open(&url().unwrap(), config).await.unwrap()
}

/// Sends statements to a server, on a connection of their own.
pub(crate) async fn send(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
}
