//! The clients of providers: a streamed reply beside a raw reader of the same body, and a request with a long
//! history beside the same bytes sent as they are.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use futures_util::StreamExt;
use helix_agents_core::message::{AssistantMessage, UserMessage};
use helix_agents_core::model::{Model, ModelConfig, ModelEvent, ModelRequest, ToolChoice};
use helix_agents_core::step::{SystemPrompt, build_messages_for_llm};
use helix_agents_core::time::Timestamp;
use helix_agents_core::transcript::PairedStep;
use helix_agents_core::{SessionId, Transcript};
use helix_agents_models::{Provider, ProviderModel};
use helix_agents_testkit::VirtualClock;
use serde_json::{Value, json};

use crate::measure::{Report, Subject, print_figure};
use crate::sqlite::Outcome;

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
}

fn measure(report: &mut Report, provider: Provider) -> Outcome<()> {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let server = serve(reply(provider, DELTAS))?;
    let model = model(provider, server)?;
    let raw = raw_client()?;
    let question = Question::new(1)?;
    let pieces = tokio.block_on(question.ask(&model))?;
    if pieces != DELTAS {
        return Err(format!("{pieces} pieces instead of {DELTAS}").into());
    }
    report.compare(
        Subject::new(&format!("{provider}, raw reader"), || {
            tokio.block_on(read_raw(&raw, server, Vec::new()))
        }),
        Subject::new(&format!("{provider}, {DELTAS} deltas"), || {
            tokio.block_on(question.ask(&model))
        }),
        2.0,
    );

    let many = serve(reply(provider, 10 * DELTAS))?;
    let many = self::model(provider, many)?;
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

    let server = serve(reply(provider, 1))?;
    let model = self::model(provider, server)?;
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

fn raw_client() -> Outcome<reqwest::Client> {
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

    /// Asks a model, and returns the number of pieces of text.
    async fn ask(&self, model: &dyn Model) -> Outcome<usize> {
        let mut events = model.stream(ModelRequest {
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
        });
        let mut pieces = 0;
        while let Some(event) = events.next().await {
            pieces += usize::from(matches!(event?, ModelEvent::Text(_)));
        }
        Ok(pieces)
    }
}

/// The chunks of a streamed reply, each as it is sent.
fn reply(provider: Provider, deltas: usize) -> Vec<Vec<u8>> {
    let (first, delta, last): (Vec<Value>, Value, Vec<Value>) = match provider {
        Provider::OpenAi => {
            let chunk = |delta: Value, finish: Value| {
                json!({ "id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 1, "model": "m",
                    "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
            };
            let end = json!({ "id": "chatcmpl-7", "choices": [],
                "usage": { "prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18 } });
            (
                vec![chunk(
                    json!({ "role": "assistant", "content": "" }),
                    Value::Null,
                )],
                chunk(json!({ "content": " word" }), Value::Null),
                vec![chunk(json!({}), json!("stop")), end, json!("[DONE]")],
            )
        }
        Provider::OpenAiResponses => {
            let response = |status: &str| {
                json!({ "id": "resp_7", "object": "response", "status": status,
                "output": [], "usage": { "input_tokens": 9, "output_tokens": 9, "total_tokens": 18 } })
            };
            let item =
                json!({ "type": "message", "id": "msg_7", "role": "assistant", "content": [] });
            (
                vec![
                    json!({ "type": "response.created", "response": response("in_progress") }),
                    json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
                ],
                json!({ "type": "response.output_text.delta", "item_id": "msg_7", "output_index": 0,
                    "content_index": 0, "delta": " word", "sequence_number": 7, "logprobs": [] }),
                vec![
                    json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
                    json!({ "type": "response.completed", "response": response("completed") }),
                ],
            )
        }
        Provider::Anthropic => (
            vec![
                json!({ "type": "message_start", "message": { "id": "msg_7", "type": "message",
                    "role": "assistant", "content": [], "model": "m",
                    "usage": { "input_tokens": 9, "output_tokens": 1 } } }),
                json!({ "type": "content_block_start", "index": 0,
                    "content_block": { "type": "text", "text": "" } }),
            ],
            json!({ "type": "content_block_delta", "index": 0,
                "delta": { "type": "text_delta", "text": " word" } }),
            vec![
                json!({ "type": "content_block_stop", "index": 0 }),
                json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" },
                    "usage": { "output_tokens": 9 } }),
                json!({ "type": "message_stop" }),
            ],
        ),
        _ => {
            let chunk = |finish: Option<&str>| {
                json!({ "candidates": [{ "index": 0, "finishReason": finish,
                        "content": { "role": "model", "parts": [{ "text": " word" }] } }],
                    "usageMetadata": { "promptTokenCount": 9, "candidatesTokenCount": 9, "totalTokenCount": 18 },
                    "modelVersion": "m", "responseId": "r" })
            };
            (Vec::new(), chunk(None), vec![chunk(Some("STOP"))])
        }
    };
    let event = |value: &Value| {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let name = value.get("type").and_then(Value::as_str);
        let name = name
            .map(|name| format!("event: {name}\n"))
            .unwrap_or_default();
        let event = format!("{name}data: {text}\n\n");
        format!("{:x}\r\n{event}\r\n", event.len()).into_bytes()
    };
    // Gemini's last chunk carries text, too.
    let count = if provider == Provider::Gemini {
        deltas - 1
    } else {
        deltas
    };
    let mut chunks: Vec<_> = first.iter().map(event).collect();
    chunks.extend(std::iter::repeat_n(event(&delta), count));
    chunks.extend(last.iter().map(event));
    chunks
}

/// Serves this reply to every request, each chunk with a write of its own, as a provider does.
fn serve(chunks: Vec<Vec<u8>>) -> Outcome<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let chunks = Arc::new(chunks);
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let chunks = Arc::clone(&chunks);
            std::thread::spawn(move || answer_all(connection, &chunks));
        }
    });
    Ok(address)
}

fn answer_all(mut connection: TcpStream, chunks: &[Vec<u8>]) -> std::io::Result<()> {
    connection.set_nodelay(true)?;
    let mut received = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let head = loop {
            if let Some(end) = memchr::memmem::find(&received, b"\r\n\r\n") {
                break end + 4;
            }
            let read = connection.read(&mut buffer)?;
            if read == 0 {
                return Ok(());
            }
            received.extend_from_slice(buffer.get(..read).unwrap_or_default());
        };
        let text =
            String::from_utf8_lossy(received.get(..head).unwrap_or_default()).to_ascii_lowercase();
        let length = text
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
        let length: usize = length.unwrap_or(0);
        while received.len() < head + length {
            let read = connection.read(&mut buffer)?;
            if read == 0 {
                return Ok(());
            }
            received.extend_from_slice(buffer.get(..read).unwrap_or_default());
        }
        received.drain(..head + length);
        connection.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        )?;
        for chunk in chunks {
            connection.write_all(chunk)?;
        }
        connection.write_all(b"0\r\n\r\n")?;
    }
}

/// The memory of this process, in KiB.
fn resident() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let text = line.ok_or("no VmRSS")?.trim().trim_end_matches(" kB");
    Ok(text.parse()?)
}
