//! Measures one long reply through `POST /chat` on a durable SQLite stream, beside a raw reader of the same bytes.

use std::net::SocketAddr;
use std::time::Instant;

use helix_agents_core::Agent;
use helix_agents_models::{Script, ScriptedModel};
use helix_agents_runtime_local::LocalRuntime;
use helix_agents_server::{Limits, Server, serve};
use helix_agents_store_sqlite::SqliteStore;
use reqwest::{Client, RequestBuilder};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::clients::raw_client;
use crate::clients::server::{Writes, serve as serve_bytes};
use crate::measure::{Bound, Report, Target, median};
use crate::sqlite::{Folder, Outcome};

const DELTAS: usize = 20_000;
const ROUNDS: usize = 9;
/// The text of one delta.
const WORD: &str = "a few ch";

pub(crate) fn run(report: &mut Report) {
    if let Err(error) = measure(report) {
        report.broken("chat", &error.to_string());
    }
}

fn measure(report: &mut Report) -> Outcome<()> {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let folder = Folder::new("chat")?;
    let [ours, raw] = tokio.block_on(rates(&folder))?.map(median);
    report.target(Target {
        what: "deltas a second through POST /chat, durable",
        ours,
        bound: Bound::AtLeast(50_000.0),
        tolerated: None,
        beside: format!("raw reader of the same bytes {raw:.0}"),
    });
    Ok(())
}

/// The rates of both readers, taken in turns.
async fn rates(folder: &Folder) -> Outcome<[Vec<f64>; 2]> {
    let (chat, server) = chat_server(folder).await?;
    let client = raw_client()?;
    let (first, _) = timed(message(&client, chat, 0)).await?;
    let lines = first.split_inclusive(|byte| *byte == b'\n');
    let lines: Vec<_> = lines.map(<[u8]>::to_vec).collect();
    let copy = serve_bytes(&lines, Writes::Blocks)?;
    let mut rates = [Vec::new(), Vec::new()];
    for round in 1..=ROUNDS {
        let (body, rate) = timed(message(&client, chat, round)).await?;
        expect_all(&body)?;
        rates[0].push(rate);
        let (body, rate) = timed(client.post(format!("http://{copy}/"))).await?;
        expect_all(&body)?;
        rates[1].push(rate);
    }
    server.abort();
    Ok(rates)
}

/// Serves an agent whose every reply is one long text.
async fn chat_server(folder: &Folder) -> Outcome<(SocketAddr, JoinHandle<()>)> {
    let reply = json!({ "text": WORD.repeat(DELTAS), "chunk_chars": WORD.len() });
    let script = Script::parse(&json!({ "default": [reply] }).to_string())?;
    let agent = Agent::builder("writer")
        .model(ScriptedModel::new(script))
        .build()?;
    let store = SqliteStore::open(folder.file("store.db")).await?;
    let runtime = LocalRuntime::builder(store).agent(agent).build();
    let server = Server::builder(runtime).allow_unauthenticated().build()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let serving = serve(
        listener,
        server.router(),
        Limits::default(),
        std::future::pending(),
    );
    let serving = tokio::spawn(async move {
        // It ends with the benchmark.
        let _ = serving.await;
    });
    Ok((address, serving))
}

/// The first message of a chat of its own.
fn message(client: &Client, chat: SocketAddr, round: usize) -> RequestBuilder {
    let body = json!({
        "id": format!("chat-{round}"),
        "trigger": "submit-message",
        "messages": [{ "id": "m1", "role": "user", "parts": [{ "type": "text", "text": "Write." }] }],
    });
    client
        .post(format!("http://{chat}/chat"))
        .header("content-type", "application/json")
        .body(body.to_string())
}

/// Reads the body of a response, and returns it with the deltas that came each second.
async fn timed(request: RequestBuilder) -> Outcome<(Vec<u8>, f64)> {
    let mut body = Vec::with_capacity(DELTAS * 128);
    let began = Instant::now();
    let mut response = request.send().await?.error_for_status()?;
    while let Some(bytes) = response.chunk().await? {
        body.extend_from_slice(&bytes);
    }
    let rate = DELTAS as f64 / began.elapsed().as_secs_f64();
    Ok((body, rate))
}

/// Each delta came in a frame of its own, and the body is whole.
fn expect_all(body: &[u8]) -> Outcome<()> {
    let count = |what: &str| memchr::memmem::find_iter(body, what).count();
    let (frames, words) = (count(r#""type":"text-delta""#), count(WORD));
    if (frames, words) != (DELTAS, DELTAS) || !body.ends_with(b"data: [DONE]\n\n") {
        return Err(format!("{frames} frames with {words} deltas instead of {DELTAS}").into());
    }
    Ok(())
}
