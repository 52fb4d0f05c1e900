//! `helix sessions`: manages stored sessions.

mod branch;
mod delete;
mod export;
mod import;
mod list;
mod show;
mod tree;

use clap::Subcommand;
use helix_agents_core::Message;
use helix_agents_core::session::{OpenStep, RunRecord, SessionState, SessionStatus};
use helix_agents_core::store::Snapshot;
use helix_agents_core::usage::UsageEntry;
use serde::{Deserialize, Serialize};

use super::{is_orphaned, is_running};
use crate::exit::Exit;
use crate::setup::{Place, Setup};

/// Manages stored sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum Sessions {
    /// List sessions, newest first
    List(list::List),
    /// Show a session with its messages
    Show(show::Show),
    /// Delete a session with everything that belongs to it
    Delete(delete::Delete),
    /// Write a session as JSON
    Export(export::Export),
    /// Import an exported session into a store
    Import(import::Import),
    /// Create a session from a point in another one
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

/// The format name in an exported file.
const FORMAT: &str = "helix-session";
/// The version of the format.
const VERSION: u32 = 1;

/// An exported session, with everything that it needs to continue in another store. Checkpoints are
/// left out, because they name versions of the state that are not exported; the import creates one.
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

/// Returns an error if a run of the session is running, with the way to end it.
async fn refuse_running(setup: &Setup, found: &Snapshot, place: &Place) -> anyhow::Result<()> {
    let session = &found.state.session_id;
    if !is_running(found.run.as_ref()) {
        return Ok(());
    }
    if is_orphaned(setup.backend.store.as_ref(), session, setup.clock.now()).await? {
        let resume = place.command(&format!("resume {session}"));
        anyhow::bail!(
            "the process of a run of session {session} is gone; `{resume}` continues it to its end"
        );
    }
    let interrupt = place.command(&format!("interrupt {session}"));
    anyhow::bail!("a run of session {session} is running; wait for its end, or `{interrupt}` first")
}
