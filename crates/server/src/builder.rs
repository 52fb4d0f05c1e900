//! A server and what it is built from.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, Uri};
use helix_agents_core::runtime::Runtime;
use helix_agents_core::store::{SessionStore, Sessions};
use helix_agents_core::stream::StreamManager;

use crate::budget::Budget;
use crate::metrics::{Metrics, RunMetrics};
use crate::origin::OriginCheck;
use crate::quota::Quota;
use crate::routes::Readiness;
use crate::{Authenticate, Authorize, BuildError, routes};

/// The largest body that is taken unless another limit is given.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;
/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How often an idle stream says that it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// What large answers take together, and those of one user.
const ANSWERS_BYTES: usize = 64 * 1024 * 1024;
const ANSWERS_BYTES_PER_USER: usize = 16 * 1024 * 1024;
/// How many runs of one user go on at once, and how many it starts in a minute.
const MAX_RUNS_PER_USER: usize = 256;
const MAX_STARTS_PER_MINUTE: u32 = 1200;

/// The HTTP face of a runtime.
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
    let entrance = Entrance::Known(Arc::new(authenticate));
    let builder = Server::builder(runtime);
    builder.built(entrance, Vec::new()).router()
}

impl Server {
    /// Begins a server over a runtime.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a runtime is a handle, and whoever serves it gives it away"
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
        }
    }

    /// Its routes, to be served or nested under any path.
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

/// Builds a [`Server`].
#[must_use = "nothing is built before `build`"]
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
}

impl ServerBuilder {
    /// Who says who a caller is: [`Tokens`](crate::Tokens), or a function of your own.
    pub fn authenticate(mut self, hook: impl Authenticate + 'static) -> Self {
        self.authenticate = Some(Arc::new(hook));
        self
    }

    /// Who says what a caller may do. Without it, everybody may do everything with their own
    /// sessions.
    pub fn authorize(mut self, hook: impl Authorize + 'static) -> Self {
        self.authorize = Some(Arc::new(hook));
        self
    }

    /// Serves everybody who can reach it, and shows them all sessions. Requests of web pages from
    /// elsewhere are refused: see [`ServerBuilder::host`].
    pub fn allow_unauthenticated(mut self) -> Self {
        self.allow_unauthenticated = true;
        self
    }

    /// The largest body that is taken; 4 MiB by default.
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.max_body_bytes = bytes;
        self
    }

    /// How long a body may take to arrive; 30 s by default.
    pub fn body_timeout(mut self, timeout: Duration) -> Self {
        self.body_timeout = timeout;
        self
    }

    /// How often an idle stream says that it is there; every 15 s by default.
    pub fn keep_alive(mut self, every: Duration) -> Self {
        self.keep_alive = every;
        self
    }

    /// Lets pages of this origin use the server from a browser, like `https://example.com`.
    pub fn cors_origin(mut self, origin: impl Into<String>) -> Self {
        self.cors_origins.push(origin.into());
        self
    }

    /// Lets an unauthenticated server answer under this host name too. Addresses and `localhost`
    /// are always fine; a server with authentication answers to every name.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into().to_ascii_lowercase());
        self
    }

    /// The agent of chats that name none; `/agents` tells which it is.
    pub fn default_agent(mut self, name: impl Into<String>) -> Self {
        self.default_agent = Some(name.into());
        self
    }

    /// How much memory large answers take together until they are read; 64 MiB by default. Who asks
    /// for one while there is none left waits a second, and is told `RATE_LIMITED` then.
    pub fn answers_bytes(mut self, bytes: usize) -> Self {
        self.answers_bytes = bytes;
        self
    }

    /// How much of it those of one user take; 16 MiB by default.
    pub fn answers_bytes_per_user(mut self, bytes: usize) -> Self {
        self.answers_bytes_per_user = bytes;
        self
    }

    /// How many runs that one user started over this server go on at once; 256 by default, at least
    /// one. A run that waits for a person does not go on. Another start is `RATE_LIMITED`.
    pub fn max_runs_per_user(mut self, runs: usize) -> Self {
        self.max_runs_per_user = runs;
        self
    }

    /// How many runs one user starts or resumes in a minute; 1200 by default, at least one. Another is
    /// `RATE_LIMITED`, and told when it may come.
    pub fn max_starts_per_minute(mut self, starts: u32) -> Self {
        self.max_starts_per_minute = starts;
        self
    }

    /// Shows these metrics of runs under `/metrics`, beside those of requests and of what waits.
    pub fn run_metrics(mut self, metrics: RunMetrics) -> Self {
        self.run_metrics = Some(metrics);
        self
    }

    /// Builds it.
    ///
    /// # Errors
    /// [`BuildError`] without authentication, unless unauthenticated use is stated; and for an
    /// origin that is none.
    pub fn build(mut self) -> Result<Server, BuildError> {
        let entrance = match (self.authenticate.take(), self.allow_unauthenticated) {
            (None, false) => return Err(BuildError::NoAuthentication),
            (Some(_), true) => return Err(BuildError::BothWays),
            (Some(hook), false) => Entrance::Known(hook),
            (None, true) => {
                tracing::warn!(
                    event = "server.unauthenticated",
                    "everybody who can reach this server may use it and sees all sessions"
                );
                Entrance::Anybody(OriginCheck {
                    hosts: std::mem::take(&mut self.hosts),
                    origins: self.cors_origins.clone(),
                })
            }
        };
        let origins = std::mem::take(&mut self.cors_origins);
        let origins = origins.into_iter().map(origin);
        let cors_origins = origins.collect::<Result<_, _>>()?;
        Ok(self.built(entrance, cors_origins))
    }

    fn built(self, entrance: Entrance, cors_origins: Vec<HeaderValue>) -> Server {
        Server {
            app: App(Arc::new(Inner {
                runtime: self.runtime,
                entrance,
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

/// Who gets in.
pub(crate) enum Entrance {
    /// Who this hook knows.
    Known(Arc<dyn Authenticate>),
    /// Everybody but web pages from elsewhere.
    Anybody(OriginCheck),
}

/// What every route needs.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) entrance: Entrance,
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
