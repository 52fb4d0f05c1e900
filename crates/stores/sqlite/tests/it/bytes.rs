use std::fs;

use helix_agents_core::store::{Change, SessionStore};
use helix_agents_store_sqlite::{SqliteConfig, SqliteStore, Synchronous};
use helix_agents_testkit::block_on;

use crate::folder::Folder;
use crate::make::{create, on, run, step};

/// How large the file of one session of so many steps is.
fn size(steps: usize) -> u64 {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    block_on(async {
        let config = SqliteConfig::new().synchronous(Synchronous::Normal);
        let store = SqliteStore::open_with(&path, config).await.unwrap();
        let session = create(&store, "session").await;
        let start = on("session").then(Change::StartRun(Box::new(run(&session))));
        store.commit(start).await.unwrap();
        for number in 1..=steps {
            for commit in step(&session, number) {
                store.commit(commit).await.unwrap();
            }
        }
    });
    fs::metadata(&path).unwrap().len()
}

/// proves: SES-09
#[test]
fn a_step_costs_under_600_bytes_however_many_there_are() {
    let empty = size(0);
    let [fifty, hundred, two_hundred, thousand] =
        [50, 100, 200, 1000].map(|steps| size(steps) - empty);
    for (bytes, steps) in [(fifty, 50), (two_hundred, 200), (thousand, 1000)] {
        assert!(
            bytes / steps < 600,
            "{} bytes per step of {steps}",
            bytes / steps
        );
    }
    assert!(
        thousand * 10 <= hundred * 11 * 10,
        "{thousand} bytes for 1000 steps, {hundred} for 100"
    );
}
