//! Measures that a hundred thousand suspended sessions cost nothing until they are queried.

use std::sync::Arc;
use std::time::Instant;

use helix_agents_core::id::{CallId, RunId, SessionId, UserId};
use helix_agents_core::session::{PendingCall, RunRecord, RunStatus, RunTrigger, SessionState};
use helix_agents_core::store::{Change, Commit, DueQuery, PendingQuery, SessionStore};
use helix_agents_core::time::Timestamp;
use helix_agents_store_sqlite::{SqliteConfig, SqliteStore, Synchronous};
use helix_agents_testkit::{VirtualClock, block_on};
use serde_json::json;

use crate::measure::{Report, median, print_figure};
use crate::sqlite::{Folder, Outcome};

const SESSIONS: usize = 100_000;
const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

pub(crate) fn run(report: &mut Report) {
    if let Err(error) = measure(report) {
        report.broken("suspended sessions", &error.to_string());
    }
}

fn measure(report: &mut Report) -> Outcome<()> {
    let folder = Folder::new("suspended")?;
    let (empty, full) = (folder.file("empty.db"), folder.file("full.db"));
    drop(block_on(SqliteStore::open(&empty))?);
    print_figure(&format!("writing {SESSIONS} suspended sessions"));
    fill(&full)?;

    let open = |file: &std::path::Path| -> Outcome<f64> {
        let mut times = Vec::new();
        for _ in 0..9 {
            let start = Instant::now();
            let store = block_on(SqliteStore::open(file))?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            drop(store);
        }
        Ok(median(times))
    };
    let more = open(&full)? - open(&empty)?;
    report.at_most(
        ("ms to open, more than empty", 100.0),
        ("with 100,000 sessions", more),
        1.0,
    );

    let before = resident_kb();
    let soon = NOW.saturating_add(std::time::Duration::from_secs(60));
    let config = SqliteConfig::new().clock(Arc::new(VirtualClock::new(soon)));
    let store = block_on(SqliteStore::open_with(&full, config))?;
    let inbox = PendingQuery {
        user_id: Some(UserId::new("user-7")?),
        ..PendingQuery::default()
    };
    let (mut pending, mut due) = (Vec::new(), Vec::new());
    for _ in 0..21 {
        let start = Instant::now();
        let found = block_on(store.pending(&inbox))?;
        pending.push(start.elapsed().as_secs_f64() * 1e3);
        if found.total != SESSIONS / 1_000 {
            return Err(format!("the inbox has {} entries", found.total).into());
        }
        let start = Instant::now();
        let found = block_on(store.due(&DueQuery::at(NOW).limit(50)))?.items;
        due.push(start.elapsed().as_secs_f64() * 1e3);
        if found.len() != 10 {
            return Err(format!("{} sessions are due", found.len()).into());
        }
    }
    report.at_most(
        ("ms, limit", 5.0),
        ("pending inbox of one user", median(pending)),
        1.0,
    );
    report.at_most(("ms, limit", 5.0), ("due work", median(due)), 1.0);
    let grown = resident_kb().saturating_sub(before);
    print_figure(&format!(
        "resident memory grew by {grown} KB over opening and asking"
    ));
    Ok(())
}

/// Each of a thousand users has a hundred sessions that wait; ten calls have a deadline soon.
fn fill(file: &std::path::Path) -> Outcome<()> {
    let config = SqliteConfig::new().synchronous(Synchronous::Normal);
    let store = block_on(SqliteStore::open_with(file, config))?;
    for n in 0..SESSIONS {
        let (session, run) = (
            SessionId::new(format!("s{n}"))?,
            RunId::new(format!("r{n}"))?,
        );
        let mut state = SessionState::new(session.clone(), "support", NOW);
        state.user_id = Some(UserId::new(format!("user-{}", n % 1_000))?);
        let mut record = RunRecord::started(
            run.clone(),
            session.clone(),
            RunTrigger::Execute,
            "local",
            NOW,
        );
        record.status = RunStatus::SuspendedClientTool;
        let call = CallId::new(format!("c{n}"))?;
        let mut waits =
            PendingCall::client(session.clone(), run, call, "pick", json!({ "n": n }), NOW);
        let seconds = if n % 10_000 == 0 { 30 } else { 1_000_000 };
        waits.deadline = Some(NOW.saturating_add(std::time::Duration::from_secs(seconds)));
        let commit = Commit::new(session, NOW)
            .then(Change::Create(Box::new(state)))
            .then(Change::StartRun(Box::new(record)))
            .then(Change::Pending(Box::new(waits)));
        block_on(store.commit(commit))?;
    }
    Ok(())
}

pub(crate) fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}
