//! A minimal client of an OpenAI-compatible server: HTTP/1.1, kept-alive connections, streamed replies.
//!
//! Every side of the benchmarks over HTTP sends and receives with it, so that what differs between
//! them is the loop around it.

mod chunk;

use std::io::IoSlice;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) use chunk::{ChatChunk, Delta};

use crate::sqlite::Outcome;

/// The room that is made for one read of a connection: small at first, because hundreds of
/// connections may be open, and doubled while reads fill it.
const SMALLEST_READ: usize = 2 << 10;
const LARGEST_READ: usize = 64 << 10;

/// A client with a pool of idle connections.
#[derive(Debug)]
pub(crate) struct Client {
    address: SocketAddr,
    idle: Mutex<Vec<Connection>>,
    opened: AtomicUsize,
    sent: AtomicUsize,
}

/// One connection, and what was received on it and is not decoded yet.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    /// The decoded body. It is kept with the connection so that its memory is used again.
    body: Vec<u8>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            idle: Mutex::default(),
            opened: AtomicUsize::new(0),
            sent: AtomicUsize::new(0),
        }
    }

    /// The address of the server.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// The number of connections that were opened.
    pub(crate) fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }

    /// The number of requests that were sent.
    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    /// Sends a chat completion request; the reply is read from what is returned.
    pub(crate) async fn post(&self, body: &[u8]) -> Outcome<Reply<'_>> {
        let idle = self.pool().pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => {
                self.opened.fetch_add(1, Ordering::Relaxed);
                Connection::open(self.address).await?
            }
        };
        self.sent.fetch_add(1, Ordering::Relaxed);
        connection.send(self.address, body).await?;
        let head = connection.receive_head().await?;
        if !head.starts_with(b"HTTP/1.1 200 ") || memmem::find(&head, b"chunked").is_none() {
            let head = String::from_utf8_lossy(&head).into_owned();
            return Err(format!("the server did not stream a reply: {head}").into());
        }
        Ok(Reply {
            client: self,
            connection: Some(connection),
            at: 0,
            ended: false,
        })
    }

    fn pool(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    async fn open(address: SocketAddr) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            received: Vec::new(),
            body: Vec::new(),
        })
    }

    /// Sends head and body in one write, without joining them in memory.
    async fn send(&mut self, address: SocketAddr, body: &[u8]) -> Outcome<()> {
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        let parts = [IoSlice::new(head.as_bytes()), IoSlice::new(body)];
        let sent = self.stream.write_vectored(&parts).await?;
        let unsent = head.as_bytes().get(sent..).unwrap_or_default();
        self.stream.write_all(unsent).await?;
        let unsent = body.get(sent.saturating_sub(head.len())..);
        self.stream.write_all(unsent.unwrap_or_default()).await?;
        Ok(())
    }

    async fn receive(&mut self) -> Outcome<()> {
        let received = &mut self.received;
        let room = received.capacity().clamp(SMALLEST_READ, LARGEST_READ);
        if received.capacity() - received.len() < SMALLEST_READ {
            received.reserve(room);
        }
        if self.stream.read_buf(received).await? == 0 {
            return Err("the server closed the connection".into());
        }
        Ok(())
    }

    async fn receive_head(&mut self) -> Outcome<Vec<u8>> {
        loop {
            if let Some(end) = memmem::find(&self.received, b"\r\n\r\n") {
                return Ok(self.received.drain(..end + 4).collect());
            }
            self.receive().await?;
        }
    }

    /// Moves the complete chunks of what was received to the body. Returns whether the last one,
    /// which is empty, was among them.
    fn decode(&mut self) -> Outcome<bool> {
        let mut at = 0;
        let mut ended = false;
        while let Some(chunk) = next_chunk(&self.received, at)? {
            at = chunk.end + 2;
            ended = chunk.is_empty();
            if let Some(data) = self.received.get(chunk) {
                self.body.extend_from_slice(data);
            }
            if ended {
                break;
            }
        }
        self.received.drain(..at);
        Ok(ended)
    }
}

/// Finds the data of the HTTP chunk that begins at `at`, if it is complete.
fn next_chunk(received: &[u8], at: usize) -> Outcome<Option<Range<usize>>> {
    let rest = received.get(at..).unwrap_or_default();
    let Some(line) = memchr::memchr(b'\n', rest) else {
        return Ok(None);
    };
    let size = rest.get(..line).unwrap_or_default().trim_ascii_end();
    let size = usize::from_str_radix(std::str::from_utf8(size)?, 16)?;
    let data = at + line + 1;
    let complete = received.len() >= data + size + 2;
    Ok(complete.then_some(data..data + size))
}

/// A reply that is received as server-sent events.
#[derive(Debug)]
pub(crate) struct Reply<'a> {
    client: &'a Client,
    /// Taken when the reply is complete, and given back to the pool.
    connection: Option<Connection>,
    /// Where the next event begins in the body.
    at: usize,
    ended: bool,
}

impl Reply<'_> {
    /// Returns the data of the next event; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Outcome<Option<&[u8]>> {
        let Some(event) = self.find_event().await? else {
            self.give_back();
            return Ok(None);
        };
        let connection = self.connection.as_ref();
        let event = connection.and_then(|connection| connection.body.get(event));
        let event = event.unwrap_or_default();
        Ok(Some(event.strip_prefix(b"data: ").unwrap_or(event)))
    }

    /// Returns where the next event is in the body; `None` at the end of the reply.
    async fn find_event(&mut self) -> Outcome<Option<Range<usize>>> {
        let Some(connection) = &mut self.connection else {
            return Ok(None);
        };
        loop {
            let rest = connection.body.get(self.at..).unwrap_or_default();
            if let Some(length) = memmem::find(rest, b"\n\n") {
                let event = self.at..self.at + length;
                self.at = event.end + 2;
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            connection.body.drain(..self.at);
            self.at = 0;
            let decoded = connection.body.len();
            self.ended = connection.decode()?;
            if !self.ended && connection.body.len() == decoded {
                connection.receive().await?;
            }
        }
    }

    fn give_back(&mut self) {
        if let Some(mut connection) = self.connection.take() {
            connection.body.clear();
            self.client.pool().push(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_found_only_when_all_of_it_was_received() {
        let received = b"5\r\nhello\r\n0\r\n\r\n";
        for length in 0..10 {
            assert_eq!(next_chunk(&received[..length], 0).unwrap(), None);
        }
        assert_eq!(next_chunk(received, 0).unwrap(), Some(3..8));
        assert_eq!(next_chunk(received, 10).unwrap(), Some(13..13));
        assert_eq!(next_chunk(received, 15).unwrap(), None);
        assert!(next_chunk(b"hello\r\n", 0).is_err());
    }
}
