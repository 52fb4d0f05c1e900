//! Many sessions at once, in memory: runs per second and peak memory, beside a hand-written loop.
//!
//! Each side runs in a process of its own, which is the only way to know its peak.

use std::future::ready;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use helix_agents_core::Agent;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::model::Model;
use helix_agents_core::runtime::{Outcome as RunOutcome, RuntimeExt};
use helix_agents_models::{Script, ScriptedModel};
use helix_agents_runtime_local::{LocalRuntime, SystemClock};
use serde_json::json;

use crate::measure::{Report, median, print_figure};
use crate::sqlite::Outcome;
use crate::steps::{adder, bare_loop};

const SESSIONS: usize = 500;
const STEPS: usize = 5;
const ROUNDS: usize = 3;

/// An agent whose model waits this long before each further piece of a reply.
fn agent(delay_ms: u64) -> Outcome<(Agent, Arc<dyn Model>)> {
    let call = json!({
        "text": "Let me add these.",
        "chunk_chars": 9,
        "delay_ms": delay_ms,
        "tool_calls": [{ "name": "add", "arguments": { "a": 1, "b": 2 } }],
    });
    let mut script = vec![call; STEPS];
    script.push(json!({ "text": "Done." }));
    let script = Script::parse(&json!({ "default": script }).to_string())?;
    let model: Arc<dyn Model> = Arc::new(ScriptedModel::new(script));
    Ok((adder(Arc::clone(&model))?, model))
}

async fn framework(delay_ms: u64) -> Outcome<()> {
    let (agent, _) = agent(delay_ms)?;
    let runtime = LocalRuntime::builder(MemoryStore::new())
        .recovery(false)
        .build();
    let mut runs = Vec::with_capacity(SESSIONS);
    for _ in 0..SESSIONS {
        runs.push(runtime.execute(&agent, "Add.").await?);
    }
    for run in runs {
        match run.outcome().await? {
            RunOutcome::Done(_) => {}
            other => return Err(format!("a run ended as {other:?}").into()),
        }
    }
    Ok(())
}

async fn bare(delay_ms: u64) -> Outcome<()> {
    let (agent, model) = agent(delay_ms)?;
    let clock = Arc::new(SystemClock::new());
    let tasks: Vec<_> = (0..SESSIONS)
        .map(|_| {
            let (agent, model, clock) = (agent.clone(), Arc::clone(&model), Arc::clone(&clock));
            tokio::spawn(async move {
                let keep = |_: &_, _: &[_]| ready(Ok(()));
                let done = bare_loop(&agent, model.as_ref(), clock.as_ref(), STEPS, keep).await;
                done.map_err(|error| error.to_string())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// The process of one side: prints runs per second and the peak of its memory in kilobytes.
pub(crate) fn side(arguments: &[String]) -> Outcome<()> {
    let [kind, delay] = arguments else {
        return Err("one side needs its name and a delay".into());
    };
    let delay = delay.parse()?;
    let host = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()?;
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        match kind.as_str() {
            "bare" => host.block_on(bare(delay))?,
            _ => host.block_on(framework(delay))?,
        }
        rates.push(SESSIONS as f64 / began.elapsed().as_secs_f64());
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|text| text.split_whitespace().next());
    println!("{} {}", median(rates), peak.unwrap_or("0"));
    Ok(())
}

fn measured(kind: &str, delay: u64) -> Outcome<(f64, f64)> {
    let output = Command::new(std::env::current_exe()?)
        .args(["one-side", kind, &delay.to_string()])
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let mut figures = text.split_whitespace().map(str::parse::<f64>);
    match (figures.next(), figures.next()) {
        (Some(rate), Some(peak)) => Ok((rate?, peak? / 1024.0)),
        _ => Err(format!("the {kind} side said {text:?}").into()),
    }
}

fn compare(report: &mut Report) -> Outcome<()> {
    for delay in [0, 2] {
        let (bare_rate, bare_peak) = measured("bare", delay)?;
        let (rate, peak) = measured("framework", delay)?;
        print_figure(&format!(
            "{SESSIONS} sessions x {STEPS} steps, a delta every {delay} ms: bare {bare_rate:.0} runs/s, \
             {bare_peak:.0} MB; framework {rate:.0} runs/s ({:.0} %), {peak:.0} MB",
            100.0 * rate / bare_rate
        ));
        report.at_most(
            ("peak memory allowed, MB", 60.0),
            ("peak memory, MB", peak),
            1.0,
        );
    }
    Ok(())
}

pub(crate) fn run(report: &mut Report) {
    if let Err(error) = compare(report) {
        report.broken("many sessions", &error.to_string());
    }
}
