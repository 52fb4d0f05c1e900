use helix_agents_core::state::{StateOp, StepWrites};
use helix_agents_core::store::{Change, SessionStore};
use helix_agents_store_sqlite::{SqliteConfig, SqliteStore, Synchronous};
use helix_agents_testkit::block_on;
use rusqlite::Connection;
use serde_json::json;

use crate::builders::{count, create, on, run, step};
use crate::folder::Folder;

/// The bytes in use in the file of one session with this number of steps. Pages that a migration freed are
/// used first and would make the first steps look cheap, so they are not counted.
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
    let file = Connection::open(&path).unwrap();
    let pragma = |name| file.pragma_query_value(None, name, |row| row.get::<_, u32>(0));
    let [all, free, bytes] =
        ["page_count", "freelist_count", "page_size"].map(|name| pragma(name).unwrap());
    u64::from(all - free) * u64::from(bytes)
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

/// The bytes of this many versions of a state that grows with each version.
fn state_bytes(versions: usize) -> i64 {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    block_on(async {
        let config = SqliteConfig::new().synchronous(Synchronous::Normal);
        let store = SqliteStore::open_with(&path, config).await.unwrap();
        create(&store, "s").await;
        for lot in 0..versions / 20 {
            let mut commit = on("s");
            for nth in 0..20 {
                let value = json!(format!("{lot} {nth} {}", "x".repeat(500)));
                let path = "/log".parse().unwrap();
                let writes = StepWrites::from(vec![StateOp::Append { path, value }]);
                commit = commit.then(Change::WriteState(writes));
            }
            store.commit(commit).await.unwrap();
        }
    });
    count(&path, "SELECT sum(length(data)) FROM state")
        + count(&path, "SELECT coalesce(sum(length(data)), 0) FROM blob")
}

#[test]
fn a_version_of_a_state_costs_the_same_however_large_it_has_become() {
    let (few, many) = (400, 4_000);
    let [early, late] = [few, many].map(state_bytes);
    assert!(
        10 * late <= 12 * early * 10,
        "{late} bytes for {many} versions, {early} for {few}"
    );
}
