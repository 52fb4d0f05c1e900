//! `helix resume`: goes on with a session.

use clap::Args;
use helix_agents_core::SessionId;
use helix_agents_core::runtime::{Handle, RuntimeExt};
use helix_agents_core::session::RunStatus;
use helix_agents_runtime_local::LocalRuntime;
use serde_json::Value;

use super::{id, load};
use crate::exit::{Exit, UsageError};
use crate::live::Live;
use crate::screen::Screen;
use crate::setup::Place;
use crate::turn;

/// Goes on with a session, in this process.
#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// The session
    session: String,
    /// Print one chunk per line, as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Resume {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let session: SessionId = id(&self.session)?;
        let setup = self.place.open().await?;
        let found = load(setup.backend.store.as_ref(), &session).await?;
        let name = &found.state.agent_type;
        let agent = setup.agents().get(name).ok_or_else(|| {
            UsageError(format!(
                "session {session} talks to the agent `{name}`, which is not configured here; use \
                 the configuration it was started with"
            ))
        })?;
        let runtime = setup.runtime();
        let is_running = found
            .run
            .is_some_and(|run| run.status == RunStatus::Running);
        let mut live = Live::new(Screen::here(), self.json);
        let handle = if is_running {
            taken_over(&runtime, &agent, &session).await?
        } else {
            let pending: Vec<_> = found
                .state
                .pending_client_tool_calls
                .into_values()
                .collect();
            if !turn::answered(&runtime, &pending, &live).await? {
                return Ok(Exit::Suspended);
            }
            runtime.resume_with(&agent, &session).await?
        };
        turn::follow(&runtime, &agent, handle, &mut live).await
    }
}

/// Takes over a run whose process is gone.
async fn taken_over(
    runtime: &LocalRuntime,
    agent: &helix_agents_core::Agent,
    session: &SessionId,
) -> anyhow::Result<Handle<Value>> {
    runtime.recover_session(session).await?;
    let handle = runtime.handle(agent, session).await?;
    handle.ok_or_else(|| anyhow::anyhow!("session {session} has no run"))
}
