//! `helix abort`: stops a run for good.

use clap::Args;
use helix_agents_core::session::StopKind;

use super::stop::stop;
use crate::exit::Exit;
use crate::setup::Place;

/// Stops the run of a session and marks it as failed.
#[derive(Debug, Args)]
pub(crate) struct Abort {
    /// The id of the session
    session: String,
    /// The reason for stopping it
    #[arg(long, value_name = "REASON", allow_hyphen_values = true)]
    reason: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Abort {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        stop(
            &self.place,
            &self.session,
            StopKind::Abort,
            self.reason,
            self.json,
        )
        .await
    }
}
