//! Measures how soon calls are timed out after their deadline, when a thousand of a hundred thousand sessions
//! fall due together, on SQLite, and how much the sweeper costs while nothing is due.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::agent::Agent;
use helix_agents_core::id::{CallId, RunId, SessionId};
use helix_agents_core::model::Model;
use helix_agents_core::runtime::{RuntimeExt, Turn};
use helix_agents_core::session::{PendingCall, RunRecord, RunStatus, RunTrigger, SessionState};
use helix_agents_core::store::{Change, Commit, DueKind, DueQuery, SessionStore};
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_core::tool::Tool;
use helix_agents_models::{Script, ScriptedModel};
use helix_agents_runtime_local::{LocalRuntime, SystemClock};
use helix_agents_store_sqlite::{SqliteConfig, SqliteStore, Synchronous};
use serde_json::json;

use crate::measure::{Bound, Report, Target, median, print_figure};
use crate::sqlite::{Folder, Outcome};
use crate::stops::cpu_seconds;

const SESSIONS: usize = 100_000;
const TOGETHER: usize = 1_000;
const ROUNDS: u32 = 5;
/// How long the cost of the idle sweeper is measured.
const IDLE: Duration = Duration::from_secs(10);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) fn run(report: &mut Report) {
    if let Err(error) = measure(report) {
        report.broken("deadlines", &error.to_string());
    }
}

fn measure(report: &mut Report) -> Outcome<()> {
    let host = tokio::runtime::Builder::new_multi_thread();
    let host = { host }.worker_threads(2).enable_all().build()?;
    host.block_on(time_out(report))
}

async fn time_out(report: &mut Report) -> Outcome<()> {
    let folder = Folder::new("deadlines")?;
    let file = folder.file("store.db");
    print_figure(&format!("writing {SESSIONS} suspended sessions"));
    let quick = SqliteConfig::new().synchronous(Synchronous::Normal);
    let store = SqliteStore::open_with(&file, quick).await?;
    for number in 0..SESSIONS {
        store.commit(suspended(number)?).await?;
    }
    drop(store);
    let store = SqliteStore::open(&file).await?;
    let agent = asking()?;
    let builder = LocalRuntime::builder(store.clone()).recovery(false);
    let runtime = builder.agent(&agent).auto_continue(true).build();
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        rounds.push(ask(&runtime, &agent, round).await?);
    }
    runtime.start_recovery()?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = cpu_seconds()?;
    tokio::time::sleep(IDLE).await;
    let share = (cpu_seconds()? - before) / IDLE.as_secs_f64();
    let mut delays = Vec::new();
    for (round, pending) in (0..).zip(&rounds) {
        // Each round falls due at another moment between two sweeps.
        let wait = Duration::from_millis(2_000 + 200 * round);
        let instant = SystemClock.now().saturating_add(wait);
        delays.push(fall_due(&store, pending, instant).await?);
    }
    let worst = delays.iter().copied().fold(0.0, f64::max);
    report.target(Target {
        what: "s until the last of 1,000 calls is timed out",
        ours: worst,
        bound: Bound::AtMost(2.0),
        tolerated: None,
        beside: format!("median {:.2} of {ROUNDS}", median(delays)),
    });
    report.target(Target {
        what: "share of a core to sweep 100,000 sessions",
        ours: share,
        bound: Bound::AtMost(0.01),
        tolerated: None,
        beside: String::new(),
    });
    Ok(())
}

/// A suspended session of another agent, whose call has a day left.
fn suspended(number: usize) -> Outcome<Commit> {
    let now = SystemClock.now();
    let session = SessionId::new(format!("s{number}"))?;
    let run = RunId::new(format!("r{number}"))?;
    let call = CallId::new(format!("c{number}"))?;
    let state = SessionState::new(session.clone(), "theirs", now);
    let mut pending =
        PendingCall::client(session.clone(), run.clone(), call, "ask", json!({}), now);
    pending.deadline = Some(now.saturating_add(DAY));
    let trigger = RunTrigger::Execute;
    let mut run = RunRecord::started(run, session.clone(), trigger, "local", now);
    run.status = RunStatus::SuspendedClientTool;
    Ok(Commit::new(session, now)
        .then(Change::Create(Box::new(state)))
        .then(Change::StartRun(Box::new(run)))
        .then(Change::Pending(Box::new(pending))))
}

fn asking() -> Outcome<Agent> {
    let script = r#"{ "default": [
        { "tool_calls": [ { "id": "c1", "name": "ask", "arguments": {} } ] }, { "text": "done" } ] }"#;
    let model: Arc<dyn Model> = Arc::new(ScriptedModel::new(Script::parse(script)?));
    let ask = Tool::client_raw("ask", "Asks.", json!({ "type": "object" }));
    let agent = Agent::builder("ours").model(model).system_prompt("Be.");
    Ok(agent.tools(ask.deadline(DAY)).build()?)
}

/// Starts the sessions of a round, and returns their pending calls.
async fn ask(runtime: &LocalRuntime, agent: &Agent, round: u32) -> Outcome<Vec<PendingCall>> {
    let mut all = Vec::new();
    for number in 0..TOGETHER {
        let turn = Turn::new("Go.").session(format!("ours-{round}-{number}"));
        let outcome = runtime.execute(agent, turn).await?.outcome().await?;
        let pause = outcome.suspended().ok_or("it does not wait")?;
        all.extend(pause.pending().iter().cloned());
    }
    Ok(all)
}

/// Lets the calls of a round fall due at this instant, and returns how many seconds later the last of them is
/// timed out.
async fn fall_due(
    store: &SqliteStore,
    pending: &[PendingCall],
    instant: Timestamp,
) -> Outcome<f64> {
    for call in pending {
        let mut call = call.clone();
        call.deadline = Some(instant);
        let commit = Commit::new(call.session_id.clone(), SystemClock.now());
        let commit = commit.then(Change::Pending(Box::new(call)));
        store.commit(commit).await?;
    }
    if SystemClock.now() >= instant {
        return Err("the deadlines passed while they were written".into());
    }
    SystemClock.sleep_until(instant).await;
    loop {
        let query = DueQuery::at(SystemClock.now()).of_kinds([DueKind::Deadline]);
        let due = store.due(&query.limit(1)).await?;
        // A sleep may end a moment early: then nothing is due yet.
        if due.at >= instant && due.items.is_empty() && due.next.is_none() {
            return Ok(SystemClock.now().since(instant).as_secs_f64());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
