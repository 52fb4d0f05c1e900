//! The cost of a step of a sub-agent, beside the same step of an agent that nobody called.

use std::sync::Arc;

use helix_agents_core::Agent;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::{Backend, RuntimeExt};
use helix_agents_core::tool::Tool;
use helix_agents_models::{Script, ScriptedModel};
use helix_agents_runtime_local::LocalRuntime;
use helix_agents_store_sqlite::SqliteStore;
use serde_json::json;
use tokio::runtime::Builder;

use crate::measure::{Report, median};
use crate::sqlite::{Folder, Outcome};
use crate::steps::{Stamped, adder};

const STEPS: usize = 400;
const ROUNDS: usize = 5;
/// The design's limit.
const LIMIT: f64 = 1.3;

pub(crate) fn run(report: &mut Report) {
    let on = |report: &mut Report, store: &str, measured: Outcome<[f64; 2]>| match measured {
        Ok([alone, below]) => {
            let base = format!("a step on {store}");
            let subject = format!("a step of a sub-agent on {store}");
            report.at_most((&base, alone), (&subject, below), LIMIT);
        }
        Err(error) => report.broken(&format!("children on {store}"), &error.to_string()),
    };
    on(report, "memory", measure(|| Ok(MemoryStore::new().into())));
    let sqlite = Folder::new("children").and_then(|folder| {
        let mut opened = 0;
        measure(|| {
            opened += 1;
            let file = folder.file(&format!("{opened}.db"));
            let host = Builder::new_current_thread().enable_all().build()?;
            Ok(host.block_on(SqliteStore::open(file))?.into())
        })
    });
    on(report, "SQLite", sqlite);
}

/// The median step of an agent alone and of one that another calls, in microseconds, measured in turns.
fn measure(mut open: impl FnMut() -> Outcome<Backend>) -> Outcome<[f64; 2]> {
    let (mut alone, mut below) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let model = Stamped::new(STEPS)?;
        let agent = adder(Arc::clone(&model) as _)?;
        turn(open()?, &agent)?;
        alone.push(median(model.take()));
        let model = Stamped::new(STEPS)?;
        let agent = caller(&adder(Arc::clone(&model) as _)?)?;
        turn(open()?, &agent)?;
        below.push(median(model.take()));
    }
    Ok([median(alone), median(below)])
}

/// An agent that calls another one, and is done.
fn caller(below: &Agent) -> Outcome<Agent> {
    let script = json!({ "default": [
        { "tool_calls": [{ "name": "subagent__adder", "arguments": { "message": "Add." } }] },
        { "text": "Done." },
    ]});
    let agent = Agent::builder("caller")
        .model(ScriptedModel::new(Script::parse(&script.to_string())?))
        .tools(Tool::sub_agent(below))
        .build()?;
    Ok(agent)
}

fn turn(backend: Backend, agent: &Agent) -> Outcome<()> {
    let host = Builder::new_current_thread().enable_all().build()?;
    host.block_on(async {
        let runtime = LocalRuntime::builder(backend).recovery(false).build();
        let text = runtime.execute(agent, "Add.").await?.output().await?;
        match text.as_str() {
            "Done." => Ok(()),
            _ => Err(format!("the agent said {text:?}").into()),
        }
    })
}
