//! Tests of connections that do not read, do not write, or are too many.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use futures_util::stream;
use helix_agents_server::Limits;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;

use crate::kit::Place;
use crate::loopback::{Connection, Loopback};

/// Adds a permit when it is dropped.
struct Gone(Arc<Semaphore>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

/// An endless response body, which reports when it is dropped.
fn endless(gone: &Arc<Semaphore>) -> Body {
    let piece = Bytes::from(vec![b'x'; 64 * 1024]);
    let gone = Gone(Arc::clone(gone));
    let pieces = stream::unfold((piece, gone), async |(piece, gone)| {
        let next = Ok::<_, std::io::Error>(piece.clone());
        Some((next, (piece, gone)))
    });
    Body::from_stream(pieces)
}

async fn silent(server: &Loopback) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(server.address).await.unwrap()
}

#[tokio::test]
async fn a_client_that_does_not_read_is_disconnected_and_its_response_dropped() {
    let gone = Arc::new(Semaphore::new(0));
    let kept = Arc::clone(&gone);
    let app = Router::new().route("/", get(async move || endless(&kept)));
    let limits = Limits::default().write_timeout(Duration::from_millis(100));
    let server = Loopback::new(app, limits).await;
    let mut deaf = Vec::new();
    for _ in 0..8 {
        let stream = silent(&server).await;
        let mut connection = Connection {
            stream,
            seen: String::new(),
        };
        connection.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        deaf.push(connection);
    }
    gone.acquire_many(8).await.unwrap().forget();
    for connection in deaf {
        let seen = connection.rest().await;
        assert!(!seen.ends_with("0\r\n\r\n"), "the body is incomplete");
    }
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_client_that_reads_is_not_disconnected_however_long_it_takes() {
    let gone = Arc::new(Semaphore::new(0));
    let kept = Arc::clone(&gone);
    let app = Router::new().route("/", get(async move || endless(&kept)));
    let limits = Limits::default().write_timeout(Duration::from_secs(30));
    let server = Loopback::new(app, limits).await;
    let mut reader = server.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    while reader.seen.len() < 16 * 1024 * 1024 {
        assert!(reader.more().await, "the body continues");
    }
    assert_eq!(gone.available_permits(), 0);
    drop(reader);
    gone.acquire().await.unwrap().forget();
    server.stop().await.unwrap();
}

#[tokio::test]
async fn beyond_the_connection_limit_only_probes_are_served() {
    let place = Place::new();
    let limits = Limits::default().max_connections(2);
    let server = Loopback::new(place.app, limits).await;
    let mut first = server.get("/sessions").await;
    first.until("\"hasMore\":false").await;
    let second = server.send("").await;
    let refused = server.get("/sessions").await.rest().await;
    for part in ["503", "UNAVAILABLE", "retry-after: 1", "connection: close"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    for path in ["/healthz", "/readyz"] {
        let answer = server.get(path).await.rest().await;
        assert!(answer.contains("200 OK"), "{answer}");
    }
    // A closed connection makes room, as soon as the server has noticed it.
    drop((first, second));
    loop {
        let mut next = server.get("/sessions").await;
        next.until("\r\n\r\n").await;
        if next.seen.contains("200 OK") {
            break;
        }
    }
    server.stop().await.unwrap();
}

#[tokio::test]
async fn many_silent_connections_do_not_block_probes() {
    let place = Place::new();
    let limits = Limits::default().max_connections(1);
    let server = Loopback::new(place.app, limits).await;
    let mut crowd = Vec::new();
    for _ in 0..300 {
        crowd.push(server.send("").await);
    }
    for _ in 0..10 {
        let answer = server.get("/healthz").await.rest().await;
        assert!(answer.contains("200 OK"), "{answer}");
    }
    // All but the one within the limit and the latest ones beyond it are closed.
    let mut cut = 0;
    for connection in crowd.drain(1..200) {
        assert_eq!(connection.rest().await, "");
        cut += 1;
    }
    assert_eq!(cut, 199);
    server.stop().await.unwrap();
}
