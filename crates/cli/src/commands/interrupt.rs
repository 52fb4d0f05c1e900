//! `helix interrupt`: stops a run; it can be resumed.

use clap::Args;
use helix_agents_core::session::StopKind;

use super::stop::stop;
use crate::exit::Exit;
use crate::setup::Place;

/// Stops the run of a session. It keeps what it has, and can be resumed.
#[derive(Debug, Args)]
pub(crate) struct Interrupt {
    /// The session
    session: String,
    /// Why
    #[arg(long, value_name = "REASON", allow_hyphen_values = true)]
    reason: Option<String>,
    /// Print JSON
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
