//! The contracts of the ports, once in a file that two stores share, once in memory; and that of
//! runtimes over a file, which every process opens for itself.

use helix_agents_store_sqlite::{SqliteConfig, SqliteStore};
use helix_agents_testkit::contract::{LockSubject, Runner, RuntimeSubject, Subject};

use crate::folder::Folder;

async fn in_file() -> Subject {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    let clock = Subject::fresh_clock();
    let open = async || {
        let config = SqliteConfig::new().clock(clock.clone());
        SqliteStore::open_with(&path, config).await.unwrap()
    };
    let (store, elsewhere) = (open().await, open().await);
    let subject = Subject::from(store)
        .also(elsewhere)
        .living_by(clock.clone());
    let again = folder.file("again.db");
    subject.keeping(folder).reopened_by(async move || {
        let config = SqliteConfig::new().clock(clock.clone());
        SqliteStore::open_with(&again, config).await.unwrap()
    })
}

async fn locks_in_file() -> LockSubject {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let elsewhere = SqliteStore::open(&path).await.unwrap();
    LockSubject::from(store).also(elsewhere).keeping(folder)
}

async fn in_memory() -> Subject {
    let clock = Subject::fresh_clock();
    let config = SqliteConfig::new().clock(clock.clone());
    let store = SqliteStore::in_memory_with(config).await.unwrap();
    Subject::from(store).living_by(clock).not_durable()
}

async fn locks_in_memory() -> SqliteStore {
    SqliteStore::in_memory().await.unwrap()
}

async fn runtime_on_file() -> RuntimeSubject {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    let open = move |clock| {
        let (path, config) = (path.clone(), SqliteConfig::new().clock(clock));
        async move { SqliteStore::open_with(&path, config).await.unwrap() }
    };
    let subject = RuntimeSubject::opened_by(Runner::default(), open).await;
    subject.keeping(folder)
}

mod file {
    helix_agents_testkit::runtime_contract!(super::runtime_on_file);
    helix_agents_testkit::store_contract!(super::in_file);
    helix_agents_testkit::clock_contract!(super::in_file);
    helix_agents_testkit::stream_contract!(super::in_file);
    helix_agents_testkit::lock_contract!(super::locks_in_file);
}

mod memory {
    helix_agents_testkit::store_contract!(super::in_memory);
    helix_agents_testkit::clock_contract!(super::in_memory);
    helix_agents_testkit::stream_contract!(super::in_memory);
    helix_agents_testkit::lock_contract!(super::locks_in_memory);
}
