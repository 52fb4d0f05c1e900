//! `helix dev`: a development server on this machine.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use clap::Args;
use helix_agents_core::model::Model;
use helix_agents_server::RunMetrics;

use crate::config::listen_address;
use crate::exit::Exit;
use crate::hosting::{host, router, runtime, server};
use crate::screen::{Look, Screen};
use crate::setup::{Place, Plan};
use crate::{UsageError, demo, page};

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

/// Gives the demo agents a real model, where a key is in the environment, and says which.
fn use_provider(plan: &mut Plan) -> anyhow::Result<()> {
    if plan.file.is_some() {
        return Ok(());
    }
    let model = demo::provider_model().map_err(|error| UsageError(error.to_string()))?;
    let Some(model) = model else {
        return Ok(());
    };
    let variable = model.provider().key_variable();
    let text = format!(
        "the demo agents use {}, because {variable} is set",
        model.name()
    );
    Screen::of_process().note(Look::Plain, text)?;
    let model: Arc<dyn Model> = Arc::new(model);
    plan.config.agents = demo::agents_of(&model)?;
    Ok(())
}

impl Dev {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let mut plan = self.place.read()?;
        use_provider(&mut plan)?;
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
