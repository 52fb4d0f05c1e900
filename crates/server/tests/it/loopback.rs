//! A server on a loopback socket and its raw connections.

use std::net::SocketAddr;

use axum::Router;
use helix_agents_server::{Limits, ServeError, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::kit::ALICE;

/// A server on a loopback socket.
pub(crate) struct Loopback {
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), ServeError>>,
}

impl Loopback {
    pub(crate) async fn new(app: Router, limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let shutdown = async { drop(stopped.await) };
        let serving = tokio::spawn(serve(listener, app, limits, shutdown));
        Self {
            address,
            stop,
            serving,
        }
    }

    /// Stops the server and waits until it has ended.
    pub(crate) async fn stop(self) -> Result<(), ServeError> {
        drop(self.stop);
        self.serving.await.unwrap()
    }

    /// Opens a connection and sends this text.
    pub(crate) async fn send(&self, text: &str) -> Connection {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let seen = String::new();
        let mut connection = Connection { stream, seen };
        connection.send(text).await;
        connection
    }

    /// Requests a path with Alice's token.
    pub(crate) async fn get(&self, path: &str) -> Connection {
        let token = ALICE.unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\n\r\n",
            self.address
        );
        self.send(&request).await
    }
}

/// One connection, and everything received on it.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) seen: String,
}

impl Connection {
    /// Sends this text as raw bytes of a request.
    pub(crate) async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads until this text was received.
    pub(crate) async fn until(&mut self, text: &str) {
        while !self.seen.contains(text) {
            assert!(self.more().await, "closed before {text:?}: {}", self.seen);
        }
    }

    /// Reads until the server closes the connection, and returns everything received.
    pub(crate) async fn rest(mut self) -> String {
        while self.more().await {}
        self.seen
    }

    /// Reads a streamed response to its end, and returns everything received. The connection stays
    /// open.
    pub(crate) async fn whole(mut self) -> String {
        while !self.seen.ends_with("\r\n0\r\n\r\n") && self.more().await {}
        self.seen
    }

    /// Reads the next bytes. Returns false if the server has closed the connection.
    pub(crate) async fn more(&mut self) -> bool {
        let mut bytes = vec![0; 4096];
        let read = self.stream.read(&mut bytes).await.unwrap_or(0);
        self.seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
        read > 0
    }
}
