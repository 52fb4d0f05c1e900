//! `helix dev`: a development server on this machine.

use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;
use helix_agents_server::RunMetrics;

use crate::config::listen_address;
use crate::exit::Exit;
use crate::hosting::{host, router, runtime, server};
use crate::screen::{Look, Screen};
use crate::setup::{Place, Plan};
use crate::{UsageError, page};

/// Serves the demo agents, or those of a configuration, on this machine only.
#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// The address to listen on; loopback only, port 0 picks a free one
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    listen: Option<SocketAddr>,
    /// The agent of chats that name none; default: the first one
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    #[command(flatten)]
    place: Place,
}

impl Dev {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let plan = self.place.read()?;
        let listen = self.listen(&plan)?;
        if let (false, Some(file)) = (plan.config.server.tokens.is_empty(), &plan.file) {
            let text = format!(
                "`helix dev` has no authentication; the tokens of {} are for `helix serve`",
                file.display()
            );
            Screen::of_process().note(Look::Yellow, text)?;
        }
        let agent = plan.default_agent(self.agent.as_deref())?;
        plan.check_environment()?;
        let setup = plan.open().await?;
        let metrics = RunMetrics::new();
        let runtime = runtime(&setup, &metrics);
        let config = &setup.plan.config;
        let server = server(&runtime, metrics, config, agent.as_ref()).allow_unauthenticated();
        let routes = page::routes().merge(router(server)?);
        host(&runtime, routes, listen, &setup.plan.config.server).await
    }

    /// Returns the address to listen on, which must be loopback.
    fn listen(&self, plan: &Plan) -> anyhow::Result<SocketAddr> {
        if let Some(listen) = self.listen {
            if listen.ip().is_loopback() {
                return Ok(listen);
            }
            return Err(UsageError(format!(
                "`helix dev` has no authentication, so it listens on this machine only, not on \
                 {listen}; use 127.0.0.1, or `helix serve` with tokens"
            ))
            .into());
        }
        let wanted = plan.config.server.listen;
        if wanted.ip().is_loopback() {
            return Ok(wanted);
        }
        let listen = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), wanted.port());
        let text = format!(
            "`helix dev` serves this machine only: it listens on {listen}, not on {wanted}"
        );
        Screen::of_process().note(Look::Yellow, text)?;
        Ok(listen)
    }
}
