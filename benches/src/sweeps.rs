//! Due work of others, however much, costs a sweep nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use helix_agents_core::agent::Agent;
use helix_agents_core::id::{RunId, SessionId};
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::model::Model;
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::{RunRecord, RunTrigger, SessionState};
use helix_agents_core::store::{Change, Commit, LeaseRequest};
use helix_agents_core::time::Timestamp;
use helix_agents_models::{Script, ScriptedModel};
use helix_agents_runtime_local::LocalRuntime;
use helix_agents_store_sqlite::{SqliteConfig, SqliteStore, Synchronous};
use helix_agents_testkit::{VirtualClock, block_on};

use crate::measure::{Report, median, print_figure};
use crate::sqlite::{Folder, Outcome};

const SESSIONS: usize = 100_000;
const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const LEASE: Duration = Duration::from_secs(10);

pub(crate) fn run(report: &mut Report) {
    if let Err(error) = measure(report) {
        report.broken("sweeps", &error.to_string());
    }
}

fn measure(report: &mut Report) -> Outcome<()> {
    let folder = Folder::new("sweeps")?;
    let clock = Arc::new(VirtualClock::new(NOW));
    let config = SqliteConfig::new()
        .synchronous(Synchronous::Normal)
        .clock(clock.clone());
    let file = block_on(SqliteStore::open_with(folder.file("due.db"), config))?;
    print_figure(&format!("writing {SESSIONS} lapsed runs of others, twice"));
    let places: [(&str, Backend); 2] = [
        ("SQLite", file.into()),
        ("memory", MemoryStore::new().into()),
    ];
    for (_, backend) in &places {
        fill(backend)?;
    }
    clock.advance(LEASE);
    let script = Script::parse(r#"{ "default": [ { "text": "hello" } ] }"#)?;
    let model: Arc<dyn Model> = Arc::new(ScriptedModel::new(script));
    let agent = Agent::builder("ours")
        .model(model)
        .system_prompt("Be.")
        .build()?;
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()?;
    for (name, backend) in places {
        let builder = LocalRuntime::builder(backend)
            .recovery(false)
            .clock(clock.clone());
        let sweeping = builder.agent(&agent).build();
        let mut times = Vec::new();
        for _ in 0..21 {
            let start = Instant::now();
            let found = tokio.block_on(sweeping.recover())?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            if found != Default::default() {
                return Err(format!("a sweep found {found:?}").into());
            }
        }
        let what = format!("a sweep, {name}");
        report.at_most(("ms, limit", 5.0), (&what, median(times)), 1.0);
    }
    Ok(())
}

/// Runs of an agent that is not here, whose leases lapse.
fn fill(backend: &Backend) -> Outcome<()> {
    for n in 0..SESSIONS {
        let session = SessionId::new(format!("s{n}"))?;
        let run = RunId::new(format!("r{n}"))?;
        let trigger = RunTrigger::Execute;
        let run = RunRecord::started(run, session.clone(), trigger, "local", NOW);
        let state = SessionState::new(session.clone(), "theirs", NOW);
        let lease = LeaseRequest::new("gone", LEASE);
        let commit = Commit::new(session, NOW)
            .then(Change::Create(Box::new(state)))
            .then(Change::StartRun(Box::new(run)))
            .then(Change::Lease(Some(lease)));
        block_on(backend.store.commit(commit))?;
    }
    Ok(())
}
