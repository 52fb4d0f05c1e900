//! Serves a router on a listener, with time limits and a graceful shutdown.

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
use crate::connection_limit::{ConnectionLimit, ConnectionSlot};
use crate::write_timeout::WriteTimeout;

/// The delay after a failed accept, for lack of file handles or memory.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The maximum number of connections beyond the limit, which get responses to probes only. The
/// oldest is closed for the next, so a client that sends its request at once gets a response.
const MAX_PROBE_CONNECTIONS: usize = 64;
/// The time within which a client on such a connection must send its request.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Time limits and connection limits of a server.
///
/// ```
/// use std::time::Duration;
///
/// use helix_agents_server::Limits;
///
/// let limits = Limits::default().grace(Duration::from_secs(20)).max_connections(1024);
/// assert_eq!(limits.max_connections, 1024);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How long the head of a request may take to arrive, and how long a connection may be idle.
    pub header_timeout: Duration,
    /// How long open requests may take to end after shutdown begins.
    pub grace: Duration,
    /// How long a connection may block writes before it is closed because its client does not read.
    pub write_timeout: Duration,
    /// The maximum number of connections. Beyond it, only `/healthz` and `/readyz` get a response.
    pub max_connections: usize,
    /// The maximum number of connections from one address, except from this host. `None` means no
    /// separate limit.
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
    /// Sets how long the head of a request may take, and how long a connection may be idle.
    #[must_use]
    pub fn header_timeout(mut self, timeout: Duration) -> Self {
        self.header_timeout = timeout;
        self
    }

    /// Sets how long open requests may take to end after shutdown begins.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets how long a client may fail to read its response.
    #[must_use]
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.write_timeout = timeout;
        self
    }

    /// Sets the maximum number of connections.
    #[must_use]
    pub fn max_connections(mut self, most: usize) -> Self {
        self.max_connections = most;
        self
    }

    /// Sets the maximum number of connections from one address. Use `None` behind a proxy on
    /// another host, through which all requests come.
    #[must_use]
    pub fn max_connections_per_address(mut self, most: Option<usize>) -> Self {
        self.max_connections_per_address = most;
        self
    }
}

/// The reason why a server did not end in order.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The listener cannot accept connections.
    #[error("the listener cannot accept connections; open another one")]
    Listener(#[source] io::Error),
    /// Some requests did not end within the grace period.
    #[error(
        "{connections} connections were closed because they did not end within the grace period"
    )]
    CutOff {
        /// The number of connections that were closed.
        connections: usize,
    },
}

/// Tells streams that the server shuts down. It never fires under a server of the user's own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Closing(Option<watch::Receiver<bool>>);

impl Closing {
    /// Returns when the server shuts down.
    pub(crate) async fn closed(mut self) {
        if let Some(receiver) = &mut self.0 {
            // The sender was dropped with the server.
            let _ = receiver.wait_for(|closes| *closes).await;
        } else {
            std::future::pending::<()>().await;
        }
    }
}

/// Serves a router until `shutdown` resolves.
///
/// Then no further connection is accepted, open streams end, and requests in progress have the
/// grace period to end. The router may be a user's own, with ours nested in it.
///
/// # Errors
/// [`ServeError::Listener`] if the listener cannot be used, [`ServeError::CutOff`] if requests did
/// not end within the grace period.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    listener.local_addr().map_err(ServeError::Listener)?;
    let (close, closing) = watch::channel(false);
    let mut open = Connections::new(router, limits, Closing(Some(closing)));
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
            // Remove finished connections, or the set would only grow.
            Some(_) = open.connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, from)) => open.take(stream, from),
            Err(error) if is_connection_error(&error) => {}
            Err(error) => {
                tracing::warn!(event = "server.accept_failed", %error);
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
    drop(listener);
    // There is no receiver if no stream is open.
    let _ = close.send(true);
    open.end().await
}

/// The open connections of a server.
struct Connections {
    router: Router,
    limits: Limits,
    closing: Closing,
    limit: ConnectionLimit,
    graceful: GracefulShutdown,
    connections: JoinSet<()>,
    /// The connections beyond the limit, oldest first.
    probe_connections: VecDeque<AbortHandle>,
}

impl Connections {
    fn new(router: Router, limits: Limits, closing: Closing) -> Self {
        Self {
            router,
            limits,
            closing,
            limit: ConnectionLimit::new(limits.max_connections, limits.max_connections_per_address),
            graceful: GracefulShutdown::new(),
            connections: JoinSet::new(),
            probe_connections: VecDeque::new(),
        }
    }

    /// Serves a connection: all routes, or only probes if there are too many connections.
    fn take(&mut self, stream: TcpStream, from: SocketAddr) {
        let slot = self.limit.acquire(from.ip());
        let probes_only = slot.is_none();
        let (router, closing) = (self.router.clone(), self.closing.clone());
        let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(closing.clone());
            answer(router.clone(), request.map(Body::new), probes_only)
        });
        let stream = with_write_timeout(stream, self.limits.write_timeout);
        let http = self.http(probes_only);
        let connection = http.serve_connection(stream, service);
        let connection = self.graceful.watch(connection.into_owned());
        let served = async move {
            if let Err(error) = connection.await {
                tracing::debug!(event = "server.connection_ended", %error);
            }
            drop::<Option<ConnectionSlot>>(slot);
        };
        let handle = self.connections.spawn(served);
        if probes_only {
            self.probe_connections.retain(|other| !other.is_finished());
            self.probe_connections.push_back(handle);
            if self.probe_connections.len() > MAX_PROBE_CONNECTIONS
                && let Some(oldest) = self.probe_connections.pop_front()
            {
                oldest.abort();
            }
        }
    }

    fn http(&self, probes_only: bool) -> Builder<TokioExecutor> {
        let header_timeout = match probes_only {
            true => self.limits.header_timeout.min(PROBE_TIMEOUT),
            false => self.limits.header_timeout,
        };
        // Detecting the HTTP version has no time limit, so only HTTP/1 is served.
        let mut http = Builder::new(TokioExecutor::new()).http1_only();
        http.http1()
            .timer(TokioTimer::new())
            .keep_alive(!probes_only)
            .header_read_timeout(header_timeout);
        http
    }

    /// Waits until open requests end, at most for the grace period.
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
    probes_only: bool,
) -> Result<Response, Infallible> {
    let path = request.uri().path();
    let is_probe = path.ends_with("/healthz") || path.ends_with("/readyz");
    let mut response = if probes_only && !is_probe {
        ApiError::overloaded("the server has reached its connection limit; try again in a moment")
            .into_response()
    } else {
        router.oneshot(request).await?
    };
    if probes_only {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    Ok(response)
}

fn with_write_timeout(stream: TcpStream, timeout: Duration) -> TokioIo<WriteTimeout> {
    // Chunks are small, and a reader waits for each of them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(event = "server.nodelay_failed", %error);
    }
    TokioIo::new(WriteTimeout::new(stream, timeout))
}

/// Whether the error affects only the connection that was to be accepted.
fn is_connection_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}
