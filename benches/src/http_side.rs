//! The process of one side of the benchmarks over HTTP. It prints a figure and the peak of its memory.

use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use helix_agents_core::Agent;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::model::Model;
use helix_agents_core::runtime::{Backend, RuntimeExt};
use helix_agents_runtime_local::LocalRuntime;
use tokio::runtime::{Builder, Runtime};

use crate::client_loop::{ClientLoop, provider_model};
use crate::http_loops::{USER, bare, raw_lean};
use crate::http_model::HttpModel;
use crate::measure::median;
use crate::openai::Client;
use crate::sqlite::Outcome;
use crate::steps::adder;

/// Steps of a turn in the group `http`; the reply that ends the turn is one more.
const STEPS: usize = 20;
const TURNS: usize = 40;
const DELTAS: usize = 1_000;
const REPLIES: usize = 60;
pub(crate) const SESSIONS: usize = 500;
pub(crate) const SESSION_STEPS: usize = 5;
const ROUNDS: usize = 3;

/// An agent of one side.
enum Subject {
    RawLean(Arc<Client>, String),
    Bare(Arc<Client>, String),
    /// A loop by hand over the client of a provider.
    ByHand(Box<ClientLoop>),
    Framework(LocalRuntime, Agent),
}

impl Subject {
    fn new(side: &str, client: &Arc<Client>, model: &str) -> Outcome<Self> {
        let client = Arc::clone(client);
        match side {
            "raw-lean" => Ok(Self::RawLean(client, model.to_owned())),
            "bare" => Ok(Self::Bare(client, model.to_owned())),
            "ours" => Self::framework(MemoryStore::new(), client, model),
            "client by hand" => Ok(Self::ByHand(Box::new(ClientLoop::new(
                &client.address(),
                model,
            )?))),
            "client, ours" => {
                let model: Arc<dyn Model> = Arc::new(provider_model(&client.address(), model)?);
                Self::of_model(MemoryStore::new(), model)
            }
            _ => Err(format!("there is no side {side:?}").into()),
        }
    }

    fn framework(store: impl Into<Backend>, client: Arc<Client>, model: &str) -> Outcome<Self> {
        let model: Arc<dyn Model> = Arc::new(HttpModel {
            client,
            name: model.to_owned(),
        });
        Self::of_model(store, model)
    }

    fn of_model(store: impl Into<Backend>, model: Arc<dyn Model>) -> Outcome<Self> {
        let runtime = LocalRuntime::builder(store).build();
        Ok(Self::Framework(runtime, adder(model)?))
    }

    /// One turn in a conversation of its own. Returns what the agent says at the end.
    async fn turn(&self) -> Outcome<String> {
        match self {
            Self::RawLean(client, model) => raw_lean(client, model).await,
            Self::Bare(client, model) => bare(client, model).await,
            Self::ByHand(by_hand) => by_hand.turn().await,
            Self::Framework(runtime, agent) => {
                Ok(runtime.execute(agent, USER).await?.output().await?)
            }
        }
    }

    /// The same, for somebody who reads each delta of the text while it is streamed.
    async fn streamed_turn(&self) -> Outcome<String> {
        let Self::Framework(runtime, agent) = self else {
            return self.turn().await;
        };
        let run = runtime.execute(agent, USER).await?;
        let mut pieces = run.text();
        let (mut text, mut count) = (String::new(), 0);
        while let Some(piece) = pieces.next().await {
            text.push_str(&piece?);
            count += 1;
        }
        if count != DELTAS {
            return Err(format!("the text came in {count} pieces").into());
        }
        Ok(text)
    }
}

/// Runs one side: `GROUP SIDE ADDRESS`.
pub(crate) fn run(arguments: &[String]) -> Outcome<()> {
    let [group, side, address] = arguments else {
        return Err("one side needs its group, its name and the address of the server".into());
    };
    let client = Arc::new(Client::new(address.parse()?));
    let figure = match group.as_str() {
        "http" => steps(side, &client)?,
        "deltas" => deltas(side, &client)?,
        "sessions-http" => sessions(side, &client)?,
        _ => return Err(format!("there is no group {group:?}").into()),
    };
    println!("{figure} {}", peak_kib()?);
    Ok(())
}

