//! `helix sessions import`: imports a session.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use helix_agents_core::id::{IdSource, IdSourceExt};
use helix_agents_core::message::Message;
use helix_agents_core::session::{Checkpoint, RunStatus};
use helix_agents_core::store::{Change, Commit, Precondition};
use helix_agents_core::stream::StreamStatus;
use helix_agents_core::time::Timestamp;
use helix_agents_core::transcript::PairedStep;
use serde_json::json;

use super::{Exported, FORMAT, VERSION};
use crate::config::ConfigError;
use crate::exit::Exit;
use crate::screen::Screen;
use crate::setup::Place;

/// Imports an exported session into a store, under the same id.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The file; `-` is standard input
    file: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Import {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let exported = self.read()?;
        let setup = self.place.open().await?;
        let session = exported.session.session_id.clone();
        let commit = plan(exported, setup.clock.now(), setup.ids.as_ref())?;
        setup.backend.store.commit(commit).await?;
        let screen = Screen::of_process();
        if self.json {
            screen.json(&json!({ "sessionId": session }))?;
        } else {
            screen.print_line(format!("session {session} was imported"))?;
        }
        Ok(Exit::Done)
    }

    fn read(&self) -> Result<Exported, ConfigError> {
        let wrong = |line: Option<usize>, message: String| ConfigError {
            file: self.file.clone(),
            line,
            message,
        };
        let unreadable = |error: std::io::Error| wrong(None, format!("cannot be read: {error}"));
        let mut text = String::new();
        if self.file.as_os_str() == "-" {
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(unreadable)?;
        } else {
            text = std::fs::read_to_string(&self.file).map_err(unreadable)?;
        }
        let remedy = "use a file that `helix sessions export` wrote";
        let exported: Exported = serde_json::from_str(&text).map_err(|error| {
            let message = format!("is not an exported session: {error}; {remedy}");
            wrong(Some(error.line()), message)
        })?;
        if exported.format != FORMAT || exported.version != VERSION {
            let (format, version) = (&exported.format, exported.version);
            let message =
                format!("has the format {format} {version}, not {FORMAT} {VERSION}; {remedy}");
            return Err(wrong(None, message));
        }
        Ok(exported)
    }
}

/// Builds one commit that creates the session as it was.
fn plan(exported: Exported, now: Timestamp, ids: &dyn IdSource) -> anyhow::Result<Commit> {
    let Exported {
        mut session,
        messages,
        runs,
        open_step,
        usage,
        retired_call_ids,
        ..
    } = exported;
    session.checkpoint_id = None;
    session.checkpointed_at = None;
    session.checkpoint_source = None;
    let id = session.session_id.clone();
    let mut commit = Commit::new(id.clone(), now)
        .when(Precondition::Absent)
        .then(Change::Create(Box::new(session)));
    for change in appended(messages)? {
        commit = commit.then(change);
    }
    let last = runs.last().cloned();
    for mut run in runs {
        anyhow::ensure!(
            run.session_id == id && run.status != RunStatus::Running,
            "run {} cannot be imported: it belongs to another session, or was running",
            run.id
        );
        // The session gets a new stream, and its state new versions.
        run.start_sequence = 0;
        run.turn_start = None;
        if let Some(suspended) = &mut run.suspended {
            suspended.before = None;
        }
        commit = commit.then(Change::StartRun(Box::new(run)));
    }
    for entry in usage {
        commit = commit.then(Change::Usage(entry));
    }
    if let Some(mut step) = open_step {
        step.state_before = 0;
        commit = commit.then(Change::OpenStep(Some(Arc::new(step))));
    }
    if !retired_call_ids.is_empty() {
        commit = commit.then(Change::RetireCallIds(retired_call_ids));
    }
    if let Some(run) = last {
        // Counts and status are filled in by the commit.
        let here = Checkpoint {
            id: ids.checkpoint_id()?,
            session_id: id,
            run_id: run.id,
            status: helix_agents_core::session::SessionStatus::Active,
            timestamp: now,
            step_count: 0,
            message_count: 0,
            state_version: 0,
            open_step: None,
        };
        commit = commit.then(Change::CheckpointHere(here));
        commit = commit.stream(match run.status {
            RunStatus::Failed => StreamStatus::Failed,
            status if status.is_suspended() => StreamStatus::Paused,
            _ => StreamStatus::Ended,
        });
    }
    Ok(commit)
}

/// Returns the changes that append these messages: user messages and whole steps.
fn appended(messages: Vec<Message>) -> anyhow::Result<Vec<Change>> {
    let mut changes = Vec::new();
    let mut rest = messages.into_iter().peekable();
    while let Some(message) = rest.next() {
        match message {
            Message::User(user) => changes.push(Change::AppendUser(user)),
            Message::Assistant(assistant) => {
                let mut results = Vec::new();
                while let Some(Message::Tool(result)) =
                    rest.next_if(|next| matches!(next, Message::Tool(_)))
                {
                    results.push(result);
                }
                changes.push(Change::AppendStep(PairedStep::new(assistant, results)?));
            }
            _ => anyhow::bail!("the messages are not in order: a result without its call"),
        }
    }
    Ok(changes)
}
