//! The other process is this test binary, started again with [`CHILD`] as its only test.

use std::env;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use helix_agents_core::lock::LockManager;
use helix_agents_core::session::{RunStatus, StopKind, StopRequest};
use helix_agents_core::store::{
    Change, Due, Lease, Page, Precondition, SessionStore, StoreError, WatchStops,
};
use helix_agents_core::stream::{Sequence, StreamManager, StreamStatus};
use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::block_on;

use crate::folder::Folder;
use crate::make::{NOW, create, delta, id, on, run, says};

const CHILD: &str = "processes::child";
const TASK: &str = "HELIX_SQLITE_TASK";
const FILE: &str = "HELIX_SQLITE_FILE";
const HOUR: Duration = Duration::from_secs(3600);

fn start(task: &str, path: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args([CHILD, "--exact", "--nocapture", "--test-threads=1"])
        .env(TASK, task)
        .env(FILE, path)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

/// What the other process does. Without a task it is just a test that passes.
#[test]
fn child() {
    let (Ok(task), Ok(file)) = (env::var(TASK), env::var(FILE)) else {
        return;
    };
    block_on(async {
        let store = SqliteStore::open(&file).await.unwrap();
        match task.as_str() {
            "take" => {
                let session = id("s");
                let lease = Lease::new(SqliteStore::holder(), NOW.saturating_add(HOUR));
                let commit = on("s")
                    .then(Change::StartRun(Box::new(run(&session))))
                    .then(Change::Lease(Some(lease)));
                store.commit(commit).await.unwrap();
                let locked = store.acquire("key", SqliteStore::holder(), NOW, HOUR).await;
                assert!(locked.unwrap().is_some());
                // No destructor runs, as in a crash.
                std::process::abort();
            }
            "stop" => {
                let stop = StopRequest::new(run(&id("s")).id, StopKind::Abort, NOW);
                let commit = on("s")
                    .then(Change::Stop(stop))
                    .say(delta(&id("s"), "late"));
                store.commit(commit).await.unwrap();
            }
            "write" => {
                for number in 0..50 {
                    let commit = on("s").then(says(&format!("child {number}")));
                    store.commit(commit).await.unwrap();
                    let commit = on("t").then(says(&format!("child {number}")));
                    store.commit(commit).await.unwrap();
                }
            }
            other => panic!("there is no task {other}"),
        }
    });
}

/// proves: LCK-02
#[test]
#[cfg(target_os = "linux")]
fn what_a_dead_process_held_is_free_at_once() {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        let session = create(&store, "s").await;
        assert!(!start("take", &path).wait().unwrap().success());
        let snapshot = store.load(&session).await.unwrap().unwrap();
        let lease = snapshot.lease.unwrap();
        assert!(lease.until > NOW);
        assert_ne!(lease.holder, SqliteStore::holder());

        let due = store.due(NOW, 10).await.unwrap();
        let lapsed = Due::LapsedLease {
            run: run(&session).id,
            host: "local".to_owned(),
        };
        assert_eq!(due, [(session.clone(), vec![lapsed])]);
        let take = |holder: &str| {
            on("s")
                .when(Precondition::LeaseFree {
                    holder: holder.to_owned(),
                    at: NOW,
                })
                .then(Change::RaiseFence)
                .then(Change::Lease(Some(Lease::new(
                    holder,
                    NOW.saturating_add(HOUR),
                ))))
        };
        store.commit(take(SqliteStore::holder())).await.unwrap();
        let refused = store.commit(take("somebody")).await;
        assert!(
            matches!(refused, Err(StoreError::Refused { .. })),
            "this one lives"
        );
        assert_eq!(store.due(NOW, 10).await.unwrap(), []);

        let lock = store.acquire("key", "somebody", NOW, HOUR).await.unwrap();
        assert_eq!(lock.unwrap().token, 2);
    });
}

#[test]
fn what_another_process_writes_wakes_those_who_wait() {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        let session = create(&store, "s").await;
        let begun = on("s").then(Change::StartRun(Box::new(run(&session))));
        store.commit(begun).await.unwrap();
        let mut other = start("stop", &path);
        let run_id = run(&session).id;
        let stop = store.stopped(&session, &run_id);
        let changed = store.changed(&session, Sequence::START, StreamStatus::Active);
        let (stop, changed) = futures_util::future::join(stop, changed).await;
        let heard = Instant::now();
        assert_eq!(stop.unwrap().kind, StopKind::Abort);
        changed.unwrap();
        let chunks = StreamManager::read(&store, &session, Sequence::START, 9).await;
        assert_eq!(chunks.unwrap().len(), 1);
        assert!(other.wait().unwrap().success());
        assert!(heard.elapsed() < Duration::from_secs(5));
        let status = store.load(&session).await.unwrap().unwrap().run.unwrap();
        assert_eq!(status.status, RunStatus::Running);
    });
}

/// How late a write through another connection is heard.
#[test]
fn a_write_elsewhere_is_heard_within_50_ms() {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    let (here, there) = block_on(async {
        let here = SqliteStore::open(&path).await.unwrap();
        create(&here, "s").await;
        (here, SqliteStore::open(&path).await.unwrap())
    });
    let session = id("s");
    let mut delays: Vec<Duration> = (0..21_u64)
        .map(|number| {
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| {
                    let changed = here.changed(&session, Sequence(number), StreamStatus::Active);
                    block_on(changed).unwrap();
                    Instant::now()
                });
                block_on(there.commit(on("s").say(delta(&session, "x")))).unwrap();
                let written = Instant::now();
                let heard = waiting.join().unwrap();
                heard.saturating_duration_since(written)
            })
        })
        .collect();
    delays.sort();
    assert!(delays[10] < Duration::from_millis(50), "{delays:?}");
}

/// proves: STO-10
#[test]
fn two_processes_write_to_the_same_and_to_different_sessions() {
    let folder = Folder::new();
    let path = folder.file("helix.db");
    block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        create(&store, "s").await;
        create(&store, "t").await;
        let mut other = start("write", &path);
        for number in 0..50 {
            let commit = on("s").then(says(&format!("parent {number}")));
            store.commit(commit).await.unwrap();
        }
        assert!(other.wait().unwrap().success());
        for (session, total) in [("s", 100), ("t", 50)] {
            let messages = store.messages(&id(session), Page::ALL).await.unwrap();
            assert_eq!(messages.total, total);
            let snapshot = store.load(&id(session)).await.unwrap().unwrap();
            let version = u64::try_from(total).unwrap() + 1;
            assert_eq!(snapshot.state.version, version);
        }
    });
}
