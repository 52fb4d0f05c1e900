//! `helix sessions show`.

use clap::Args;
use helix_agents_core::store::{Lookup, Page, Snapshot};
use helix_agents_core::{Message, SessionId};
use serde_json::{Value, json};

use super::super::{id, load};
use super::list::summary;
use super::status;
use crate::exit::Exit;
use crate::message_view;
use crate::screen::{Look, Screen};
use crate::setup::Place;

/// How many checkpoints are shown.
const CHECKPOINTS: usize = 20;

/// Shows a session with its messages.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The session
    session: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Show {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let session: SessionId = id(&self.session)?;
        let setup = self.place.open().await?;
        let store = setup.backend.store.as_ref();
        let found = load(store, &session).await?;
        let messages = store.messages(&session, Page::ALL).await?.items;
        let which = Lookup::Page(Page::first(CHECKPOINTS));
        let checkpoints = store.checkpoints(&session, which).await?;
        let screen = Screen::here();
        if !self.json {
            print(&screen, &found, &messages)?;
            return Ok(Exit::Done);
        }
        let mut shown = summary(&found.state);
        if let Value::Object(shown) = &mut shown {
            let mut put = |key: &str, value| shown.insert(key.to_owned(), value);
            let pending: Vec<_> = found.state.pending_client_tool_calls.values().collect();
            put("state", Value::clone(&found.state.custom_state));
            put("pending", json!(pending));
            put("messages", messages.iter().map(message_view::of).collect());
            put("checkpoints", json!(checkpoints.items));
            if let Some(run) = &found.run {
                put("runId", json!(run.id));
                put("runStatus", json!(run.status));
            }
            if let Some(step) = &found.open_step {
                put("openStep", json!(step));
            }
        }
        screen.json(&shown)?;
        Ok(Exit::Done)
    }
}

fn print(screen: &Screen, found: &Snapshot, messages: &[Message]) -> std::io::Result<()> {
    let state = &found.state;
    let line = |look, text: &str| screen.say(screen.on_out(look, text));
    line(Look::Bold, &format!("session {}", state.session_id))?;
    line(Look::Plain, &format!("agent   {}", state.agent_type))?;
    line(Look::Plain, &format!("status  {}", status(state.status)))?;
    if let Some(user) = &state.user_id {
        line(Look::Plain, &format!("user    {user}"))?;
    }
    if let Some(error) = &state.error {
        line(
            Look::Red,
            &format!("error   {} ({})", error.detail, error.code),
        )?;
    }
    line(Look::Plain, &format!("state   {}", state.custom_state))?;
    for message in messages {
        match message {
            Message::User(user) => line(Look::Cyan, &format!("\nuser: {}", user.content))?,
            Message::Assistant(assistant) => {
                let text = assistant.content().unwrap_or_default();
                line(Look::Plain, &format!("\nassistant: {text}"))?;
                for call in assistant.tool_calls() {
                    let text = format!("  → {} {} {}", call.id, call.name, call.arguments);
                    line(Look::Dim, &text)?;
                }
            }
            Message::Tool(result) => {
                let text = format!("  ← {} {}", result.tool_call_id, result.content);
                line(Look::Dim, &text)?;
            }
            _ => {}
        }
    }
    for call in state.pending_client_tool_calls.values() {
        let standing = if call.answer.is_some() {
            "answered"
        } else {
            "waits"
        };
        let (id, tool, input) = (&call.tool_call_id, &call.tool_name, &call.input);
        line(Look::Yellow, &format!("\n{standing}: {id} {tool} {input}"))?;
    }
    Ok(())
}
