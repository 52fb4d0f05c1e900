//! `helix sessions`: looks after stored sessions.

mod branch;
mod delete;
mod export;
mod import;
mod list;
mod show;

use clap::Subcommand;
use helix_agents_core::Message;
use helix_agents_core::session::{OpenStep, RunRecord, SessionState, SessionStatus};
use helix_agents_core::store::Snapshot;
use helix_agents_core::usage::UsageEntry;
use serde::{Deserialize, Serialize};

use super::{is_left_alone, is_running};
use crate::exit::Exit;
use crate::setup::{Place, Setup};

/// Looks after stored sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum Sessions {
    /// List sessions, newest first
    List(list::List),
    /// Show a session with its messages
    Show(show::Show),
    /// Remove a session with everything that belongs to it
    Delete(delete::Delete),
    /// Write a session as JSON
    Export(export::Export),
    /// Bring an exported session into a store
    Import(import::Import),
    /// Make a new session from a point of another
    Branch(branch::Branch),
}

impl Sessions {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::List(command) => command.run().await,
            Self::Show(command) => command.run().await,
            Self::Delete(command) => command.run().await,
            Self::Export(command) => command.run().await,
            Self::Import(command) => command.run().await,
            Self::Branch(command) => command.run().await,
        }
    }
}

/// What an exported session is called in its file.
const FORMAT: &str = "helix-session";
/// The version of the form below.
const VERSION: u32 = 1;

/// An exported session: all that it needs to go on in another store. Checkpoints stay behind, for
/// they name versions of the state that are not carried along; the import makes one of its own.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Exported {
    format: String,
    version: u32,
    session: SessionState,
    messages: Vec<Message>,
    runs: Vec<RunRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    open_step: Option<OpenStep>,
    usage: Vec<UsageEntry>,
    #[serde(default)]
    retired_call_ids: Vec<helix_agents_core::CallId>,
}

fn status(status: SessionStatus) -> &'static str {
    match status {
        SessionStatus::Active => "active",
        SessionStatus::Completed => "completed",
        SessionStatus::Failed => "failed",
        SessionStatus::Interrupted => "interrupted",
        SessionStatus::Paused => "paused",
        _ => "other",
    }
}

/// Refuses when the run of a session goes on, and says how to end it.
async fn refuse_running(setup: &Setup, found: &Snapshot, place: &Place) -> anyhow::Result<()> {
    let session = &found.state.session_id;
    if !is_running(found.run.as_ref()) {
        return Ok(());
    }
    if is_left_alone(setup.backend.store.as_ref(), session, setup.clock.now()).await? {
        let resume = place.command(&format!("resume {session}"));
        anyhow::bail!(
            "a run of session {session} was left by its process; `{resume}` takes it to its end"
        );
    }
    let interrupt = place.command(&format!("interrupt {session}"));
    anyhow::bail!("a run of session {session} goes on; wait for its end, or `{interrupt}` first")
}
