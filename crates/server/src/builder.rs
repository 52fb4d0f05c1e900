//! The server and its builder.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, Uri};
use helix_agents_core::entries::DoubleTexting;
use helix_agents_core::runtime::Runtime;
use helix_agents_core::store::{SessionStore, Sessions};
use helix_agents_core::stream::StreamManager;

use crate::budget::Budget;
use crate::metrics::{Metrics, RunMetrics};
use crate::origin::OriginCheck;
use crate::quota::Quota;
use crate::routes::Readiness;
use crate::{Authenticate, Authorize, BuildError, routes};

/// The default maximum size of a body.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;
/// The default maximum time for a body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// The default interval between keep-alive comments of an idle stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The default memory of large responses, in total and per user.
const ANSWERS_BYTES: usize = 64 * 1024 * 1024;
const ANSWERS_BYTES_PER_USER: usize = 16 * 1024 * 1024;
/// The default maximum of running runs per user, and of starts per minute.
const MAX_RUNS_PER_USER: usize = 256;
const MAX_STARTS_PER_MINUTE: u32 = 1200;

/// An HTTP server over a runtime.
///
/// ```
/// use helix_agents_server::{Server, Tokens};
/// # use helix_agents_core::memory::MemoryStore;
/// # use helix_agents_runtime_local::LocalRuntime;
/// # let runtime = LocalRuntime::new(MemoryStore::new());
///
/// let tokens = Tokens::new().token("a long random text", "alice")?;
/// let server = Server::builder(runtime).authenticate(tokens).build()?;
/// let app: axum::Router = server.router();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Server {
    app: App,
    cors_origins: Vec<HeaderValue>,
}

/// The routes of a runtime, to be served or nested under any path, for those whom `authenticate`
/// knows. [`Server::builder`] says more about them.
///
/// ```
/// use helix_agents_server::{Tokens, router};
/// # use helix_agents_core::memory::MemoryStore;
/// # use helix_agents_runtime_local::LocalRuntime;
/// # let runtime = LocalRuntime::new(MemoryStore::new());
///
/// // Tokens::from_env() reads them from the environment.
/// let tokens = Tokens::new().token("a long random text", "alice")?;
/// let app: axum::Router = axum::Router::new().nest("/agents", router(runtime, tokens));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn router(runtime: impl Runtime, authenticate: impl Authenticate + 'static) -> Router {
    let authentication = Authentication::Hook(Arc::new(authenticate));
    let builder = Server::builder(runtime);
    builder.built(authentication, Vec::new()).router()
}

impl Server {
    /// Begins a server over a runtime.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a runtime is a handle, and the server takes it over"
    )]
    pub fn builder(runtime: impl Runtime) -> ServerBuilder {
        ServerBuilder {
            runtime: runtime.shared(),
            authenticate: None,
            authorize: None,
            allow_unauthenticated: false,
            max_body_bytes: MAX_BODY_BYTES,
            body_timeout: BODY_TIMEOUT,
            keep_alive: KEEP_ALIVE,
            cors_origins: Vec::new(),
            hosts: Vec::new(),
            default_agent: None,
            answers_bytes: ANSWERS_BYTES,
            answers_bytes_per_user: ANSWERS_BYTES_PER_USER,
            max_runs_per_user: MAX_RUNS_PER_USER,
            max_starts_per_minute: MAX_STARTS_PER_MINUTE,
            run_metrics: None,
            double_texting: DoubleTexting::default(),
        }
    }

    /// Returns the routes, to be served or nested under any path.
    pub fn router(&self) -> Router {
        routes::router(&self.app, &self.cors_origins)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("runtime", &self.app.runtime)
            .finish_non_exhaustive()
    }
}

