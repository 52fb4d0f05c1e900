//! Measures the resident memory of finished sessions that nobody runs, in a `MemoryStore`.

use std::process::Command;

use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::RuntimeExt;
use helix_agents_core::stream::Retention;
use helix_agents_core::time::Timestamp;
use helix_agents_runtime_local::LocalRuntime;

use crate::measure::{Bound, Report, Target};
use crate::sqlite::Outcome;
use crate::steps::{Stamped, adder};
use crate::suspended::resident_kb;

const SESSIONS: usize = 4_000;
const STEPS: usize = 5;
/// How many sessions end before the deltas of their turns are removed.
const BATCH: usize = 100;

pub(crate) fn run(report: &mut Report) {
    match measured() {
        Ok(kib) => report.target(Target {
            what: "idle finished session of 5 steps, KiB",
            ours: kib,
            bound: Bound::AtMost(8.0),
            tolerated: Some(20.0),
            beside: String::new(),
        }),
        Err(error) => report.broken("idle sessions", &error.to_string()),
    }
}

/// Measures in a process of its own, whose memory nothing else has used.
fn measured() -> Outcome<f64> {
    let output = Command::new(std::env::current_exe()?)
        .arg("idle-side")
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let kib: f64 = text.trim().parse()?;
    Ok(kib / SESSIONS as f64)
}

/// The process that has the sessions: prints how much its memory has grown, in KiB.
pub(crate) fn side() -> Outcome<()> {
    let host = tokio::runtime::Builder::new_current_thread();
    let host = { host }.enable_time().build()?;
    let store = MemoryStore::new();
    let runtime = LocalRuntime::builder(store.clone()).recovery(false).build();
    let agent = adder(Stamped::new(STEPS)?)?;
    let finish = |sessions: usize| -> Outcome<()> {
        host.block_on(async {
            for _ in 0..sessions / BATCH {
                for _ in 0..BATCH {
                    runtime.execute(&agent, "Add.").await?.output().await?;
                }
                let later = Timestamp::from_millis(u64::MAX);
                store.condense_old_turns(later, usize::MAX).await?;
            }
            Ok(())
        })
    };
    // What a process needs once is not of the sessions.
    finish(BATCH)?;
    let before = resident_kb();
    finish(SESSIONS)?;
    println!("{}", resident_kb() - before);
    Ok(())
}
