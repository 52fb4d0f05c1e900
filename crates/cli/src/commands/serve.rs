//! `helix serve`: the production server.

use std::net::SocketAddr;

use clap::Args;
use helix_agents_server::RunMetrics;

use crate::access;
use crate::config::listen_address;
use crate::exit::Exit;
use crate::hosting::{host, router, runtime, server};
use crate::screen::{Look, Screen};
use crate::setup::Place;

/// Serves the configured agents over HTTP.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The address to listen on, like `127.0.0.1:8787`; port 0 picks a free one
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    listen: Option<SocketAddr>,
    /// The agent of chats that name none; default: the first one
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    #[command(flatten)]
    place: Place,
}

impl Serve {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let plan = self.place.read()?;
        let tokens = access::tokens(&plan)?;
        plan.check_environment()?;
        let listen = self.listen.unwrap_or(plan.config.server.listen);
        let agent = plan.default_agent(self.agent.as_deref())?;
        let setup = plan.open().await?;
        let metrics = RunMetrics::new();
        let runtime = runtime(&setup, &metrics);
        let server = server(&runtime, metrics, &setup.plan.config, agent.as_ref());
        let server = match tokens {
            Some(tokens) => server.authenticate(tokens),
            None => {
                let warning = "every client that can reach this server may use it and sees all sessions \
                                 (`allow_unauthenticated`)";
                Screen::of_process().note(Look::Yellow, warning)?;
                server.allow_unauthenticated()
            }
        };
        host(&runtime, router(server)?, listen, &setup.plan.config.server).await
    }
}
