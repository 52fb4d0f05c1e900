//! Measures costs that must not grow with the age of a session, nor with other users of the file.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use helix_agents_core::id::{CallId, SessionId};
use helix_agents_core::message::UserMessage;
use helix_agents_core::state::{Pointer, StateOp, StepWrites};
use helix_agents_core::store::{
    AnsweredCall, Change, Commit, Field, NewSession, Page, SessionStore, Sessions,
};
use helix_agents_core::time::Timestamp;
use helix_agents_store_sqlite::{SqliteConfig, SqliteStore, Synchronous};
use helix_agents_testkit::{VirtualClock, block_on};
use serde_json::json;

use crate::bare::Bare;
use crate::measure::{Report, median, print_figure};
use crate::sqlite::{Folder, Outcome};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

type Part = fn(&mut Report) -> Outcome<()>;

pub(crate) fn run(report: &mut Report) {
    let groups: [(&str, Part); 3] = [("log", log), ("states", states), ("answered", answered)];
    for (name, group) in groups {
        if let Err(error) = group(report) {
            report.broken(name, &error.to_string());
        }
    }
}

/// A store that does not wait for the disk: what is compared here is work and bytes.
fn open(path: &Path, readers: usize) -> Outcome<SqliteStore> {
    let config = SqliteConfig::new()
        .synchronous(Synchronous::Normal)
        .readers(readers);
    Ok(block_on(SqliteStore::open_with(path, config))?)
}

fn create(store: &SqliteStore, name: &str) -> Outcome<SessionId> {
    let session = SessionId::new(name)?;
    let clock = VirtualClock::new(NOW);
    block_on(Sessions::new(store, &clock).create_session(&session, NewSession::of("bench")))?;
    Ok(session)
}

fn append_commit(session: &SessionId, bytes: usize) -> Commit {
    Commit::new(session.clone(), NOW).then(Change::AppendUser(UserMessage::new("x".repeat(bytes))))
}

/// Measures the write-ahead log while a reader is always active.
fn log(report: &mut Report) -> Outcome<()> {
    const READERS: usize = 8;
    const COMMITS: usize = 4_000;
    let folder = Folder::new("log")?;
    let file = folder.file("store.db");
    let store = open(&file, READERS)?;
    let (read, written) = (create(&store, "read")?, create(&store, "written")?);
    for _ in 0..300 {
        block_on(store.commit(append_commit(&read, 2_000)))?;
    }
    let (is_over, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    let longest = std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let read = block_on(store.messages(read.as_root(), Page::ALL));
                    reads.fetch_add(usize::from(read.is_ok()), Ordering::Relaxed);
                }
            });
        }
        let mut longest = 0;
        let mut write = || -> Outcome<()> {
            for _ in 0..COMMITS {
                block_on(store.commit(append_commit(&written, 4_000)))?;
                longest = longest.max(std::fs::metadata(folder.file("store.db-wal"))?.len());
            }
            Ok(())
        };
        let done = write();
        is_over.store(true, Ordering::Relaxed);
        done.map(|()| longest)
    })?;
    let kept = std::fs::metadata(&file)?.len() as f64 / 1e6;
    print_figure(&format!(
        "{COMMITS} commits beside {} reads; {kept:.0} MB in the file",
        reads.into_inner()
    ));
    report.at_most(
        ("MB, limit", 12.0),
        ("MB of log, 8 overlapping readers", longest as f64 / 1e6),
        1.0,
    );
    Ok(())
}

/// Measures the bytes that each version of a growing state adds to the file.
fn states(report: &mut Report) -> Outcome<()> {
    let size = |versions: usize| -> Outcome<f64> {
        let folder = Folder::new(&format!("states-{versions}"))?;
        let file = folder.file("store.db");
        let store = open(&file, 1)?;
        let session = create(&store, "s")?;
        drop(store);
        let empty = std::fs::metadata(&file)?.len();
        let store = open(&file, 1)?;
        for lot in 0..versions / 20 {
            let mut commit = Commit::new(session.clone(), NOW);
            for nth in 0..20 {
                let writes = StepWrites::from(vec![StateOp::Append {
                    path: Pointer::root().join("log"),
                    value: json!(format!("{lot} {nth} {}", "x".repeat(500))),
                }]);
                commit = commit.then(Change::WriteState(writes));
            }
            block_on(store.commit(commit))?;
        }
        drop(store);
        Ok((Bare::bytes_used(&file)? - empty) as f64 / versions as f64)
    };
    report.at_most(
        ("bytes a version, 400 versions", size(400)?),
        ("bytes a version, 4,000 versions", size(4_000)?),
        1.2,
    );
    Ok(())
}

/// Measures a commit in a session in which many calls were answered.
fn answered(report: &mut Report) -> Outcome<()> {
    const ROUNDS: usize = 15;
    const COMMITS: usize = 400;
    let folder = Folder::new("answered")?;
    let made = |calls: usize| -> Outcome<(SqliteStore, SessionId)> {
        let store = open(&folder.file(&format!("store-{calls}.db")), 1)?;
        let session = create(&store, "s")?;
        let mut commit = Commit::new(session.clone(), NOW);
        for n in 0..calls {
            let call = CallId::new(format!("toolu_01A09q90qw90lq917835{n:06}"))?;
            commit = commit.set(Field::CompletedCall(AnsweredCall::new(call, NOW)));
        }
        block_on(store.commit(commit))?;
        Ok((store, session))
    };
    let subjects = [made(10)?, made(5_000)?];
    let mut times = [Vec::new(), Vec::new()];
    // Rounds of one length, in turns: how often SQLite moves its log into the file depends on the
    // number of commits, and must fall on both alike.
    for _ in 0..ROUNDS {
        for ((store, session), times) in subjects.iter().zip(&mut times) {
            let start = Instant::now();
            for _ in 0..COMMITS {
                let commit = Commit::new(session.clone(), NOW).then(Change::Lease(None));
                block_on(store.commit(commit))?;
            }
            times.push(start.elapsed().as_secs_f64() / COMMITS as f64 * 1e6);
        }
    }
    let [few, many] = times.map(median);
    report.at_most(
        ("µs a commit, 10 answered calls", few),
        ("µs a commit, 5,000 answered calls", many),
        1.2,
    );
    Ok(())
}
