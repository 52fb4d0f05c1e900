//! A child process for the tests.
//!
//! - `write FILE NAME SESSIONS ROUNDS [alone]`: writes ROUNDS rounds, in turn to the sessions `s0`...,
//!   and prints `SESSION ROUND` after each commit that the store acknowledged. With `alone` it is the
//!   only writer of its sessions and says which round it is.
//! - `take FILE SESSION`: starts a run of the session under a lease, takes a lock, and dies.
//! - `stop FILE SESSION`: asks the session's run to stop.
//! - `run FILE SESSION`: runs an agent in the session, and dies inside of its call.

use std::io::Write;

use anyhow::{Context, Result};
use helix_agents_core::SessionId;
use helix_agents_core::runtime::{RuntimeExt, Turn};
use helix_agents_core::store::SessionStore;
use helix_agents_process_tests::{Crash, deployer, round, stop, take};
use helix_agents_runtime_local::LocalRuntime;
use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::block_on;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [task, file, rest @ ..] = arguments.as_slice() else {
        anyhow::bail!("usage: process-child write|take|stop|run FILE ...");
    };
    let store = block_on(SqliteStore::open(file)).context("opening the store")?;
    match (*task, rest) {
        ("write", [name, sessions, rounds, rest @ ..]) => {
            let alone = rest.first() == Some(&"alone");
            write(&store, name, sessions.parse()?, rounds.parse()?, alone)
        }
        ("take", [session]) => {
            block_on(take(&store, &SessionId::new(session)?))?;
            // No destructor runs, as in a crash.
            std::process::abort();
        }
        ("stop", [session]) => block_on(stop(&store, &SessionId::new(session)?)),
        ("run", [session]) => run(store, SessionId::new(session)?),
        _ => anyhow::bail!("there is no task {task} with these arguments"),
    }
}

#[tokio::main]
async fn run(store: SqliteStore, session: SessionId) -> Result<()> {
    let (runtime, agent) = (
        LocalRuntime::builder(store).recovery(false).build(),
        deployer(Crash::Inside)?,
    );
    let request = Turn::new("Deploy.").session(session);
    let handle = runtime.execute(&agent, request).await?;
    anyhow::bail!("the run ended: {:?}", handle.outcome().await?);
}

fn write(
    store: &SqliteStore,
    name: &str,
    sessions: usize,
    rounds: usize,
    alone: bool,
) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for n in 0..rounds {
        let (session, round_of) = (SessionId::new(format!("s{}", n % sessions))?, n / sessions);
        let commit = round(
            &session,
            &format!("{name}-{round_of}"),
            alone.then_some(round_of),
        )?;
        block_on(store.commit(commit))?;
        writeln!(out, "{session} {round_of}")?;
        out.flush()?;
    }
    Ok(())
}
