//! A scripted HTTP service for the tests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// How the service reacts to a request.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// Responds with a status, a content type and a body.
    Says(u16, &'static str, String),
    /// Redirects to another address.
    Leads(String),
    /// Closes the connection after it has read the request.
    Drops,
    /// Never sends a response.
    Hangs,
    /// Sends an empty response once it is notified.
    Waits(Arc<Notify>),
}

/// A request that the service received.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) address: String,
    asked: Arc<Mutex<Vec<ReceivedRequest>>>,
    arrived: Arc<Notify>,
}

impl Service {
    /// Starts a service that reacts in this order, and then repeats the last one.
    pub(crate) async fn that(replies: Vec<Reply>) -> Self {
        Self::at("127.0.0.1:0", replies).await
    }

    /// Starts the same service at an address.
    pub(crate) async fn at(address: &str, replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let arrived = Arc::new(Notify::new());
        let service = Self {
            address,
            asked: Arc::clone(&asked),
            arrived: Arc::clone(&arrived),
        };
        tokio::spawn(async move {
            let mut replies = VecDeque::from(replies);
            let mut hanging = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let request = read(&mut stream).await;
                asked.lock().unwrap().push(request);
                arrived.notify_one();
                let reply = match replies.len() {
                    1 => replies[0].clone(),
                    _ => replies.pop_front().unwrap(),
                };
                let text = match reply {
                    Reply::Drops => continue,
                    Reply::Waits(word) => {
                        word.notified().await;
                        "HTTP/1.1 200 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                            .to_owned()
                    }
                    Reply::Hangs => {
                        hanging.push(stream);
                        continue;
                    }
                    Reply::Says(status, kind, body) => {
                        let kind = match kind {
                            "" => String::new(),
                            kind => format!("content-type: {kind}\r\n"),
                        };
                        let length = body.len();
                        format!(
                            "HTTP/1.1 {status} X\r\n{kind}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
                        )
                    }
                    Reply::Leads(to) => format!(
                        "HTTP/1.1 302 X\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                    ),
                };
                // The client may have disconnected.
                let _ = stream.write_all(text.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        service
    }

    /// Starts a service that responds to everything with plain text, so that a TLS handshake fails.
    pub(crate) async fn plain() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let service = Self {
            address: listener.local_addr().unwrap().to_string(),
            asked: Arc::default(),
            arrived: Arc::default(),
        };
        let asked = Arc::clone(&service.asked);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (head, body) = (String::new(), String::new());
                asked.lock().unwrap().push(ReceivedRequest { head, body });
                let mut some = [0; 64];
                let _ = stream.read(&mut some).await;
                let _ = stream.write_all(b"HTTP/1.1 400 X\r\n\r\n").await;
            }
        });
        service
    }

    /// Waits until a request arrives.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Returns all requests so far.
    pub(crate) fn asked(&self) -> Vec<ReceivedRequest> {
        self.asked.lock().unwrap().clone()
    }
}

async fn read(stream: &mut TcpStream) -> ReceivedRequest {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let asked = ReceivedRequest {
                head: head.to_owned(),
                body: body.to_owned(),
            };
            let length = asked.header("content-length");
            let length: usize = length.map_or(0, |text| text.parse().unwrap());
            if body.len() >= length {
                return asked;
            }
        }
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.unwrap();
        assert!(count > 0, "the request ended early: {text}");
        bytes.extend_from_slice(&piece[..count]);
    }
}
