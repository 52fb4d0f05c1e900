//! `helix run`: runs one turn in this terminal.

use clap::Args;
use helix_agents_core::entries::EntryError;
use helix_agents_core::runtime::{RuntimeError, RuntimeExt, Turn as UserTurn};
use helix_agents_core::{Error, SessionId, UserId};

use super::id;
use crate::UsageError;
use crate::exit::Exit;
use crate::live::Live;
use crate::screen::Screen;
use crate::setup::Place;
use crate::turn::Turn;

/// Runs one turn of an agent in this terminal.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The name of the agent
    agent: String,
    /// The message to the agent
    #[arg(allow_hyphen_values = true)]
    message: String,
    /// The session id: a new one, or one to continue
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The owner of a new session
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Print one chunk per line, as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Run {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        if self.message.trim().is_empty() {
            let why = "the message is empty; write one";
            return Err(UsageError(why.to_owned()).into());
        }
        let session: Option<SessionId> = self.session.as_deref().map(id).transpose()?;
        let user: Option<UserId> = self.user.as_deref().map(id).transpose()?;
        let setup = self.place.open().await?;
        setup.plan.check_environment()?;
        let agent = setup.plan.agent(&self.agent)?;

        let mut user_turn = UserTurn::new(self.message);
        if let Some(session) = session {
            user_turn = user_turn.session(session);
        }
        if let Some(user) = user {
            user_turn = user_turn.user(user);
        }
        let runtime = setup.runtime();
        let live = Live::new(Screen::of_process(), self.json);
        let mut turn = Turn::new(&runtime, agent, &self.place, live)?;
        let handle = runtime
            .execute(agent, user_turn)
            .await
            .map_err(|error| hinted(error, &self.place))?;
        turn.follow(handle, None).await
    }
}

/// A refusal with what to do about it here.
fn hinted(error: Error, place: &Place) -> anyhow::Error {
    match error.downcast_ref() {
        Some(RuntimeError::Entry(EntryError::AlreadyRunning { session, .. })) => {
            let resume = place.command(&format!("resume {session}"));
            anyhow::anyhow!("{error}; when its process is gone, `{resume}` takes it over")
        }
        _ => error.into(),
    }
}
