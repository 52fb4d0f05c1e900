//! The contracts of the ports, once in a file that two stores share, once in memory.

use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::contract::{LockSubject, Subject};

use crate::folder::Folder;

async fn in_file() -> Subject {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let elsewhere = SqliteStore::open(&path).await.unwrap();
    Subject::from(store).also(elsewhere).keeping(folder)
}

async fn locks_in_file() -> LockSubject {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let elsewhere = SqliteStore::open(&path).await.unwrap();
    LockSubject::from(store).also(elsewhere).keeping(folder)
}

async fn in_memory() -> SqliteStore {
    SqliteStore::in_memory().await.unwrap()
}

mod file {
    helix_agents_testkit::store_contract!(super::in_file);
    helix_agents_testkit::stream_contract!(super::in_file);
    helix_agents_testkit::lock_contract!(super::locks_in_file);
}

mod memory {
    helix_agents_testkit::store_contract!(super::in_memory);
    helix_agents_testkit::stream_contract!(super::in_memory);
    helix_agents_testkit::lock_contract!(super::in_memory);
}
