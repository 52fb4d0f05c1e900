//! A small HTTP server whose responses a test decides, byte by byte.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A request as the server saw it.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) path: String,
    /// Names in lower case.
    pub(super) headers: HashMap<String, String>,
    pub(super) body: Vec<u8>,
}

/// One part of a response.
#[derive(Debug, Clone)]
pub(super) enum Part {
    Bytes(Vec<u8>),
    /// Nothing more comes until the client gives up.
    Stall,
    /// The connection is reset.
    Reset,
}

/// A response: its head, and the parts of its body, each a chunk of its own.
#[derive(Debug, Clone)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) parts: Vec<Part>,
}

impl Response {
    pub(super) fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            parts: vec![Part::Bytes(body.into())],
        }
    }

    pub(super) fn stream(parts: Vec<Part>) -> Self {
        Self {
            parts,
            ..Self::new(200, "text/event-stream", "")
        }
    }

    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Decides the response to a request.
type Handler = dyn Fn(&Seen) -> Response + Send + Sync;

pub(super) struct HttpServer {
    pub(super) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    /// How many clients closed their connection while the server still had something to say.
    closed: watch::Receiver<usize>,
    connections: Arc<AtomicUsize>,
}

impl HttpServer {
    pub(super) async fn start(respond: impl Fn(&Seen) -> Response + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (tell, closed) = watch::channel(0);
        let tell = Arc::new(tell);
        let respond: Arc<Handler> = Arc::new(respond);
        let all = Arc::clone(&seen);
        let connections = Arc::new(AtomicUsize::new(0));
        let opened = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                opened.fetch_add(1, Ordering::Relaxed);
                let (respond, all, tell) =
                    (Arc::clone(&respond), Arc::clone(&all), Arc::clone(&tell));
                tokio::spawn(async move {
                    if serve(connection, &*respond, &all).await == Served::ClosedByClient {
                        tell.send_modify(|count| *count += 1);
                    }
                });
            }
        });
        Self {
            address,
            seen,
            closed,
            connections,
        }
    }

    /// How many connections were opened.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Every request so far.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until a client has closed its connection while a response was not over.
    pub(super) async fn client_closed(&mut self) {
        self.closed.wait_for(|count| *count > 0).await.unwrap();
    }
}

#[derive(PartialEq)]
enum Served {
    Over,
    ClosedByClient,
}

async fn serve(connection: TcpStream, respond: &Handler, all: &Mutex<Vec<Seen>>) -> Served {
    connection.set_nodelay(true).unwrap();
    let mut connection = BufReader::new(connection);
    while let Some(seen) = read_request(&mut connection).await {
        let response = respond(&seen);
        all.lock().unwrap().push(seen);
        let mut head = format!(
            "HTTP/1.1 {} Said\r\ntransfer-encoding: chunked\r\n",
            response.status
        );
        for (name, value) in &response.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        if connection.write_all(head.as_bytes()).await.is_err() {
            return Served::ClosedByClient;
        }
        for part in response.parts {
            match part {
                Part::Bytes(bytes) if bytes.is_empty() => {}
                Part::Bytes(bytes) => {
                    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
                    chunk.extend(bytes);
                    chunk.extend(b"\r\n");
                    if connection.write_all(&chunk).await.is_err() {
                        return Served::ClosedByClient;
                    }
                }
                Part::Stall => {
                    let mut nothing = [0];
                    // Until the client closes the connection.
                    let _ = connection.read(&mut nothing).await;
                    return Served::ClosedByClient;
                }
                Part::Reset => {
                    let connection = connection.into_inner().into_std().unwrap();
                    // A connection that is closed with unread data in its way is reset.
                    drop(connection);
                    return Served::Over;
                }
            }
        }
        if connection.write_all(b"0\r\n\r\n").await.is_err() {
            return Served::ClosedByClient;
        }
    }
    Served::Over
}

async fn read_request(connection: &mut BufReader<TcpStream>) -> Option<Seen> {
    use tokio::io::AsyncBufReadExt;

    let mut line = String::new();
    connection
        .read_line(&mut line)
        .await
        .ok()
        .filter(|read| *read > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        connection
            .read_line(&mut line)
            .await
            .ok()
            .filter(|read| *read > 0)?;
        let Some((name, value)) = line.trim().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers
        .get("content-length")
        .and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    connection.read_exact(&mut body).await.ok()?;
    Some(Seen {
        path,
        headers,
        body,
    })
}
