//! `helix sessions branch`: creates a session from a point in another one.

use clap::Args;
use helix_agents_core::id::IdSourceExt;
use helix_agents_core::store::{BranchPoint, Sessions};
use helix_agents_core::{CheckpointId, SessionId};
use serde_json::json;

use super::super::id;
use crate::exit::Exit;
use crate::screen::Screen;
use crate::setup::Place;

/// Creates a session from a point in another one, which is not changed.
#[derive(Debug, Args)]
pub(crate) struct Branch {
    /// The id of the session
    session: String,
    #[command(flatten)]
    point: Point,
    /// The id of the new session; default: a generated one
    #[arg(long = "as", value_name = "ID")]
    name: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// The point to branch from: exactly one of them.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Point {
    /// Branch from this checkpoint
    #[arg(long, value_name = "CHECKPOINT")]
    checkpoint: Option<String>,
    /// Branch after this message, counted from 0, and the results of its calls
    #[arg(long, value_name = "INDEX")]
    message: Option<usize>,
}

impl Branch {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let from: SessionId = id(&self.session)?;
        let checkpoint: Option<CheckpointId> =
            self.point.checkpoint.as_deref().map(id).transpose()?;
        let point = match (checkpoint, self.point.message) {
            (Some(checkpoint), _) => BranchPoint::Checkpoint(checkpoint),
            (None, Some(index)) => BranchPoint::Message(index),
            (None, None) => BranchPoint::Now,
        };
        let named = self.name.as_deref().map(id).transpose()?;
        let setup = self.place.open_existing().await?;
        let to: SessionId = match named {
            Some(name) => name,
            None => setup.ids.session_id()?,
        };
        let sessions = Sessions::new(setup.backend.store.as_ref(), setup.clock.as_ref());
        sessions.branch(&from, &point, &to).await?;
        let screen = Screen::of_process();
        if self.json {
            screen.json(&json!({ "sessionId": to }))?;
        } else {
            screen.print_line(to.as_str())?;
        }
        Ok(Exit::Done)
    }
}
