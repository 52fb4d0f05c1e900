//! Where a run stands.

use serde::{Deserialize, Serialize};

use super::{At, Calls};
use crate::error::ErrorRecord;
use crate::id::{RunId, SessionId, StepId};
use crate::session::RunStatus;
use crate::store::{Fence, SessionKey};
use crate::stored::Stored;

/// Everything the loop knows of a run: ids, counters, and where the calls of the open step stand.
///
/// It holds no message, argument or result, so it stays small whatever the session is. Engines may
/// store it between two events; a host that lost it rebuilds it from the store with
/// [`RunState::of`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunState {
    /// The session.
    pub session_id: SessionId,
    /// Its root.
    pub root_session_id: SessionId,
    /// The run.
    pub run_id: RunId,
    /// The agent.
    pub agent_type: String,
    /// What every commit of the run carries.
    pub fence: Fence,
    /// The turn, from 1.
    pub turn: u32,
    /// How many steps of the turn are in the history.
    pub steps: u32,
    /// How often the model was asked for an output that it owes.
    #[serde(default)]
    pub corrections: u32,
    /// Which attempt of the present model call comes next, from 1.
    pub attempt: u32,
    /// Whether nobody was told yet that the run has begun.
    #[serde(default)]
    pub first: bool,
    /// Whether a process before this one may have left an unfinished reply in the stream.
    #[serde(default)]
    pub resync: bool,
    /// Whether somebody asked the run to stop.
    #[serde(default)]
    pub stop: bool,
    /// The number of the last effect.
    pub effects: u32,
    /// The effect that is under way, unless it is a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doing: Option<u32>,
    /// The open step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<OpenRef>,
    /// Why the run cannot go on: it ends as failed when nothing of it is under way any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<ErrorRecord>,
    /// As what the run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<RunStatus>,
}

impl Stored for RunState {
    const KIND: &'static str = "run_state";
    const VERSION: u32 = 1;
}

/// The open step, for the loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OpenRef {
    /// Names it.
    pub id: StepId,
    /// Its calls.
    pub calls: Calls,
    /// Whether one of them ends the run.
    #[serde(default)]
    pub fatal: bool,
}

impl OpenRef {
    /// A stored step.
    #[must_use]
    pub fn of(step: &crate::session::OpenStep) -> Self {
        Self {
            id: step.id.clone(),
            calls: Calls::of(&step.calls),
            fatal: step.calls.iter().any(|call| call.fatal.is_some()),
        }
    }
}

impl RunState {
    /// How its session is named to a store.
    #[must_use]
    pub fn key(&self) -> SessionKey<'_> {
        SessionKey::new(&self.root_session_id, &self.session_id)
    }

    /// Whether the run has ended.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// The place of the next effect.
    pub(super) fn at(&mut self) -> At {
        self.effects += 1;
        At {
            session_id: self.session_id.clone(),
            root_session_id: self.root_session_id.clone(),
            run_id: self.run_id.clone(),
            agent_type: self.agent_type.clone(),
            fence: self.fence,
            step: self.steps + 1,
            n: self.effects,
        }
    }
}