/// A builder for a [`Server`].
///
/// ```
/// use helix_agents_server::{Server, Tokens};
/// # use helix_agents_core::memory::MemoryStore;
/// # use helix_agents_runtime_local::LocalRuntime;
/// # let runtime = LocalRuntime::new(MemoryStore::new());
///
/// let server = Server::builder(runtime)
///     .authenticate(Tokens::new().token("a long random text", "alice")?)
///     .cors_origin("https://example.com")
///     .max_runs_per_user(16)
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "call `build` to get the server"]
pub struct ServerBuilder {
    runtime: Arc<dyn Runtime>,
    authenticate: Option<Arc<dyn Authenticate>>,
    authorize: Option<Arc<dyn Authorize>>,
    allow_unauthenticated: bool,
    max_body_bytes: usize,
    body_timeout: Duration,
    keep_alive: Duration,
    cors_origins: Vec<String>,
    hosts: Vec<String>,
    default_agent: Option<String>,
    answers_bytes: usize,
    answers_bytes_per_user: usize,
    max_runs_per_user: usize,
    max_starts_per_minute: u32,
    run_metrics: Option<RunMetrics>,
    double_texting: DoubleTexting,
}

impl ServerBuilder {
    /// Who says who a caller is: [`Tokens`](crate::Tokens), or a function of your own.
    pub fn authenticate(mut self, hook: impl Authenticate + 'static) -> Self {
        self.authenticate = Some(Arc::new(hook));
        self
    }

    /// Sets what callers are allowed to do. By default every caller may do everything with their
    /// own sessions.
    pub fn authorize(mut self, hook: impl Authorize + 'static) -> Self {
        self.authorize = Some(Arc::new(hook));
        self
    }

    /// Allows requests without authentication; every caller sees all sessions. Requests from web
    /// pages of other sites are refused: see [`ServerBuilder::host`].
    pub fn allow_unauthenticated(mut self) -> Self {
        self.allow_unauthenticated = true;
        self
    }

    /// Sets the maximum size of a body; 4 MiB by default.
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.max_body_bytes = bytes;
        self
    }

    /// Sets the maximum time for a body to arrive; 30 s by default.
    pub fn body_timeout(mut self, timeout: Duration) -> Self {
        self.body_timeout = timeout;
        self
    }

    /// Sets the interval between keep-alive comments of an idle stream; 15 s by default.
    pub fn keep_alive(mut self, every: Duration) -> Self {
        self.keep_alive = every;
        self
    }

    /// Allows pages of this origin, like `https://example.com`, to use the server from a browser.
    pub fn cors_origin(mut self, origin: impl Into<String>) -> Self {
        self.cors_origins.push(origin.into());
        self
    }

    /// Lets a server without authentication accept this host name too. Addresses and `localhost`
    /// are always accepted; a server with authentication accepts every host name.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into().to_ascii_lowercase());
        self
    }

    /// Sets the rule for a new message while a run of the session is in progress; it is interrupted by
    /// default.
    pub fn double_texting(mut self, rule: DoubleTexting) -> Self {
        self.double_texting = rule;
        self
    }

    /// Sets the agent of chats that name none; `/agents` returns its name.
    pub fn default_agent(mut self, name: impl Into<String>) -> Self {
        self.default_agent = Some(name.into());
        self
    }

    /// Sets the memory that large responses may take together until they are read; 64 MiB by
    /// default. A request that finds none left waits for up to a second, and then fails with
    /// `RATE_LIMITED`.
    pub fn answers_bytes(mut self, bytes: usize) -> Self {
        self.answers_bytes = bytes;
        self
    }

    /// Sets the share of that memory for one user; 16 MiB by default.
    pub fn answers_bytes_per_user(mut self, bytes: usize) -> Self {
        self.answers_bytes_per_user = bytes;
        self
    }

    /// Sets the maximum number of running runs that one user started through this server; 256 by
    /// default, at least one. A run that waits for a person does not count. A further start fails
    /// with `RATE_LIMITED`.
    pub fn max_runs_per_user(mut self, runs: usize) -> Self {
        self.max_runs_per_user = runs;
        self
    }

    /// Sets the maximum number of runs that one user starts or resumes per minute; 1200 by default,
    /// at least one. A further one fails with `RATE_LIMITED` and the time to wait.
    pub fn max_starts_per_minute(mut self, starts: u32) -> Self {
        self.max_starts_per_minute = starts;
        self
    }

    /// Adds these metrics of runs to `/metrics`, besides those of requests and of pending work.
    pub fn run_metrics(mut self, metrics: RunMetrics) -> Self {
        self.run_metrics = Some(metrics);
        self
    }

    /// Builds the server, if its options are valid.
    ///
    /// # Errors
    /// [`BuildError`] without authentication, unless unauthenticated use is stated; and for an
    /// origin that is none.
    pub fn build(mut self) -> Result<Server, BuildError> {
        let authentication = match (self.authenticate.take(), self.allow_unauthenticated) {
            (None, false) => return Err(BuildError::NoAuthentication),
            (Some(_), true) => return Err(BuildError::BothWays),
            (Some(hook), false) => Authentication::Hook(hook),
            (None, true) => {
                tracing::warn!(
                    event = "server.unauthenticated",
                    "every client that can reach this server may use it and sees all sessions"
                );
                Authentication::Open(OriginCheck {
                    hosts: std::mem::take(&mut self.hosts),
                    origins: self.cors_origins.clone(),
                })
            }
        };
        let origins = std::mem::take(&mut self.cors_origins);
        let origins = origins.into_iter().map(origin);
        let cors_origins = origins.collect::<Result<_, _>>()?;
        Ok(self.built(authentication, cors_origins))
    }

    fn built(self, authentication: Authentication, cors_origins: Vec<HeaderValue>) -> Server {
        Server {
            app: App(Arc::new(Inner {
                runtime: self.runtime,
                authentication,
                authorize: self.authorize,
                max_body_bytes: self.max_body_bytes,
                body_timeout: self.body_timeout,
                keep_alive: self.keep_alive,
                default_agent: self.default_agent,
                metrics: Metrics::default(),
                run_metrics: self.run_metrics,
                quota: Quota::new(self.max_runs_per_user, self.max_starts_per_minute),
                readiness: Readiness::default(),
                budget: Budget::new(self.answers_bytes, self.answers_bytes_per_user),
                double_texting: self.double_texting,
            })),
            cors_origins,
        }
    }
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("runtime", &self.runtime)
            .field("allow_unauthenticated", &self.allow_unauthenticated)
            .finish_non_exhaustive()
    }
}