fn one_thread() -> Outcome<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

pub(crate) fn says(expected: &str, text: &str) -> Outcome<()> {
    if text == expected {
        return Ok(());
    }
    Err(format!("the agent said {text:?} and not {expected:?}").into())
}

/// Milliseconds a step: a turn of 20 steps, one after the other.
fn steps(side: &str, client: &Arc<Client>) -> Outcome<f64> {
    one_thread()?.block_on(async {
        let subject = Subject::new(side, client, &format!("steps-{STEPS}"))?;
        let mut times = Vec::new();
        for turn in 0..TURNS {
            let began = Instant::now();
            says("Done.", &subject.turn().await?)?;
            // The first turns open the connection and warm the caches.
            if turn >= TURNS / 4 {
                times.push(began.elapsed().as_secs_f64() * 1e3 / (STEPS + 1) as f64);
            }
        }
        // A side that makes fewer requests, or that opens connections, cannot be compared.
        let requests = (client.opened(), client.sent());
        if !side.starts_with("client") && requests != (1, TURNS * (STEPS + 1)) {
            return Err(format!("connections and requests were {requests:?}").into());
        }
        Ok(median(times))
    })
}

/// Deltas a second, until the reader of the text has the last one.
fn deltas(side: &str, client: &Arc<Client>) -> Outcome<f64> {
    one_thread()?.block_on(async {
        let subject = Subject::new(side, client, &format!("deltas-{DELTAS}"))?;
        let whole = raw_lean(client, &format!("deltas-{DELTAS}")).await?;
        let mut rates = Vec::new();
        for reply in 0..REPLIES {
            let began = Instant::now();
            says(&whole, &subject.streamed_turn().await?)?;
            if reply >= REPLIES / 4 {
                rates.push(DELTAS as f64 / began.elapsed().as_secs_f64());
            }
        }
        Ok(median(rates))
    })
}

/// Runs a second, with all sessions at once.
fn sessions(side: &str, client: &Arc<Client>) -> Outcome<f64> {
    let host = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    host.block_on(async {
        let model = format!("steps-{SESSION_STEPS}");
        let mut rates = Vec::new();
        for _ in 0..ROUNDS {
            // A store of its own each time, so that the peak is that of this many sessions.
            let subject = Arc::new(Subject::new(side, client, &model)?);
            let began = Instant::now();
            let turns = (0..SESSIONS).map(|_| {
                let subject = Arc::clone(&subject);
                tokio::spawn(async move { subject.turn().await })
            });
            for turn in turns.collect::<Vec<_>>() {
                says("Done.", &turn.await??)?;
            }
            rates.push(SESSIONS as f64 / began.elapsed().as_secs_f64());
        }
        Ok(median(rates))
    })
}

pub(crate) fn peak_kib() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|text| text.split_whitespace().next());
    Ok(peak.ok_or("the peak of the memory is not known")?.parse()?)
}

#[cfg(test)]
mod tests {
    use helix_agents_mock_llm::MockLlm;

    use super::*;

    #[test]
    fn every_side_makes_the_calls_of_the_script_over_one_connection() {
        let server = MockLlm::spawn().unwrap();
        for side in ["raw-lean", "bare", "ours"] {
            let client = Arc::new(Client::new(server.address()));
            one_thread().unwrap().block_on(async {
                let subject = Subject::new(side, &client, "steps-3").unwrap();
                for _ in 0..2 {
                    assert_eq!(subject.turn().await.unwrap(), "Done.", "{side}");
                }
            });
            assert_eq!((client.opened(), client.sent()), (1, 8), "{side}");
        }
    }

    #[test]
    fn every_side_gives_a_reader_the_same_text() {
        let server = MockLlm::spawn().unwrap();
        let texts = ["raw-lean", "bare", "ours"].map(|side| {
            let client = Arc::new(Client::new(server.address()));
            one_thread().unwrap().block_on(async {
                let subject = Subject::new(side, &client, "deltas-1000").unwrap();
                subject.streamed_turn().await.unwrap()
            })
        });
        assert_eq!(texts[0].split_whitespace().count(), DELTAS);
        assert_eq!(texts[0], texts[1]);
        assert_eq!(texts[0], texts[2]);
    }
}
