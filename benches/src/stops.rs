//! Measures how soon a stop that one process writes reaches a model call and a tool of another, on SQLite,
//! and how much it costs to listen for stops of a thousand runs.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::{StreamExt, stream};
use helix_agents_core::Agent;
use helix_agents_core::model::{EventStream, Model, ModelEvent, ModelRequest, TokenUsage};
use helix_agents_core::runtime::{RuntimeExt, Turn};
use helix_agents_core::session::StopKind;
use helix_agents_core::step::StopReason;
use helix_agents_core::store::Sessions;
use helix_agents_core::stream::ChunkPayload;
use helix_agents_core::tool::{Tool, ToolCx};
use helix_agents_core::{SessionId, ToolResult};
use helix_agents_runtime_local::{LocalRuntime, SystemClock};
use helix_agents_store_sqlite::SqliteStore;
use helix_agents_testkit::block_on;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::measure::{Bound, Report, Target, median, print_figure};
use crate::sqlite::{Folder, Outcome};

const ROUNDS: usize = 21;
const WATCHED: usize = 1_000;
/// How long the cost of listening is measured.
const WATCH: Duration = Duration::from_secs(5);

pub(crate) fn run(report: &mut Report) {
    if let Err(error) = measure(report) {
        report.broken("stops", &error.to_string());
    }
}

/// The process that performs the runs.
struct Performer {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Performer {
    fn start(file: &Path) -> Outcome<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("stops-side")
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = process.stdin.take().ok_or("no input")?;
        let output = process.stdout.take().ok_or("no output")?;
        let output = BufReader::new(output).lines();
        Ok(Self {
            process,
            input,
            output,
        })
    }

    /// Says a line, and reads the next one.
    fn ask(&mut self, line: &str) -> Outcome<String> {
        writeln!(self.input, "{line}")?;
        self.read()
    }

    fn read(&mut self) -> Outcome<String> {
        Ok(self.output.next().ok_or("the other process has ended")??)
    }
}

impl Drop for Performer {
    fn drop(&mut self) {
        // It has ended if it cannot be ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn measure(report: &mut Report) -> Outcome<()> {
    let folder = Folder::new("stops")?;
    let file = folder.file("store.db");
    let store = block_on(SqliteStore::open(&file))?;
    let clock = SystemClock;
    let sessions = Sessions::new(&store, &clock);
    let mut performer = Performer::start(&file)?;
    for kind in ["model", "tool"] {
        let mut delays = Vec::new();
        for round in 0..ROUNDS {
            let name = format!("{kind}-{round}");
            performer.ask(&format!("{kind} {name}"))?;
            let before = micros();
            let session = SessionId::new(&name)?;
            let asked = sessions.request_stop(&session, StopKind::Interrupt, None);
            block_on(asked)?.ok_or("the run had ended before it was stopped")?;
            let heard: u64 = performer.read()?.parse()?;
            delays.push(heard.saturating_sub(before) as f64 / 1e3);
        }
        let worst = delays.iter().copied().fold(0.0, f64::max);
        report.target(Target {
            what: match kind {
                "model" => "ms until a stop reaches a model call elsewhere",
                _ => "ms until a stop reaches a tool elsewhere",
            },
            ours: worst,
            bound: Bound::AtMost(250.0),
            tolerated: None,
            beside: format!("median {:.1} of {ROUNDS}", median(delays)),
        });
    }
    print_figure(&format!("listening for stops of {WATCHED} runs"));
    let share: f64 = performer.ask("watch")?.parse()?;
    report.target(Target {
        what: "share of a core to listen for 1,000 runs",
        ours: share,
        bound: Bound::AtMost(0.02),
        tolerated: None,
        beside: String::new(),
    });
    Ok(())
}

fn micros() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

/// Tells when it is dropped.
struct Heard(UnboundedSender<u64>);

impl Drop for Heard {
    fn drop(&mut self) {
        // Nobody listens at the end of the process.
        let _ = self.0.send(micros());
    }
}

/// A model that says a word, or calls the tool, and then hangs.
#[derive(Debug)]
struct Hanging {
    calls: bool,
    dropped: UnboundedSender<u64>,
}

impl Model for Hanging {
    fn name(&self) -> &'static str {
        "bench/hanging"
    }

