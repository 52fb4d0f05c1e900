//! Many chats, each with many readers: every one of them reads every word once.
//!
//! `HELIX_CHAT_READERS_SECONDS` makes it long: 500 readers of 50 chats for that many seconds. It prints how much
//! they read, and holds the server to a memory that does not grow.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::dice::number;
use crate::kit::{Folder, config};
use crate::measures::{MB, address, load_average, resident};
use crate::raw_http::{send, send_with};
use crate::serving::Served;

const USERS: usize = 10;
const WORDS: usize = 40;
const LAST: &str = "That is all.";

#[derive(Debug, Clone, Copy)]
struct Load {
    chats: usize,
    readers: usize,
    steps: usize,
    delay_ms: u64,
}

impl Load {
    fn from_env() -> Self {
        match number("HELIX_CHAT_READERS_SECONDS", 0) {
            0 => Self {
                chats: 3,
                readers: 4,
                steps: 4,
                delay_ms: 0,
            },
            // A step takes two seconds, and a reply ends after the last reader has come.
            seconds => Self {
                chats: 50,
                readers: 10,
                steps: usize::try_from(seconds).unwrap() / 2 + 4,
                delay_ms: 50,
            },
        }
    }

    /// The text of a step; no word occurs twice.
    fn step(step: usize) -> String {
        (0..WORDS)
            .map(|word| format!("s{step:02}w{word:02} "))
            .collect()
    }

    fn text(self) -> String {
        let steps: String = (0..self.steps).map(Self::step).collect();
        steps + LAST
    }

    fn folder(self) -> Folder {
        let step = |step| {
            json!({
                "text": Self::step(step), "chunk_chars": 7, "delay_ms": self.delay_ms,
                "tool_calls": [ { "name": "clock" } ],
            })
        };
        let mut steps: Vec<Value> = (0..self.steps).map(step).collect();
        steps.push(json!({ "text": LAST }));
        let user = |n| format!("[[server.tokens]]\nenv = \"USER_{n}\"\nuser = \"user-{n}\"\n");
        let more = format!(
            "{}[agents.a]\nmodel = \"fast\"\nmax_steps = 100\ntools = [\"clock\"]\n\
             [tools.clock]\nkind = \"builtin\"\nbuiltin = \"clock\"\n",
            (0..USERS).map(user).collect::<String>()
        );
        Folder::with(&config(&more), &json!({ "default": steps }).to_string())
    }
}

fn token(chat: usize) -> String {
    format!("token-{}", chat % USERS)
}

/// One connection to a chat, read frame by frame.
struct Bubble {
    stream: TcpStream,
    bytes: Vec<u8>,
    name: String,
}

impl Bubble {
    /// Waits until the answer begins.
    async fn of(stream: TcpStream, name: String) -> Self {
        let mut bubble = Self {
            stream,
            bytes: Vec::new(),
            name,
        };
        let head = bubble.take(b"\r\n\r\n").await.unwrap();
        assert!(head.contains(" 200 "), "{}: {head}", bubble.name);
        bubble
    }

    /// Reads up to an end mark; `None` when the connection is over.
    async fn take(&mut self, end: &[u8]) -> Option<String> {
        loop {
            let at = self.bytes.windows(end.len()).position(|two| two == end);
            if let Some(at) = at {
                let rest = self.bytes.split_off(at + end.len());
                let taken = std::mem::replace(&mut self.bytes, rest);
                return Some(String::from_utf8(taken).unwrap());
            }
            self.bytes.reserve(16 * 1024);
            if self.stream.read_buf(&mut self.bytes).await.unwrap() == 0 {
                assert!(self.bytes.is_empty(), "{}: half a frame", self.name);
                return None;
            }
        }
    }
}

/// The text that a page shows, put together from the frames of one or more connections.
#[derive(Default)]
struct Page {
    text: String,
    /// The last sequence that the page has whole.
    seen: u64,
    is_finished: bool,
    frames: u64,
}

impl Page {
    /// Reads frames until the end of the answer, or until there were so many of them.
    async fn read(&mut self, bubble: &mut Bubble, most: u64) {
        let until = self.frames.saturating_add(most);
        while self.frames < until {
            let Some(frame) = bubble.take(b"\n\n").await else {
                assert!(self.is_finished, "{}: no finish", bubble.name);
                return;
            };
            if frame.starts_with(':') {
                continue;
            }
            self.frames += 1;
            for line in frame.trim_end().lines() {
                match line.split_once(": ") {
                    Some(("id", id)) => self.seen = id.parse().unwrap(),
                    Some(("data", "[DONE]")) => {}
                    Some(("data", data)) => self.show(data),
                    _ => panic!("{}: what is {line:?}?", bubble.name),
                }
            }
        }
    }

