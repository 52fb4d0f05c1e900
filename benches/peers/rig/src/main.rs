//! The side of rig in the benchmarks over HTTP: the same turns, over the same mock server.
//!
//! `rig-peer GROUP ADDRESS` prints a figure in the unit of the group, and the peak of its memory in
//! KiB. `benches` starts it when `HELIX_RIG_PEER` is its path. The figures of a group are taken as in
//! `benches/src/http_side.rs`. The group `http-whole`, which `benches` does not have, is `http` with
//! replies that are not streamed.

use std::convert::Infallible;
use std::error::Error;
use std::time::Instant;

use futures::StreamExt;
use rig_agent::prelude::*;
use rig_agent::tool::ToolContext;
use rig_core::providers::openai::{OpenAIConfig, Route};
use rig_core::streaming::{Item, StreamEvent};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::runtime::Builder;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const STEPS: usize = 20;
const TURNS: usize = 40;
const DELTAS: usize = 1_000;
const REPLIES: usize = 60;
const SESSIONS: usize = 500;
const SESSION_STEPS: usize = 5;
const ROUNDS: usize = 3;

struct Add;

#[derive(Deserialize)]
struct Numbers {
    a: i64,
    b: i64,
}

#[derive(Serialize)]
struct Sum {
    sum: i64,
}

impl Tool for Add {
    const NAME: &'static str = "add";
    type Error = Infallible;
    type Args = Numbers;
    type Output = Sum;

    fn description(&self) -> String {
        "Adds two numbers.".to_owned()
    }

    fn parameters(&self) -> serde_json::Value {
        json!({
            "type": "object",
            "required": ["a", "b"],
            "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } },
        })
    }

    async fn call(
        &self,
        _: &mut ToolContext,
        Numbers { a, b }: Numbers,
    ) -> Result<Sum, Infallible> {
        Ok(Sum { sum: a + b })
    }
}

fn agent(address: &str, model: &str) -> Agent {
    let model = OpenAIConfig::new("no key is needed")
        .with_base_url(format!("http://{address}/v1"))
        .with_route(Route::Chat)
        .client()
        .completion(model);
    AgentBuilder::new(model)
        .preamble("You add numbers.")
        .tool(Add)
        .default_max_turns(STEPS + 2)
        .build()
}

/// One turn, streamed, as the other sides do it. Returns the text of the last reply and the number
/// of pieces in which the text of the turn came.
async fn turn(agent: &Agent) -> Outcome<(String, usize)> {
    let mut events = agent.prompt("Add.").stream();
    let (mut output, mut pieces) = (None, 0);
    while let Some(event) = events.next().await {
        match event? {
            MultiTurnStreamItem::StreamAssistantItem(Item::Event(StreamEvent::Text { .. })) => {
                pieces += 1;
            }
            MultiTurnStreamItem::FinalResponse(response) => {
                output = Some(response.output().to_string())
            }
            _ => {}
        }
    }
    Ok((output.ok_or("the run has no final response")?, pieces))
}

/// One turn whose replies are asked for in one piece each.
async fn whole_turn(agent: &Agent) -> Outcome<String> {
    Ok(agent.prompt("Add.").await?.output().to_string())
}

async fn says_done(agent: &Agent) -> Outcome<()> {
    done(&turn(agent).await?.0)
}

fn done(text: &str) -> Outcome<()> {
    match text {
        "Done." => Ok(()),
        other => Err(format!("the agent said {other:?}").into()),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn steps(address: &str, streamed: bool) -> Outcome<f64> {
    let agent = agent(address, &format!("steps-{STEPS}"));
    let mut times = Vec::new();
    for turn in 0..TURNS {
        let began = Instant::now();
        if streamed {
            says_done(&agent).await?;
        } else {
            done(&whole_turn(&agent).await?)?;
        }
        if turn >= TURNS / 4 {
            times.push(began.elapsed().as_secs_f64() * 1e3 / (STEPS + 1) as f64);
        }
    }
    Ok(median(times))
}

async fn deltas(address: &str) -> Outcome<f64> {
    let agent = agent(address, &format!("deltas-{DELTAS}"));
    let mut rates = Vec::new();
    for reply in 0..REPLIES {
        let began = Instant::now();
        let (_, pieces) = turn(&agent).await?;
        if pieces != DELTAS {
            return Err(format!("the text came in {pieces} pieces").into());
        }
        if reply >= REPLIES / 4 {
            rates.push(DELTAS as f64 / began.elapsed().as_secs_f64());
        }
    }
    Ok(median(rates))
}

async fn sessions(address: &str) -> Outcome<f64> {
    let agent = agent(address, &format!("steps-{SESSION_STEPS}"));
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let turns = (0..SESSIONS).map(|_| {
            let agent = agent.clone();
            tokio::spawn(async move { says_done(&agent).await })
        });
        for turn in turns.collect::<Vec<_>>() {
            turn.await??;
        }
        rates.push(SESSIONS as f64 / began.elapsed().as_secs_f64());
    }
    Ok(median(rates))
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [group, address] = arguments.as_slice() else {
        return Err("usage: rig-peer GROUP ADDRESS".into());
    };
    let one_thread = || Builder::new_current_thread().enable_all().build();
    let threads = || {
        Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
    };
    let figure = match group.as_str() {
        "http" => one_thread()?.block_on(steps(address, true))?,
        "http-whole" => one_thread()?.block_on(steps(address, false))?,
        "deltas" => one_thread()?.block_on(deltas(address))?,
        "sessions-http" => threads()?.block_on(sessions(address))?,
        _ => {
            let host = Builder::new_multi_thread().enable_all().build()?;
            host.block_on(async { says_done(&agent(address, "text")).await })?;
            0.0
        }
    };
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|text| text.split_whitespace().next());
    println!(
        "{figure} {}",
        peak.ok_or("the peak of the memory is not known")?
    );
    Ok(())
}