    fn stream<'a>(&'a self, _: ModelRequest<'a>) -> EventStream<'a> {
        if self.calls {
            let events = [
                ModelEvent::CallStart {
                    id: Some("c1".to_owned()),
                    name: "wait".into(),
                },
                ModelEvent::Finished {
                    stop_reason: StopReason::ToolUse,
                    usage: TokenUsage::default(),
                },
            ];
            return Box::pin(stream::iter(events.map(Ok)));
        }
        let heard = Heard(self.dropped.clone());
        let said = stream::iter([Ok(ModelEvent::Text("Well".to_owned()))]);
        Box::pin(said.chain(stream::pending()).map(move |event| {
            let _ = &heard;
            event
        }))
    }
}

fn agent(name: &str, calls: bool, heard: &UnboundedSender<u64>) -> Outcome<Agent> {
    let dropped = heard.clone();
    let told = heard.clone();
    let wait = Tool::raw(
        "wait",
        "Waits.",
        json!({ "type": "object" }),
        move |_: Value, cx: ToolCx| {
            let told = told.clone();
            async move {
                cx.abort_signal().aborted().await;
                let _ = told.send(micros());
                let done: ToolResult<Value> = Ok(json!("stopped"));
                done
            }
        },
    );
    let model: Arc<dyn Model> = Arc::new(Hanging { calls, dropped });
    Ok(Agent::builder(name).model(model).tools(wait).build()?)
}

/// The process that performs the runs: `model NAME` and `tool NAME` start one that waits and, once it is
/// stopped, tell when it heard that; `watch` starts many, and tells what they cost.
pub(crate) fn side(arguments: &[String]) -> Outcome<()> {
    let [file] = arguments else {
        return Err("usage: stops-side FILE".into());
    };
    let host = tokio::runtime::Builder::new_multi_thread();
    let host = { host }.worker_threads(2).enable_all().build()?;
    host.block_on(perform(Path::new(file)))
}

async fn perform(file: &Path) -> Outcome<()> {
    let store = SqliteStore::open(file).await?;
    // No lease is renewed while it is measured.
    let runtime = LocalRuntime::builder(store).lease(WATCH * 100).build();
    let (heard, mut hears) = unbounded_channel();
    let (asks, calls) = (agent("asks", false, &heard)?, agent("calls", true, &heard)?);
    for line in std::io::stdin().lines() {
        let line = line?;
        match line.split_once(' ') {
            Some((kind, name)) => {
                let agent = if kind == "model" { &asks } else { &calls };
                start(&runtime, agent, name).await?;
                println!("started");
                println!("{}", hears.recv().await.ok_or("nothing was heard")?);
            }
            None => {
                for number in 0..WATCHED {
                    start(&runtime, &asks, &format!("watched-{number}")).await?;
                }
                let before = cpu_seconds()?;
                tokio::time::sleep(WATCH).await;
                println!("{}", (cpu_seconds()? - before) / WATCH.as_secs_f64());
            }
        }
    }
    Ok(())
}

/// Starts a run, and returns when it waits: its first delta, or the start of its call, is in the stream.
async fn start(runtime: &LocalRuntime, agent: &Agent, name: &str) -> Outcome<()> {
    let run = runtime
        .execute(agent, Turn::new("Go.").session(name))
        .await?;
    let mut chunks = run.chunks();
    let starts = |payload: &ChunkPayload| {
        matches!(
            payload,
            ChunkPayload::TextDelta { .. } | ChunkPayload::ToolStart { .. }
        )
    };
    while let Some(stored) = chunks.next().await {
        if starts(&stored?.chunk.payload) {
            break;
        }
    }
    Ok(())
}

/// The time that this process has computed.
pub(crate) fn cpu_seconds() -> Outcome<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // After the name, which is in parentheses, the twelfth and thirteenth are ticks of a hundredth.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum();
    Ok(ticks / 100.0)
}