fn origin(origin: String) -> Result<HeaderValue, BuildError> {
    let is_origin = origin.parse::<Uri>().is_ok_and(|uri| {
        let bare = uri.path() == "/" && uri.query().is_none() && !origin.ends_with('/');
        bare && uri.scheme().is_some() && uri.authority().is_some()
    });
    match HeaderValue::from_str(&origin) {
        Ok(value) if is_origin => Ok(value),
        _ => Err(BuildError::NotAnOrigin { origin }),
    }
}

/// How callers are authenticated.
pub(crate) enum Authentication {
    /// The hook identifies every caller.
    Hook(Arc<dyn Authenticate>),
    /// Every caller is accepted, except web pages of other sites.
    Open(OriginCheck),
}

/// The shared state of all routes.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) authentication: Authentication,
    pub(crate) authorize: Option<Arc<dyn Authorize>>,
    pub(crate) max_body_bytes: usize,
    pub(crate) body_timeout: Duration,
    pub(crate) keep_alive: Duration,
    pub(crate) default_agent: Option<String>,
    pub(crate) metrics: Metrics,
    pub(crate) run_metrics: Option<RunMetrics>,
    pub(crate) budget: Budget,
    pub(crate) quota: Quota,
    pub(crate) readiness: Readiness,
    pub(crate) double_texting: DoubleTexting,
}

impl std::ops::Deref for App {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Inner {
    pub(crate) fn store(&self) -> &dyn SessionStore {
        self.runtime.backend().store.as_ref()
    }

    pub(crate) fn streams(&self) -> &Arc<dyn StreamManager> {
        &self.runtime.backend().streams
    }

    pub(crate) fn sessions(&self) -> Sessions<'_> {
        Sessions::new(self.store(), self.runtime.clock().as_ref())
    }
}
