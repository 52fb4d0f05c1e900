//! Serves a router on a listener, with time limits and an orderly end.

use std::io;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tower::ServiceExt;

/// How long is waited when no connection can be accepted, for want of file handles or memory.
const BREATHER: Duration = Duration::from_millis(100);

/// How long a server waits for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How long the head of a request may take to arrive, and how long a connection may be idle.
    pub header_timeout: Duration,
    /// How long open requests have to end once the server is told to stop.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// How long the head of a request may take, and how long a connection may be idle.
    #[must_use]
    pub fn header_timeout(mut self, timeout: Duration) -> Self {
        self.header_timeout = timeout;
        self
    }

    /// How long open requests have to end.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }
}

/// Why a server ended other than in order.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The listener is of no use.
    #[error("the listener cannot accept connections; open another one")]
    Listener(#[source] io::Error),
    /// Some requests did not end in time.
    #[error("{connections} connections were cut off; they had not ended within the grace period")]
    CutOff {
        /// How many.
        connections: usize,
    },
}

/// Tells streams that the server closes. Without a server of ours it never does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Closing(Option<watch::Receiver<bool>>);

impl Closing {
    /// Returns when the server closes.
    pub(crate) async fn closed(mut self) {
        if let Some(receiver) = &mut self.0 {
            // Whoever could say so is gone with the server.
            let _ = receiver.wait_for(|closes| *closes).await;
        } else {
            std::future::pending::<()>().await;
        }
    }
}

/// Serves a router until `shutdown` resolves.
///
/// Then no connection is accepted any more, open streams end, and requests under way have the grace
/// period to end. The router may be a user's own, with ours nested in it.
///
/// # Errors
/// [`ServeError::Listener`] when the listener is of no use, [`ServeError::CutOff`] when requests
/// were cut off at the end.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    listener.local_addr().map_err(ServeError::Listener)?;
    // Finding out which version of HTTP is spoken has no time limit, so only one is.
    let mut http = Builder::new(TokioExecutor::new()).http1_only();
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout);
    let (close, closing) = watch::channel(false);
    let closing = Closing(Some(closing));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
            // What has ended is forgotten, or the set would only grow.
            Some(_) = connections.join_next() => continue,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) if is_of_the_connection(&error) => continue,
            Err(error) => {
                tracing::warn!(event = "server.accept_failed", %error);
                tokio::time::sleep(BREATHER).await;
                continue;
            }
        };
        let router = router.clone();
        let closing = closing.clone();
        let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(closing.clone());
            router.clone().oneshot(request.map(Body::new))
        });
        let connection = http
            .serve_connection(prepared(stream), service)
            .into_owned();
        let connection = graceful.watch(connection);
        connections.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(event = "server.connection_ended", %error);
            }
        });
    }
    drop(listener);
    // Nobody may be listening, when there is no stream.
    let _ = close.send(true);
    let ended = tokio::time::timeout(limits.grace, graceful.shutdown()).await;
    while connections.try_join_next().is_some() {}
    let left = connections.len();
    connections.shutdown().await;
    match ended {
        Ok(()) => Ok(()),
        Err(_) => Err(ServeError::CutOff { connections: left }),
    }
}

fn prepared(stream: TcpStream) -> TokioIo<TcpStream> {
    // Chunks are small and somebody waits for each of them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(event = "server.nodelay_failed", %error);
    }
    TokioIo::new(stream)
}

/// Whether only the connection that was to be accepted is lost.
fn is_of_the_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}
