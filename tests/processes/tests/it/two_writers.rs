use std::process::{Child, Command};

use helix_agents_core::SessionId;
use helix_agents_process_tests::{StoredRounds, create, found};
use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::block_on;

const ROUNDS: usize = 60;

fn start(file: &std::path::Path, name: &str, sessions: usize) -> Child {
    Command::new(env!("CARGO_BIN_EXE_process-child"))
        .arg("write")
        .arg(file)
        .args([name, &sessions.to_string(), &ROUNDS.to_string()])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

/// proves: STO-03, STO-10
#[test]
fn two_processes_write_at_once_and_nothing_is_lost() {
    for sessions in [1, 4] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("helix.db");
        let ids: Vec<_> = (0..sessions)
            .map(|n| SessionId::new(format!("s{n}")).unwrap())
            .collect();
        let store = block_on(SqliteStore::open(&file)).unwrap();
        for session in &ids {
            block_on(create(&store, session)).unwrap();
        }
        let writers = ["a", "b"].map(|name| start(&file, name, sessions));
        for mut writer in writers {
            assert!(writer.wait().unwrap().success());
        }
        for session in &ids {
            let found = block_on(found(&store, session)).unwrap();
            assert_eq!(
                found,
                StoredRounds::whole(2 * ROUNDS / sessions),
                "{session} of {sessions}"
            );
        }
    }
}
