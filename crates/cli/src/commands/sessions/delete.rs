//! `helix sessions delete`: deletes a session.

use clap::Args;
use helix_agents_core::SessionId;
use helix_agents_core::store::Sessions;
use serde_json::json;

use super::super::{id, load};
use super::refuse_running;
use crate::exit::Exit;
use crate::screen::Screen;
use crate::setup::Place;

/// Deletes a session with its children, messages, runs and stream.
#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// The id of the session
    session: String,
    /// Delete it although a run is running
    #[arg(long)]
    force: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Delete {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let session: SessionId = id(&self.session)?;
        let setup = self.place.open_existing().await?;
        let store = setup.backend.store.as_ref();
        let found = load(store, &session).await?;
        if !self.force {
            let refused = refuse_running(&setup, &found, &self.place).await;
            refused.map_err(|error| anyhow::anyhow!("{error}, or use --force"))?;
        }
        let deleted = Sessions::new(store, setup.clock.as_ref())
            .delete_session(&session)
            .await?;
        let screen = Screen::of_process();
        if self.json {
            screen.json(&json!({ "deleted": deleted, "sessionId": session }))?;
        } else {
            screen.print_line(format!("session {session} was deleted"))?;
        }
        Ok(Exit::Done)
    }
}
