//! A process dies during a run, and another one continues it.

use std::process::Command;

use helix_agents_core::SessionId;
use helix_agents_core::runtime::{Outcome, RuntimeExt};
use helix_agents_process_tests::{Crash, deployer};
use helix_agents_runtime_local::LocalRuntime;
use helix_agents_store_sqlite::SqliteStore;

/// Nobody waits for the lease of a process that has ended, and nothing that it may have done is done
/// again.
///
/// proves in part: RUN-01
#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_run_whose_process_died_is_taken_over_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("helix.db");
    let mut child = Command::new(env!("CARGO_BIN_EXE_process-child"));
    let child = child.arg("run").arg(&file).arg("s0").output().unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert_eq!(child.status.code(), None, "it was to be killed: {said}");

    let agent = deployer(Crash::Nowhere).unwrap();
    let store = SqliteStore::open(&file).await.unwrap();
    let runtime = LocalRuntime::builder(store)
        .recovery(false)
        .agent(&agent)
        .build();
    let report = runtime.recover().await.unwrap();
    assert_eq!((report.recovered.len(), report.failed), (1, 0));

    let session = SessionId::new("s0").unwrap();
    let handle = runtime.handle(&agent, &session).await.unwrap().unwrap();
    let outcome = handle.outcome().await.unwrap();
    let Outcome::Done(text) = outcome else {
        unreachable!("the run ends: {outcome:?}");
    };
    let text = text.as_str();
    assert!(text.contains("may or may not have taken effect"), "{text}");
    assert_eq!(runtime.recover().await.unwrap().recovered.len(), 0);
}
