use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use helix_agents_core::SessionId;
use helix_agents_process_tests::{StoredRounds, create, found};
use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::block_on;

const SESSIONS: usize = 3;

/// Numbers from a seed that is printed: the same run can be had again.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Runs a writer until it has acknowledged `until` rounds, and kills it while it continues.
/// Gives the last acknowledged round of each session, counted from 1.
fn kill_after(file: &Path, name: &str, until: u64) -> BTreeMap<String, usize> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_process-child"))
        .arg("write")
        .arg(file)
        .args([name, &SESSIONS.to_string(), "1000000", "alone"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut acknowledged = BTreeMap::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut note = |line: String| {
        // A line that the kill cut off is no acknowledgement.
        if let Some((session, round)) = line.split_once(' ')
            && let Ok(round) = round.parse::<usize>()
        {
            acknowledged.insert(session.to_owned(), round + 1);
        }
    };
    for _ in 0..until {
        note(lines.next().expect("the writer continues").unwrap());
    }
    child.kill().unwrap();
    for line in lines {
        note(line.unwrap());
    }
    child.wait().unwrap();
    acknowledged
}

/// 25 kills here; `HELIX_KILLS=500` in the long run.
///
/// proves: STO-02
#[test]
fn acknowledged_commits_are_complete_after_a_kill() {
    let kills: u64 = std::env::var("HELIX_KILLS").map_or(25, |text| text.parse().unwrap());
    let seed = std::env::var("HELIX_SEED").map_or(0x5eed, |text| text.parse().unwrap());
    println!("HELIX_SEED={seed} HELIX_KILLS={kills}");
    let mut random = Random(seed);
    let mut rounds = 0;
    for kill in 0..kills {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("helix.db");
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|n| SessionId::new(format!("s{n}")).unwrap())
            .collect();
        {
            let store = block_on(SqliteStore::open(&file)).unwrap();
            for session in &sessions {
                block_on(create(&store, session)).unwrap();
            }
        }
        let until = 1 + random.below(60);
        let acknowledged = kill_after(&file, "w", until);
        let store = block_on(SqliteStore::open(&file)).unwrap();
        for session in &sessions {
            let found = block_on(found(&store, session)).unwrap();
            let known = acknowledged.get(session.as_str()).copied().unwrap_or(0);
            // The commit that was under way may have happened; only its word did not get out.
            let happened = known..=known + 1;
            assert!(
                happened.contains(&found.messages),
                "kill {kill} after {until}: {session} had {known} acknowledged, found {found:?}"
            );
            assert_eq!(
                found,
                StoredRounds::whole(found.messages),
                "kill {kill} after {until}: {session}"
            );
            rounds += found.messages;
        }
    }
    println!("{kills} kills, {rounds} rounds kept, 0 lost");
}
