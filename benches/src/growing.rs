//! Measures a step that writes to the state, while the state grows.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use helix_agents_core::memory::MemoryStore;
use helix_agents_core::model::Model;
use helix_agents_core::runtime::{Backend, RuntimeExt, Turn};
use helix_agents_core::tool::{Tool, ToolCx};
use helix_agents_core::{Agent, SessionId, ToolResult};
use helix_agents_models::{Script, ScriptedModel};
use helix_agents_runtime_local::LocalRuntime;
use serde_json::{Value, json};

use crate::measure::{Report, median};
use crate::sqlite::Outcome;

const STEPS: usize = 2_000;
/// The number of steps per sample, large enough to include work that is done only now and then.
const WINDOW: usize = 100;
const ROUNDS: usize = 5;
/// Bytes that each step adds to the state.
const NOTE: usize = 500;

type Stamps = Arc<Mutex<Vec<Instant>>>;

/// An agent whose tool appends to a list in the state, `STEPS` times.
fn writer(stamps: &Stamps) -> Outcome<Agent> {
    let call = json!({ "tool_calls": [{ "name": "note", "arguments": {} }] });
    let mut script = vec![call; STEPS];
    script.push(json!({ "text": "Done." }));
    let script = Script::parse(&json!({ "default": script }).to_string())?;
    let stamps = Arc::clone(stamps);
    let note = Tool::raw(
        "note",
        "Notes something.",
        json!({ "type": "object" }),
        move |_: Value, cx: ToolCx| {
            let mut stamps = stamps.lock().unwrap_or_else(PoisonError::into_inner);
            stamps.push(Instant::now());
            drop(stamps);
            async move {
                cx.edit_state(|draft| draft.push("/log", "x".repeat(NOTE)))?;
                let noted: ToolResult<Value> = Ok(json!(1));
                noted
            }
        },
    );
    let model: Arc<dyn Model> = Arc::new(ScriptedModel::new(script));
    let agent = Agent::builder("writer")
        .model(model)
        .system_prompt("You note things.")
        .tools(note)
        .max_steps(None)
        .build()?;
    Ok(agent)
}

/// How long a step took in the window that begins at this one, in microseconds.
fn mean(stamps: &[Instant], from: usize) -> f64 {
    let (first, last) = (stamps.get(from), stamps.get(from + WINDOW));
    match (first, last) {
        (Some(first), Some(last)) => {
            last.duration_since(*first).as_secs_f64() * 1e6 / WINDOW as f64
        }
        _ => f64::NAN,
    }
}

fn in_memory(report: &mut Report) -> Outcome<()> {
    let threads = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (mut early, mut late) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        let stamps = Stamps::default();
        let agent = writer(&stamps)?;
        threads.block_on(async {
            let runtime = LocalRuntime::builder(Backend::from(MemoryStore::new()))
                .recovery(false)
                .build();
            let execute = Turn::new("Note.")
                .session(SessionId::new("s")?)
                .state(json!({ "log": [] }));
            let run = runtime.execute(&agent, execute);
            run.await?.outcome().await?;
            Outcome::Ok(())
        })?;
        let stamps = stamps.lock().unwrap_or_else(PoisonError::into_inner);
        early.push(mean(&stamps, 10));
        late.push(mean(&stamps, STEPS - WINDOW - 1));
    }
    report.at_most(
        ("a write to a small state, µs", median(early)),
        ("a write to a state of 1 MB, µs", median(late)),
        1.5,
    );
    Ok(())
}

pub(crate) fn run(report: &mut Report) {
    if let Err(error) = in_memory(report) {
        report.broken("steps that write to a growing state", &error.to_string());
    }
}
