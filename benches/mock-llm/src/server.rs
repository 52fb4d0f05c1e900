//! The server: one thread, HTTP/1.1 with kept-alive connections.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;

use crate::reply::{Replies, refusal};

/// The largest head and the largest body of a request.
const LARGEST_HEAD: usize = 64 << 10;
const LARGEST_BODY: usize = 64 << 20;
/// How many connections may wait to be accepted. Beyond it, a client tries again only after a second.
const BACKLOG: u32 = 4096;
const ROUTE: &[u8] = b"POST /v1/chat/completions ";

/// A server in a thread of its own. It stops when the value is dropped.
///
/// ```
/// use std::io::{Read, Write};
///
/// use helix_agents_mock_llm::MockLlm;
///
/// let server = MockLlm::spawn()?;
/// let mut connection = std::net::TcpStream::connect(server.address())?;
/// let body = r#"{"model":"text","messages":[{"role":"user","content":"Hi"}]}"#;
/// let length = body.len();
/// write!(connection, "POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {length}\r\n\r\n{body}")?;
/// let mut reply = [0; 15];
/// connection.read_exact(&mut reply)?;
/// assert_eq!(&reply, b"HTTP/1.1 200 OK");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct MockLlm {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MockLlm {
    /// Starts a server on a free port of the loopback interface.
    ///
    /// # Errors
    /// When no port or no thread can be had.
    pub fn spawn() -> io::Result<Self> {
        Self::spawn_on(0)
    }

    /// Starts a server on this port of the loopback interface; 0 is a free port.
    ///
    /// # Errors
    /// When the port is taken, or no thread can be had.
    pub fn spawn_on(port: u16) -> io::Result<Self> {
        let host = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let listener = {
            let _in_host = host.enter();
            let socket = TcpSocket::new_v4()?;
            socket.set_reuseaddr(true)?;
            socket.bind((Ipv4Addr::LOCALHOST, port).into())?;
            socket.listen(BACKLOG)?
        };
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("mock-llm".to_owned());
        let thread = thread.spawn(move || {
            host.spawn(accept(listener));
            // An error means that the sender was dropped, which also stops the server.
            let _ = host.block_on(stopped);
        })?;
        Ok(Self {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Returns the address that the server listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the base URL for an OpenAI client.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

impl Drop for MockLlm {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener) {
    let replies = Arc::new(Replies::default());
    loop {
        // A client that is gone before it was accepted, or too many open files: others may succeed.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let replies = Arc::clone(&replies);
        // A connection that breaks is the client's to notice.
        tokio::spawn(async move { serve(stream, &replies).await });
    }
}

/// Answers the requests of one connection until the client closes it.
async fn serve(mut stream: TcpStream, replies: &Replies) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(16 << 10);
    loop {
        let head = loop {
            if let Some(end) = memmem::find(&buffer, b"\r\n\r\n") {
                break end + 4;
            }
            if buffer.len() > LARGEST_HEAD || stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        let length = buffer.get(..head).and_then(content_length);
        let Some(length) = length.filter(|length| *length <= LARGEST_BODY) else {
            let why = refusal(
                "411 Length Required",
                "send a content-length of at most 64 MiB",
            );
            return stream.write_all(&why).await;
        };
        let end = head + length;
        buffer.reserve(end.saturating_sub(buffer.len()));
        while buffer.len() < end {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
        let reply = match buffer.get(head..end) {
            Some(body) if buffer.starts_with(ROUTE) => replies.respond_to(body),
            _ => refusal("404 Not Found", "use POST /v1/chat/completions"),
        };
        stream.write_all(&reply).await?;
        buffer.drain(..end);
    }
}

/// Returns the length of the body; 0 for a request that cannot have one.
fn content_length(head: &[u8]) -> Option<usize> {
    let mut lines = head.split(|byte| *byte == b'\n');
    let request_line = lines.next()?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_at_checked(line.iter().position(|byte| *byte == b':')?)?;
        let value = std::str::from_utf8(value.get(1..)?).ok()?;
        name.eq_ignore_ascii_case(b"content-length")
            .then(|| value.trim().parse().ok())
    });
    match length {
        Some(length) => length,
        None if request_line.starts_with(b"POST ") => None,
        None => Some(0),
    }
}
