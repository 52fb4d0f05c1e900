//! The clients of providers: a streamed reply beside a raw reader of the same body, and a request with a long
//! history beside the same bytes sent as they are.

mod abort;
mod lean;
mod reply;
pub(crate) mod server;

use std::net::SocketAddr;
use std::time::Instant;

use futures_util::StreamExt;
use helix_agents_core::message::{AssistantMessage, UserMessage};
use helix_agents_core::model::{
    EventStream, Model, ModelConfig, ModelEvent, ModelRequest, ToolChoice,
};
use helix_agents_core::step::{SystemPrompt, build_messages_for_llm};
use helix_agents_core::time::Timestamp;
use helix_agents_core::transcript::PairedStep;
use helix_agents_core::{SessionId, Transcript};
use helix_agents_models::{Provider, ProviderModel};
use helix_agents_testkit::VirtualClock;
use serde_json::{Value, json};

use crate::measure::{Report, Subject, print_figure};
use crate::sqlite::Outcome;

use self::reply::events;
use self::server::{Writes, serve};

const DELTAS: usize = 20_000;
const MESSAGES: usize = 10_000;
/// How much memory a reply of ten times as many deltas may take more, in KiB.
const MAX_GROWTH: u64 = 2_048;

pub(crate) fn run(report: &mut Report) {
    for provider in Provider::ALL {
        if let Err(error) = measure(report, provider) {
            report.broken(provider.name(), &error.to_string());
        }
    }
    abort::run(report);
}

fn measure(report: &mut Report, provider: Provider) -> Outcome<()> {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let raw = raw_client()?;
    let question = Question::new(1)?;
    let server = serve(&events(provider, DELTAS), Writes::Events)?;
    let client = model(provider, server)?;
    expect_all(tokio.block_on(question.ask(&client))?)?;
    report.compare(
        Subject::new(&format!("{provider}, raw reader"), || {
            tokio.block_on(read_raw(&raw, server, Vec::new()))
        }),
        Subject::new(&format!("{provider}, {DELTAS} deltas"), || {
            tokio.block_on(question.ask(&client))
        }),
        2.0,
    );

    let server = serve(&events(provider, DELTAS), Writes::Blocks)?;
    let client = model(provider, server)?;
    expect_all(tokio.block_on(question.ask(&client))?)?;
    expect_all(tokio.block_on(lean::read(&raw, provider, server))?)?;
    // Nothing of an event is read on this side: what it takes is the connection's.
    let began = Instant::now();
    tokio.block_on(read_raw(&raw, server, Vec::new()))?;
    let time = began.elapsed().as_secs_f64() * 1e6;
    print_figure(&format!(
        "{provider}, blocks that nobody parses: {time:.0} µs"
    ));
    report.compare(
        Subject::new(&format!("{provider}, blocks, only their text"), || {
            tokio.block_on(lean::read(&raw, provider, server))
        }),
        Subject::new(&format!("{provider}, {DELTAS} deltas in blocks"), || {
            tokio.block_on(question.ask(&client))
        }),
        2.0,
    );

    let many = serve(&events(provider, 10 * DELTAS), Writes::Events)?;
    let many = model(provider, many)?;
    let before = resident()?;
    tokio.block_on(question.ask(&many))?;
    let growth = resident()?.saturating_sub(before);
    print_figure(&format!(
        "{provider}: {growth} KiB more after {} deltas",
        10 * DELTAS
    ));
    if growth > MAX_GROWTH {
        report.broken(provider.name(), "its memory grows with the reply");
    }

    let server = serve(&events(provider, 1), Writes::Events)?;
    let model = model(provider, server)?;
    let long = Question::new(MESSAGES)?;
    tokio.block_on(long.ask(&model))?;
    let body = vec![b' '; long.size];
    report.compare(
        Subject::new(
            &format!("{provider}, {} KiB sent raw", body.len() >> 10),
            || tokio.block_on(read_raw(&raw, server, body.clone())),
        ),
        Subject::new(&format!("{provider}, {MESSAGES} messages"), || {
            tokio.block_on(long.ask(&model))
        }),
        2.0,
    );
    Ok(())
}

fn expect_all(pieces: usize) -> Outcome<()> {
    if pieces == DELTAS {
        return Ok(());
    }
    Err(format!("{pieces} pieces instead of {DELTAS}").into())
}

pub(crate) fn raw_client() -> Outcome<reqwest::Client> {
    // The first choice counts; ours is the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(reqwest::Client::builder().tcp_nodelay(true).build()?)
}

fn model(provider: Provider, server: SocketAddr) -> Outcome<ProviderModel> {
    let model = ProviderModel::builder(provider, "a-model").base_url(format!("http://{server}"));
    Ok(model.api_key("k").build()?)
}

/// Reads a whole body, and counts its events.
async fn read_raw(client: &reqwest::Client, server: SocketAddr, body: Vec<u8>) -> Outcome<usize> {
    let sending = client.post(format!("http://{server}/")).body(body);
    let mut response = sending.send().await?;
    let mut events = 0;
    while let Some(bytes) = response.chunk().await? {
        events += memchr::memmem::find_iter(&bytes, b"data: ").count();
    }
    Ok(events)
}

/// A conversation to which the model replies.
struct Question {
    history: Transcript,
    size: usize,
    system: SystemPrompt,
    session: SessionId,
    state: Value,
    config: ModelConfig,
    clock: VirtualClock,
}

impl Question {
    fn new(messages: usize) -> Outcome<Self> {
        let session = SessionId::new("s")?;
        let mut history = Transcript::new();
        let mut size = 0;
        loop {
            history.push_user(UserMessage::new("and then, what did you see?"));
            size += 64;
            if history.len() >= messages {
                break;
            }
            let said =
                AssistantMessage::text("a reply of some length, as they are in a conversation");
            if let Ok(step) = PairedStep::new(said, []) {
                let _ = history.push_step(step);
            }
            size += 92;
        }
        Ok(Self {
            history,
            size,
            system: SystemPrompt::from("Be brief."),
            session,
            state: json!({}),
            config: ModelConfig::default(),
            clock: VirtualClock::new(Timestamp::from_millis(0)),
        })
    }

    /// Asks a model.
    fn stream<'a>(&'a self, model: &'a dyn Model) -> EventStream<'a> {
        model.stream(ModelRequest {
            prompt: build_messages_for_llm(&self.history, &self.system, &self.state),
            tools: &[],
            tool_choice: ToolChoice::Auto,
            native_output: None,
            config: &self.config,
            state: &self.state,
            agent_type: "a",
            session_id: &self.session,
            attempt: 1,
            clock: &self.clock,
        })
    }

    /// Asks a model, and returns the number of pieces of text.
    async fn ask(&self, model: &dyn Model) -> Outcome<usize> {
        let mut events = self.stream(model);
        let mut pieces = 0;
        while let Some(event) = events.next().await {
            pieces += usize::from(matches!(event?, ModelEvent::Text(_)));
        }
        Ok(pieces)
    }
}

/// The memory of this process, in KiB.
fn resident() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let text = line.ok_or("no VmRSS")?.trim().trim_end_matches(" kB");
    Ok(text.parse()?)
}
