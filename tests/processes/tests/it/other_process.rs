use std::path::Path;
use std::process::{Child, Command};

use helix_agents_core::SessionId;
use helix_agents_core::lock::LockManager;
use helix_agents_core::session::StopKind;
use helix_agents_core::store::{
    Change, Commit, DueQuery, DueReason, DueSession, SessionStore, StoreError, WatchStops,
};
use helix_agents_core::stream::{Sequence, StreamManager};
use helix_agents_process_tests::{HOUR, NOW, create, lease, run};
use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::block_on;

fn start(task: &str, file: &Path, session: &SessionId) -> Child {
    Command::new(env!("CARGO_BIN_EXE_process-child"))
        .arg(task)
        .arg(file)
        .arg(session.as_str())
        .spawn()
        .unwrap()
}

/// A lease and a lock of a dead process on this host are void at once; those of the living are not.
///
/// proves in part: LCK-02
#[test]
#[cfg(target_os = "linux")]
fn what_a_dead_process_held_is_free_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("helix.db");
    let session = SessionId::new("s").unwrap();
    block_on(async {
        let store = SqliteStore::open(&file).await.unwrap();
        create(&store, &session).await.unwrap();
        assert!(!start("take", &file, &session).wait().unwrap().success());
        let snapshot = store.load(session.as_root()).await.unwrap().unwrap();
        let held = snapshot.lease.unwrap();
        assert!(held.until > NOW);
        assert_ne!(held.holder, SqliteStore::holder());

        let lapsed = DueReason::LapsedLease {
            run: run(&session).unwrap().id,
            host: "local".to_owned(),
        };
        let due = async || {
            let query = DueQuery::at(NOW).of_agents(["writer"]);
            store.due(&query).await.unwrap().items
        };
        assert_eq!(
            due().await,
            [DueSession::new(session.as_root(), vec![lapsed])]
        );
        let taken = lease(&session, SqliteStore::holder());
        store.commit(taken).await.unwrap();
        let refused = store.commit(lease(&session, "somebody")).await;
        assert!(
            matches!(refused, Err(StoreError::Refused { .. })),
            "this one lives"
        );
        assert_eq!(due().await, []);

        let lock = store.acquire("key", "somebody", NOW, HOUR).await.unwrap();
        assert_eq!(lock.unwrap().token, 2);
    });
}

/// Who waits here hears what is written elsewhere. How soon is measured in `benches`.
#[test]
fn what_another_process_writes_wakes_those_who_wait() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("helix.db");
    let session = SessionId::new("s").unwrap();
    block_on(async {
        let store = SqliteStore::open(&file).await.unwrap();
        create(&store, &session).await.unwrap();
        let record = run(&session).unwrap();
        let run_id = record.id.clone();
        let begun = Commit::new(session.clone(), NOW).then(Change::StartRun(Box::new(record)));
        store.commit(begun).await.unwrap();
        let mut other = start("stop", &file, &session);
        let stop = store.stopped(session.as_root(), &run_id).await.unwrap();
        assert_eq!(stop.kind, StopKind::Abort);
        store.changed(&session, None).await.unwrap();
        let chunks = store.read(&session, Sequence::START, 9).await.unwrap();
        assert_eq!(chunks.len(), 1);
        assert!(other.wait().unwrap().success());
    });
}
