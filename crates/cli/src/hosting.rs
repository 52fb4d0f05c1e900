//! Serves a setup over HTTP until the process is asked to end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use helix_agents_core::agent::AnyAgent;
use helix_agents_runtime_local::LocalRuntime;
use helix_agents_server::{Limits, RunMetrics, ServeError, Server, ServerBuilder, serve};
use tokio::net::TcpListener;

use crate::UsageError;
use crate::config::{Config, ServerConfig};
use crate::exit::Exit;
use crate::screen::Screen;
use crate::setup::Setup;
use crate::signals::Signals;

/// The maximum time for open requests to end; with [`STEPS`] it stays under the ten seconds that a
/// process manager waits.
const REQUESTS: Duration = Duration::from_secs(3);
/// The maximum time for steps to commit.
const STEPS: Duration = Duration::from_secs(6);

/// Returns the runtime of a server, which takes over lapsed runs and resumes answered sessions, and
/// is measured.
pub(crate) fn runtime(setup: &Setup, metrics: &RunMetrics) -> LocalRuntime {
    let runtime = &setup.plan.config.runtime;
    setup
        .runtime_builder_on(metrics.watch(setup.backend.clone()))
        .auto_continue(runtime.auto_continue)
        .take_over(runtime.recover_on_start)
        .build()
}

/// Returns a server builder with everything but authentication.
pub(crate) fn server(
    runtime: &LocalRuntime,
    metrics: RunMetrics,
    config: &Config,
    agent: Option<&AnyAgent>,
) -> ServerBuilder {
    let (rule, config) = (config.runtime.double_texting, &config.server);
    let starts = u32::try_from(config.max_starts_per_minute).unwrap_or(u32::MAX);
    let mut server = Server::builder(Arc::new(runtime.clone()))
        .double_texting(rule)
        .run_metrics(metrics)
        .max_body_bytes(whole(config.max_body_bytes))
        .max_runs_per_user(whole(config.max_runs_per_user))
        .max_starts_per_minute(starts);
    if let Some(agent) = agent {
        server = server.default_agent(agent.name());
    }
    let hosts = config.hosts.iter();
    let server = hosts.fold(server, |server, host| server.host(host));
    let origins = config.cors_origins.iter();
    origins.fold(server, |server, origin| server.cors_origin(origin))
}

/// Builds the routes of a server.
pub(crate) fn router(server: ServerBuilder) -> Result<Router, UsageError> {
    let server = server.build();
    let server = server.map_err(|error| UsageError(error.to_string()))?;
    Ok(server.router())
}

fn whole(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Returns the limits on connections.
fn limits(config: &ServerConfig) -> Limits {
    let of_one = Some(config.max_connections_per_address).filter(|most| *most > 0);
    Limits::default()
        .grace(REQUESTS)
        .max_connections(whole(config.max_connections))
        .max_connections_per_address(of_one.map(whole))
}

/// Listens, serves, and shuts down gracefully: no new requests, steps commit, leases are released.
pub(crate) async fn host(
    runtime: &LocalRuntime,
    routes: Router,
    listen: SocketAddr,
    config: &ServerConfig,
) -> anyhow::Result<Exit> {
    let listener = TcpListener::bind(listen)
        .await
        .map_err(|error| UsageError(format!("cannot listen on {listen}: {error}")))?;
    let mut signals = Signals::listen()?;
    runtime.start_recovery()?;
    let address = listener
        .local_addr()
        .context("the listener has no address")?;
    Screen::of_process().print_line(format!("helix: listening on http://{address}"))?;
    let served = serve(listener, routes, limits(config), signals.next()).await;
    runtime.shutdown(STEPS).await;
    match served {
        // A client whose connection was closed can read everything from the stream later.
        Ok(()) | Err(ServeError::CutOff { .. }) => Ok(Exit::Done),
        Err(error) => Err(error.into()),
    }
}
