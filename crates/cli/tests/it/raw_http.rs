//! Minimal HTTP: a connection for each request, and as little work as possible in the load generator.
//!
//! Requests are HTTP/1.0, so that an answer is what comes until the connection ends.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends a request.
pub(crate) async fn send(to: SocketAddr, token: &str, head: &str, body: &str) -> TcpStream {
    send_with(to, token, head, "", body).await
}

/// Sends a request with more headers, each with its line end.
pub(crate) async fn send_with(
    to: SocketAddr,
    token: &str,
    head: &str,
    headers: &str,
    body: &str,
) -> TcpStream {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.0\r\nhost: {to}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// The status of an answer, and its body.
pub(crate) async fn ask(to: SocketAddr, token: &str, head: &str, body: &str) -> (u16, String) {
    let mut stream = send(to, token, head, body).await;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, body.to_owned())
}

/// Asks for something that must be there.
pub(crate) async fn get(to: SocketAddr, token: &str, path: &str) -> Value {
    let (status, told) = ask(to, token, &format!("GET {path}"), "").await;
    assert_eq!(status, 200, "{path}: {told}");
    serde_json::from_str(&told).unwrap()
}

/// The result of reading a stream: how many chunks, a digest of them, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamSummary {
    pub(crate) chunks: u64,
    pub(crate) digest: u64,
    pub(crate) end: String,
}

/// A stream of events that is read to its end. Every chunk has the number after the last one's.
#[derive(Debug)]
pub(crate) struct Events {
    stream: TcpStream,
    session: String,
    bytes: Vec<u8>,
    hasher: DefaultHasher,
    chunks: u64,
}

impl Events {
    /// Asks for a session's stream, and waits until it begins.
    pub(crate) async fn of(to: SocketAddr, token: &str, session: &str) -> Self {
        let stream = send(to, token, &format!("GET /sse?sessionId={session}"), "").await;
        let mut events = Self {
            stream,
            session: session.to_owned(),
            bytes: Vec::new(),
            hasher: DefaultHasher::new(),
            chunks: 0,
        };
        loop {
            assert!(events.more().await, "{session}: no answer");
            let text = std::str::from_utf8(&events.bytes).unwrap();
            if let Some((head, _)) = text.split_once("\r\n\r\n") {
                assert!(head.contains(" 200 "), "{session}: {text}");
                let length = head.len() + 4;
                events.bytes.drain(..length);
                return events;
            }
        }
    }

    /// Waits for more bytes; `false` when the connection is over.
    async fn more(&mut self) -> bool {
        self.bytes.reserve(16 * 1024);
        self.stream.read_buf(&mut self.bytes).await.unwrap() > 0
    }

    /// Reads to the end, and shows each chunk.
    pub(crate) async fn read(mut self, mut show: impl FnMut(&str)) -> StreamSummary {
        loop {
            if let Some(end) = self.take(&mut show) {
                return StreamSummary {
                    chunks: self.chunks,
                    digest: self.hasher.finish(),
                    end,
                };
            }
            let (session, chunks) = (&self.session, self.chunks);
            let lost = format!("{session}: no end after {chunks} chunks");
            assert!(self.more().await, "{lost}");
        }
    }

    /// Takes the frames that came whole; gives the end if it is among them.
    fn take(&mut self, show: &mut impl FnMut(&str)) -> Option<String> {
        let whole = self.bytes.windows(2).rposition(|two| two == b"\n\n")? + 2;
        let text = std::str::from_utf8(&self.bytes[..whole]).unwrap();
        let mut end = None;
        for frame in text.split_terminator("\n\n") {
            assert_eq!(end, None, "{}: {frame} after the end", self.session);
            if let Some(data) = frame.strip_prefix("event: end\ndata: ") {
                end = Some(data.to_owned());
            } else if let Some(frame) = frame.strip_prefix("id: ") {
                let (id, data) = frame.split_once("\ndata: ").unwrap();
                self.chunks += 1;
                assert_eq!(id.parse(), Ok(self.chunks), "{}", self.session);
                data.hash(&mut self.hasher);
                show(data);
            } else {
                assert!(frame.starts_with(':'), "what is {frame:?}?");
            }
        }
        self.bytes.drain(..whole);
        end
    }
}
