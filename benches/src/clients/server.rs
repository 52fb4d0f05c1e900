//! A server that gives one streamed reply to every request.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

const HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// The size of a block.
const BLOCK: usize = 16 << 10;

/// The way in which a reply is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writes {
    /// Each event is an HTTP chunk of its own with a write of its own, as a provider sends it.
    Events,
    /// As many events as fit are one HTTP chunk with one write.
    Blocks,
}

/// Serves this reply to every request.
pub(crate) fn serve(events: &[Vec<u8>], writes: Writes) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let chunks = Arc::new(chunks(events, writes));
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let chunks = Arc::clone(&chunks);
            std::thread::spawn(move || answer_all(connection, &chunks));
        }
    });
    Ok(address)
}

/// Joins events to HTTP chunks.
fn chunks(events: &[Vec<u8>], writes: Writes) -> Vec<Vec<u8>> {
    let mut joined: Vec<Vec<u8>> = Vec::new();
    for event in events {
        match joined.last_mut() {
            Some(last) if writes == Writes::Blocks && last.len() + event.len() <= BLOCK => {
                last.extend_from_slice(event);
            }
            _ => joined.push(event.clone()),
        }
    }
    joined.iter().map(|data| chunk(data)).collect()
}

/// Frames data as one HTTP chunk.
fn chunk(data: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", data.len()).into_bytes();
    chunk.extend_from_slice(data);
    chunk.extend(b"\r\n");
    chunk
}

fn answer_all(mut connection: TcpStream, chunks: &[Vec<u8>]) -> Result<()> {
    connection.set_nodelay(true)?;
    let mut received = Vec::new();
    loop {
        receive(&mut connection, &mut received)?;
        connection.write_all(HEAD)?;
        for chunk in chunks {
            connection.write_all(chunk)?;
        }
        connection.write_all(b"0\r\n\r\n")?;
    }
}

/// Answers one request with these events, leaves the reply open, and returns when the client closes the
/// connection.
pub(crate) fn answer_until_closed(listener: &TcpListener, events: &[Vec<u8>]) -> Result<()> {
    let (mut connection, _) = listener.accept()?;
    connection.set_nodelay(true)?;
    receive(&mut connection, &mut Vec::new())?;
    match send_and_wait(&mut connection, events) {
        Ok(0) => Ok(()),
        Ok(_) => Err(Error::other("the client sent more than its request")),
        Err(error) => match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Ok(()),
            _ => Err(error),
        },
    }
}

fn send_and_wait(connection: &mut TcpStream, events: &[Vec<u8>]) -> Result<usize> {
    connection.write_all(HEAD)?;
    for event in events {
        connection.write_all(&chunk(event))?;
    }
    connection.read(&mut [0; 64])
}

/// Receives one request, with its body, and removes it from what was received.
fn receive(connection: &mut TcpStream, received: &mut Vec<u8>) -> Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let mut more = |received: &mut Vec<u8>| {
        let read = connection.read(&mut buffer)?;
        if read == 0 {
            return Err(Error::from(ErrorKind::UnexpectedEof));
        }
        received.extend_from_slice(buffer.get(..read).unwrap_or_default());
        Ok(())
    };
    let head = loop {
        if let Some(end) = memchr::memmem::find(received, b"\r\n\r\n") {
            break end + 4;
        }
        more(received)?;
    };
    let text = received.get(..head).unwrap_or_default();
    let text = String::from_utf8_lossy(text).to_ascii_lowercase();
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
    let length: usize = length.unwrap_or(0);
    while received.len() < head + length {
        more(received)?;
    }
    received.drain(..head + length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_the_same_bytes_in_fewer_chunks() {
        let events: Vec<Vec<u8>> = (0..1_000)
            .map(|n| format!("data: {n:0>90}\n\n").into_bytes())
            .collect();
        let data = |writes| -> Vec<Vec<u8>> {
            let chunks = chunks(&events, writes);
            let data = chunks.iter().map(|chunk| {
                let begin = memchr::memchr(b'\n', chunk).unwrap() + 1;
                chunk[begin..chunk.len() - 2].to_vec()
            });
            data.collect()
        };
        assert_eq!(data(Writes::Events), events);
        let blocks = data(Writes::Blocks);
        assert_eq!(blocks.concat(), events.concat());
        assert_eq!(blocks.len(), (98 * 1_000_usize).div_ceil(BLOCK / 98 * 98));
    }
}
