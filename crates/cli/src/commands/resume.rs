//! `helix resume`: resumes a session.

use clap::Args;
use helix_agents_core::SessionId;
use helix_agents_core::agent::AnyAgent;
use helix_agents_core::runtime::{self, Handle, RuntimeExt};
use helix_agents_core::stream::Sequence;
use helix_agents_runtime_local::LocalRuntime;
use serde_json::Value;

use super::{id, is_running, load};
use crate::budget_args::BudgetArgs;
use crate::exit::{Exit, UsageError};
use crate::live::Live;
use crate::screen::Screen;
use crate::setup::{Place, Setup};
use crate::show::TakenOver;
use crate::turn::Turn;

/// Resumes a session, in this process.
#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// The id of the session
    session: String,
    /// Try a failed or interrupted turn again, from its last good checkpoint
    #[arg(long, group = "mode")]
    retry: bool,
    /// Rewind the session to this checkpoint and continue from there
    #[arg(long, value_name = "CHECKPOINT", group = "mode")]
    from: Option<String>,
    /// Send this message as the next turn
    #[arg(long, value_name = "TEXT", group = "mode")]
    message: Option<String>,
    /// Send the message although calls wait for an answer; those are not executed
    #[arg(long, requires = "message")]
    abandon_pending: bool,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Print one chunk per line, as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

impl Resume {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let session: SessionId = id(&self.session)?;
        let setup = self.place.open_existing().await?;
        setup.plan.check_environment()?;
        let found = load(setup.backend.store.as_ref(), &session).await?;
        let name = &found.state.agent_type;
        let agent = setup.agents().get(name).ok_or_else(|| {
            UsageError(format!(
                "session {session} belongs to the agent `{name}`, which is not configured here; use \
                 the configuration it was started with"
            ))
        })?;
        let runtime = setup.runtime();
        let live = Live::new(Screen::of_process(), self.json);
        let mut turn = Turn::new(&runtime, &agent, &self.place, live)?;
        if let Some(message) = &self.message {
            let handle = self
                .sent(&setup, &runtime, &agent, &session, message)
                .await?;
            return turn.follow(handle, None).await;
        }
        if let Some(mode) = self.mode(&session) {
            let handle = runtime.resume(&agent, mode).await?;
            return turn.follow(handle, None).await;
        }
        if is_running(found.run.as_ref()) {
            if !self.budget.budgets().is_empty() {
                let text = format!(
                    "a run of session {session} is in progress under the budgets it started with; leave the \
                     --budget options out"
                );
                return Err(UsageError(text).into());
            }
            let streams = setup.backend.streams.as_ref();
            let info = streams.info(found.state.root()).await?;
            let after = info.map_or(Sequence::START, |info| info.last);
            let handle = taken_over(&runtime, &agent, &session).await?;
            return turn.follow(handle, Some(TakenOver { after })).await;
        }
        let pending = found.state.pending_client_tool_calls.into_values();
        if !turn.answered(&pending.collect::<Vec<_>>()).await? {
            return Ok(Exit::Suspended);
        }
        let resume = runtime::Resume::of(&session).budget(self.budget.budgets());
        match turn.resumed(&session, resume).await? {
            Some(handle) => turn.follow(handle, None).await,
            None => Ok(Exit::Done),
        }
    }
}

impl Resume {
    /// The mode that the options name; `None` continues the session.
    fn mode(&self, session: &SessionId) -> Option<runtime::Resume> {
        let resume = runtime::Resume::of(session).budget(self.budget.budgets());
        match &self.from {
            Some(checkpoint) => Some(resume.from_checkpoint(checkpoint)),
            None => self.retry.then(|| resume.retry()),
        }
    }

    /// Sends a message. While a run is in progress, the configured rule for double texting decides.
    async fn sent(
        &self,
        setup: &Setup,
        runtime: &LocalRuntime,
        agent: &AnyAgent,
        session: &SessionId,
        message: &str,
    ) -> anyhow::Result<Handle<Value>> {
        let rule = setup.plan.config.runtime.double_texting;
        let mut turn = runtime::Turn::new(message)
            .double_texting(rule)
            .budget(self.budget.budgets());
        if self.abandon_pending {
            turn = turn.abandon_pending();
        }
        Ok(runtime.send(agent, session, turn).await?)
    }
}

/// Takes over a run whose process is gone.
async fn taken_over(
    runtime: &LocalRuntime,
    agent: &AnyAgent,
    session: &SessionId,
) -> anyhow::Result<Handle<Value>> {
    runtime.recover_session(session).await?;
    let handle = runtime.handle(agent, session).await?;
    handle.ok_or_else(|| anyhow::anyhow!("session {session} has no run"))
}
