//! Serves a router on a listener, with time limits and an orderly end.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::http::header::{CONNECTION, HeaderValue};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tower::ServiceExt;

use crate::ApiError;
use crate::door::{Door, Guest};
use crate::patient::Patient;

/// How long is waited when no connection can be accepted, for want of file handles or memory.
const BREATHER: Duration = Duration::from_millis(100);

/// How many connections are answered beside the limit, about the health of the server only. The oldest
/// makes room for the next: whoever asks at once is answered.
const BESIDE: usize = 64;
/// How long one of these may take to ask.
const BESIDE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a server waits for what, and for how many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How long the head of a request may take to arrive, and how long a connection may be idle.
    pub header_timeout: Duration,
    /// How long open requests have to end once the server is told to stop.
    pub grace: Duration,
    /// How long nothing can be written to a connection before it is cut: its other side does not read.
    pub write_timeout: Duration,
    /// How many connections there may be at once. Beside them, `/healthz` and `/readyz` are answered.
    pub max_connections: usize,
    /// How many of them may come from one address, other than this host's own. None: as many as there
    /// may be.
    pub max_connections_per_address: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(5),
            write_timeout: Duration::from_secs(30),
            max_connections: 8192,
            max_connections_per_address: Some(512),
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

    /// How long a connection may go without reading what it is sent.
    #[must_use]
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.write_timeout = timeout;
        self
    }

    /// How many connections there may be at once.
    #[must_use]
    pub fn max_connections(mut self, most: usize) -> Self {
        self.max_connections = most;
        self
    }

    /// How many connections there may be from one address. Behind a proxy on another host, which
    /// brings everybody's requests, give none.
    #[must_use]
    pub fn max_connections_per_address(mut self, most: Option<usize>) -> Self {
        self.max_connections_per_address = most;
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
    let (close, closing) = watch::channel(false);
    let mut open = Open::new(router, limits, Closing(Some(closing)));
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
            // What has ended is forgotten, or the set would only grow.
            Some(_) = open.connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, from)) => open.take(stream, from),
            Err(error) if is_of_the_connection(&error) => {}
            Err(error) => {
                tracing::warn!(event = "server.accept_failed", %error);
                tokio::time::sleep(BREATHER).await;
            }
        }
    }
    drop(listener);
    // Nobody may be listening, when there is no stream.
    let _ = close.send(true);
    open.end().await
}

/// The connections of a server.
struct Open {
    router: Router,
    limits: Limits,
    closing: Closing,
    door: Door,
    graceful: GracefulShutdown,
    connections: JoinSet<()>,
    /// Those that are answered beside the limit, the oldest first.
    beside: VecDeque<AbortHandle>,
}

impl Open {
    fn new(router: Router, limits: Limits, closing: Closing) -> Self {
        Self {
            router,
            limits,
            closing,
            door: Door::new(limits.max_connections, limits.max_connections_per_address),
            graceful: GracefulShutdown::new(),
            connections: JoinSet::new(),
            beside: VecDeque::new(),
        }
    }

    /// Serves a connection: everything, or where there are too many, whether the server is well.
    fn take(&mut self, stream: TcpStream, from: SocketAddr) {
        let guest = self.door.enter(from.ip());
        let is_beside = guest.is_none();
        let (router, closing) = (self.router.clone(), self.closing.clone());
        let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(closing.clone());
            answer(router.clone(), request.map(Body::new), is_beside)
        });
        let stream = prepared(stream, self.limits.write_timeout);
        let http = self.http(is_beside);
        let connection = http.serve_connection(stream, service);
        let connection = self.graceful.watch(connection.into_owned());
        let served = async move {
            if let Err(error) = connection.await {
                tracing::debug!(event = "server.connection_ended", %error);
            }
            drop::<Option<Guest>>(guest);
        };
        let handle = self.connections.spawn(served);
        if is_beside {
            self.beside.retain(|other| !other.is_finished());
            self.beside.push_back(handle);
            if self.beside.len() > BESIDE
                && let Some(oldest) = self.beside.pop_front()
            {
                oldest.abort();
            }
        }
    }

    fn http(&self, is_beside: bool) -> Builder<TokioExecutor> {
        let header_timeout = match is_beside {
            true => self.limits.header_timeout.min(BESIDE_TIMEOUT),
            false => self.limits.header_timeout,
        };
        // Finding out which version of HTTP is spoken has no time limit, so only one is.
        let mut http = Builder::new(TokioExecutor::new()).http1_only();
        http.http1()
            .timer(TokioTimer::new())
            .keep_alive(!is_beside)
            .header_read_timeout(header_timeout);
        http
    }

    /// Lets open requests end within the grace period.
    async fn end(mut self) -> Result<(), ServeError> {
        let ended = tokio::time::timeout(self.limits.grace, self.graceful.shutdown()).await;
        while self.connections.try_join_next().is_some() {}
        let left = self.connections.len();
        self.connections.shutdown().await;
        match ended {
            Ok(()) => Ok(()),
            Err(_) => Err(ServeError::CutOff { connections: left }),
        }
    }
}

async fn answer(
    router: Router,
    request: Request<Body>,
    is_beside: bool,
) -> Result<Response, Infallible> {
    let path = request.uri().path();
    let asks_for_health = path.ends_with("/healthz") || path.ends_with("/readyz");
    let mut response = if is_beside && !asks_for_health {
        ApiError::overloaded(
            "the server has as many connections as it takes; come back in a moment",
        )
        .into_response()
    } else {
        router.oneshot(request).await?
    };
    if is_beside {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    Ok(response)
}

fn prepared(stream: TcpStream, patience: Duration) -> TokioIo<Patient> {
    // Chunks are small and somebody waits for each of them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(event = "server.nodelay_failed", %error);
    }
    TokioIo::new(Patient::new(stream, patience))
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
