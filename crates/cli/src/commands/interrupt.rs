//! `helix interrupt`: stops a run, which can be resumed.

use clap::Args;
use helix_agents_core::session::StopKind;

use super::stop::stop;
use crate::exit::Exit;
use crate::setup::Place;

/// Stops the run of a session. It keeps its results, and can be resumed.
#[derive(Debug, Args)]
pub(crate) struct Interrupt {
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

impl Interrupt {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let kind = StopKind::Interrupt;
        stop(&self.place, &self.session, kind, self.reason, self.json).await
    }
}
