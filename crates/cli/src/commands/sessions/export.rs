//! `helix sessions export`: writes a session as JSON.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use helix_agents_core::SessionId;
use helix_agents_core::store::{Lookup, Page};

use super::super::{id, load};
use super::{Exported, FORMAT, VERSION, refuse_running};
use crate::exit::Exit;
use crate::screen::{Look, Screen};
use crate::setup::Place;

/// Writes a session as JSON: its messages, state, runs, usage, and pending calls.
#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The id of the session
    session: String,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Has no effect, because the output is always JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Export {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let _ = self.json;
        let session: SessionId = id(&self.session)?;
        let setup = self.place.open_existing().await?;
        let store = setup.backend.store.as_ref();
        let mut found = load(store, &session).await?;
        refuse_running(&setup, &found, &self.place).await?;
        let family = store.extras(found.state.key()).await?;
        if !family.children.is_empty() || found.state.parent_session_id.is_some() {
            anyhow::bail!(
                "session {session} has a parent or children; only sessions without them can be exported"
            );
        }
        let answered = store
            .answered(session.as_root(), Lookup::Page(Page::ALL))
            .await?;
        let answered = answered.items.into_iter();
        let answered = answered.map(|one| (one.call, one.at));
        found.state.completed_client_tool_calls = answered.collect();
        let exported = Exported {
            format: FORMAT.to_owned(),
            version: VERSION,
            messages: store.messages(session.as_root(), Page::ALL).await?.items,
            runs: store
                .runs(session.as_root(), Lookup::Page(Page::ALL))
                .await?
                .items,
            usage: store.usage(session.as_root(), Page::ALL).await?.items,
            open_step: found.open_step,
            retired_call_ids: family.retired_call_ids,
            session: found.state,
        };
        let again = load(store, &session).await?;
        if again.state.version != exported.session.version {
            anyhow::bail!("session {session} changed while it was read; try again");
        }
        let text = serde_json::to_string_pretty(&exported)?;
        let screen = Screen::of_process();
        match &self.out {
            Some(file) => {
                std::fs::write(file, text + "\n")
                    .with_context(|| format!("{} cannot be written", file.display()))?;
                screen.note(
                    Look::Dim,
                    format!("session {session} was written to {}", file.display()),
                )?;
            }
            None => screen.print_line(text)?,
        }
        Ok(Exit::Done)
    }
}
