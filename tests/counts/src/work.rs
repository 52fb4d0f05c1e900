//! The kinds of work that are counted.

use std::error::Error;

use axum::body::Body;
use axum::http::Request;
use futures_util::StreamExt;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::{Backend, RuntimeExt, Turn};
use helix_agents_core::stream::Retention;
use helix_agents_core::time::Timestamp;
use helix_agents_core::tool::{Tool, ToolCx};
use helix_agents_core::{Agent, ToolResult};
use helix_agents_runtime_local::LocalRuntime;
use helix_agents_server::Tokens;
use helix_agents_store_sqlite::SqliteStore;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::model::Fixed;

type Done = Result<(), Box<dyn Error>>;

/// The number of steps of an idle session.
const IDLE_STEPS: usize = 5;

/// Performs one kind of work a number of times. Returns what is left in memory of it.
pub(crate) fn perform(work: &str, times: usize) -> Result<Option<MemoryStore>, Box<dyn Error>> {
    let tokio = tokio::runtime::Builder::new_current_thread();
    let tokio = { tokio }.enable_all().build()?;
    let mut left = None;
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
        "frames" => tokio.block_on(frames(times)),
        "idle" => {
            let store = MemoryStore::new();
            left = Some(store.clone());
            tokio.block_on(finished_sessions(store, times))
        }
        _ => Err("counts WORK N; WORK is step, commit, delta, frames, start or idle".into()),
    }?;
    Ok(left)
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

/// Sends the 1,000 frames of a past turn so many times.
async fn frames(times: usize) -> Done {
    let agent = adder(Fixed::new(0, 1_000))?;
    let runtime = LocalRuntime::builder(MemoryStore::new()).recovery(false);
    let runtime = runtime.agent(&agent).build();
    let run = runtime
        .execute(&agent, Turn::new("Add.").session("s"))
        .await?;
    run.output().await?;
    let tokens = Tokens::new().token("key", "user")?.admin();
    let app = helix_agents_server::router(runtime, tokens);
    for _ in 0..times {
        let asked = Request::get("/sse?sessionId=s").header("authorization", "Bearer key");
        let answer = app.clone().oneshot(asked.body(Body::empty())?).await?;
        assert!(answer.status().is_success(), "{answer:?}");
        let mut frames = answer.into_body().into_data_stream();
        while let Some(bytes) = frames.next().await {
            bytes?;
        }
    }
    Ok(())
}

/// Runs so many sessions to the end of their first turn, one after the other, and removes the deltas of
/// these turns, as it happens after a while.
async fn finished_sessions(store: MemoryStore, sessions: usize) -> Done {
    let runtime = LocalRuntime::builder(store.clone()).recovery(false).build();
    let agent = adder(Fixed::new(IDLE_STEPS, 1))?;
    for _ in 0..sessions {
        runtime.execute(&agent, "Add.").await?.output().await?;
    }
    let later = Timestamp::from_millis(u64::MAX);
    let condensed = store.condense_old_turns(later, usize::MAX).await?;
    assert_eq!(condensed, sessions);
    Ok(())
}
