//! The contracts of the ports, on a server and on a cluster, each subject with two connections and keys of its own.
//!
//! proves in part: LCK-02

use helix_agents_test_servers::{REDIS, REDIS_CLUSTER};
use helix_agents_testkit::contract::{LockSubject, Runner, RuntimeSubject, Subject};

use crate::stores::{on_server, open, prefix, quick};

async fn on(variable: &str, shards: u16) -> Subject {
    let url = std::env::var(variable).unwrap();
    let clock = Subject::fresh_clock();
    let prefix = prefix();
    let config = quick(&prefix).shards(shards).clock(clock.clone());
    let store = open(&url, config.clone()).await;
    let elsewhere = open(&url, config).await;
    let again = quick(&format!("{prefix}-again")).shards(shards);
    let again = again.clock(clock.clone());
    Subject::from(store)
        .also(elsewhere)
        .living_by(clock)
        .reopened_by(async move || open(&url, again.clone()).await)
}

async fn server() -> Subject {
    on(REDIS, 64).await
}

async fn cluster() -> Subject {
    on(REDIS_CLUSTER, 7).await
}

async fn locks() -> LockSubject {
    let url = std::env::var(REDIS).unwrap();
    let prefix = prefix();
    let store = open(&url, quick(&prefix)).await;
    LockSubject::from(store).also(open(&url, quick(&prefix)).await)
}

async fn runtime() -> RuntimeSubject {
    let prefix = prefix();
    let opening = move |clock| {
        let (url, config) = (std::env::var(REDIS).unwrap(), quick(&prefix).clock(clock));
        async move { open(&url, config).await }
    };
    RuntimeSubject::opened_by(Runner::new(|task| on_server(task)), opening).await
}

/// On one server.
mod server {
    use crate::stores::on_server;

    helix_agents_testkit::store_contract!(super::server, block_on = on_server);
    helix_agents_testkit::clock_contract!(super::server, block_on = on_server);
    helix_agents_testkit::stream_contract!(super::server, block_on = on_server);
    helix_agents_testkit::lock_contract!(super::locks, block_on = on_server);
    helix_agents_testkit::runtime_contract!(super::runtime, block_on = on_server);
}

/// On a cluster of three nodes.
mod cluster {
    use crate::stores::on_cluster;

    helix_agents_testkit::store_contract!(super::cluster, block_on = on_cluster);
    helix_agents_testkit::stream_contract!(super::cluster, block_on = on_cluster);
}
