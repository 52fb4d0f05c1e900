//! `helix serve`: the server for production.

use std::net::SocketAddr;

use clap::Args;

use crate::UsageError;
use crate::exit::Exit;
use crate::hosting::{host, router, runtime, server, tokens};
use crate::setup::Place;

/// Serves the configured agents over HTTP.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where to listen, like `127.0.0.1:8787`; port 0 picks a free one
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// The agent of chats that name none; without it the first that is configured
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Where streams are kept; overrides the configuration
    #[arg(long, value_name = "URL")]
    stream: Option<String>,
    #[command(flatten)]
    place: Place,
}

impl Serve {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let plan = self.place.read()?;
        let config = &plan.config.server;
        if config.tokens.is_empty() && !config.allow_unauthenticated {
            return Err(UsageError(
                "nobody could use the server: there is no [[server.tokens]]; add a token, or say \
                 `allow_unauthenticated = true` in [server] if everybody who can reach it may use it"
                    .to_owned(),
            )
            .into());
        }
        let listen = self.listen.unwrap_or(config.listen);
        let tokens = tokens(config)?;
        if let Some(url) = &self.stream {
            plan.check_stream(url)?;
        }
        let agent = plan.default_agent(self.agent.as_deref())?;
        let setup = plan.open().await?;
        let config = &setup.plan.config.server;
        let runtime = runtime(&setup);
        let mut server = server(&runtime, config, agent.as_ref());
        if !tokens.is_empty() {
            server = server.authenticate(tokens);
        }
        if config.allow_unauthenticated {
            server = server.allow_unauthenticated();
        }
        host(&setup, &runtime, router(server)?, listen).await
    }
}
