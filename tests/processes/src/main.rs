//! A child process for the tests: writes rounds and says which are acknowledged.
//!
//! `process-child FILE NAME SESSIONS ROUNDS [alone]`: writes ROUNDS rounds, in turn to the sessions
//! `s0`..., and prints `SESSION ROUND` after each commit that the store acknowledged. With `alone`
//! it is the only writer of its sessions and says which round it is.

use std::io::Write;

use anyhow::{Context, Result};
use helix_agents_core::SessionId;
use helix_agents_core::store::SessionStore;
use helix_agents_process_tests::round;
use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::block_on;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, name, sessions, rounds, rest @ ..] = arguments.as_slice() else {
        anyhow::bail!("usage: process-child FILE NAME SESSIONS ROUNDS [alone]");
    };
    let (sessions, rounds): (usize, usize) = (sessions.parse()?, rounds.parse()?);
    let alone = rest.first().is_some_and(|word| word == "alone");
    let store = block_on(SqliteStore::open(file)).context("opening the store")?;
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