    fn show(&mut self, data: &str) {
        assert!(!self.is_finished, "{data} after the finish");
        if data.contains("\"text-delta\"") {
            let chunk: Value = serde_json::from_str(data).unwrap();
            self.text.push_str(chunk["delta"].as_str().unwrap());
        } else if data.contains("\"type\":\"start\"") {
            // A client empties the message.
            self.text.clear();
        } else if data.contains("\"type\":\"finish\"") {
            self.is_finished = true;
        }
    }
}

/// Follows a chat to its end. An impatient reader goes away after so many frames and comes back: with the number of
/// the last one, or, like a page that is loaded again, without.
async fn follow(to: SocketAddr, chat: usize, reader: usize) -> Page {
    let patience = match reader % 3 {
        0 => u64::MAX,
        1 => 60,
        _ => 300,
    };
    let mut page = Page::default();
    while !page.is_finished {
        let path = format!("GET /chat/chat-{chat}/stream");
        let cursor = match reader % 3 == 1 && page.seen > 0 {
            true => format!("last-event-id: {}\r\n", page.seen),
            false => String::new(),
        };
        let stream = send_with(to, &token(chat), &path, &cursor, "").await;
        let name = format!("reader {reader} of chat-{chat}");
        let mut bubble = Bubble::of(stream, name).await;
        let before = page.seen;
        page.read(&mut bubble, patience).await;
        if page.seen == before && !page.is_finished {
            // All of it was a repetition.
            page.read(&mut bubble, u64::MAX).await;
        }
    }
    page
}

async fn post(to: SocketAddr, chat: usize) -> Bubble {
    let body = json!({
        "id": format!("chat-{chat}"),
        "trigger": "submit-message",
        "messages": [ { "id": "m1", "role": "user", "parts": [ { "type": "text", "text": "go" } ] } ],
    });
    let stream = send(to, &token(chat), "POST /chat", &body.to_string()).await;
    Bubble::of(stream, format!("the sender of chat-{chat}")).await
}

/// proves: TRN-03
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn many_readers_of_many_chats_read_every_word_once() {
    let load = Load::from_env();
    let folder = load.folder();
    let mut command = folder.command(&["serve", "--listen", "127.0.0.1:0"]);
    for n in 0..USERS {
        command.env(format!("USER_{n}"), token(n));
    }
    let served = Served::spawn(command);
    let to = address(&served);
    let text = Arc::new(load.text());
    let mut readers = JoinSet::new();
    for chat in 0..load.chats {
        let mut sender = post(to, chat).await;
        let expected = Arc::clone(&text);
        readers.spawn(async move {
            let mut page = Page::default();
            page.read(&mut sender, u64::MAX).await;
            assert!(page.text == *expected, "chat-{chat}: {}", page.text);
            page.frames
        });
        for reader in 1..load.readers {
            let expected = Arc::clone(&text);
            readers.spawn(async move {
                let page = follow(to, chat, reader).await;
                assert!(
                    page.text == *expected,
                    "chat-{chat}, {reader}: {}",
                    page.text
                );
                page.frames
            });
        }
    }
    let total = readers.len();
    let mut memory = Vec::new();
    let mut frames = 0;
    let mut ticks = tokio::time::interval(Duration::from_millis(500));
    loop {
        tokio::select! {
            read = readers.join_next() => match read {
                Some(read) => frames += read.unwrap(),
                None => break,
            },
            _ = ticks.tick() => memory.push(resident(&served)),
        }
    }
    let third = memory.len() / 3;
    let most = |samples: &[usize]| samples.iter().max().copied().unwrap_or_default();
    let (first, last) = (most(&memory[third..2 * third]), most(&memory[2 * third..]));
    eprintln!(
        "{total} readers of {} chats read {frames} frames, none lost; {} MB, then {} MB; load {}",
        load.chats,
        first / MB,
        last / MB,
        load_average()
    );
    if load.delay_ms > 0 {
        // What a chat keeps grows with its length, by some 100 KB each here; a reader keeps nothing.
        assert!(
            last <= first + first / 4 + 8 * MB,
            "{first} bytes became {last}"
        );
    }
}
