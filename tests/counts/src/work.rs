//! The kinds of work that are counted.

use std::error::Error;

use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::{Backend, RuntimeExt};
use helix_agents_core::tool::{Tool, ToolCx};
use helix_agents_core::{Agent, ToolResult};
use helix_agents_runtime_local::LocalRuntime;
use helix_agents_store_sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::model::Fixed;

type Done = Result<(), Box<dyn Error>>;

/// Performs one kind of work a number of times.
pub(crate) fn perform(work: &str, times: u64) -> Done {
    let tokio = tokio::runtime::Builder::new_current_thread();
    let tokio = { tokio }.enable_all().build()?;
    match work {
        "step" => tokio.block_on(turn(MemoryStore::new().into(), Fixed::new(times, 1))),
        "commit" => {
            let folder = tempfile::tempdir()?;
            let store = SqliteStore::open(folder.path().join("counts.db"));
            let store = tokio.block_on(store)?;
            tokio.block_on(turn(store.into(), Fixed::new(times, 1)))
        }
        "delta" => tokio.block_on(turn(MemoryStore::new().into(), Fixed::new(0, times))),
        "start" => (0..times)
            .try_for_each(|_| tokio.block_on(turn(MemoryStore::new().into(), Fixed::new(0, 1)))),
        _ => Err("counts WORK N; WORK is step, commit, delta or start".into()),
    }
}

fn adder(model: Fixed) -> Result<Agent, helix_agents_core::Error> {
    let schema = json!({
        "type": "object",
        "required": ["a", "b"],
        "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } },
    });
    let add = Tool::raw(
        "add",
        "Adds two numbers.",
        schema,
        |_: Value, _: ToolCx| async {
            let sum: ToolResult<Value> = Ok(Value::from(3));
            sum
        },
    );
    let agent = Agent::builder("adder")
        .model(model)
        .system_prompt("You add numbers.")
        .tools(add)
        .max_steps(None);
    Ok(agent.build()?)
}

/// Runs one turn to its end.
async fn turn(backend: Backend, model: Fixed) -> Done {
    let runtime = LocalRuntime::builder(backend).recovery(false).build();
    let run = runtime.execute(&adder(model)?, "Add.").await?;
    run.output().await?;
    Ok(())
}
