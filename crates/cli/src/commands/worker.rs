//! `helix worker`: hosts agents on an engine, which is not supported yet.

use clap::Args;

use crate::UsageError;
use crate::exit::Exit;
use crate::setup::Place;

/// Hosts agents on the configured engine.
#[derive(Debug, Args)]
pub(crate) struct Worker {
    #[command(flatten)]
    place: Place,
}

impl Worker {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let serve = self.place.command("serve");
        Err(UsageError(format!(
            "engines that need a worker (temporal, dbos) are not supported yet; `{serve}` hosts the \
             agents in its own process"
        ))
        .into())
    }
}
