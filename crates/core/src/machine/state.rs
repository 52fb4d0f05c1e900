//! The state of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Calls, EffectAddress};
use crate::error::ErrorRecord;
use crate::id::{RunId, SessionId, StepId};
use crate::session::RunStatus;
use crate::shared_str::SharedStr;
use crate::store::{Fence, SessionKey};
use crate::stored::Stored;

/// Everything the loop knows of a run: ids, counters, and the states of the open step's calls.
///
/// It holds no message, argument or result, so it stays small whatever the session
/// contains. Engines may store it between two events; a host that lost it rebuilds it from
/// the store with [`RunState::of`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunState {
    /// The session of the run.
    pub session_id: SessionId,
    /// The root of the session.
    pub root_session_id: SessionId,
    /// The id of the run.
    pub run_id: RunId,
    /// The agent of the session.
    pub agent_type: SharedStr,
    /// The fence that every commit of the run carries.
    pub fence: Fence,
    /// The number of the turn, from 1.
    pub turn: u32,
    /// The number of steps of the turn in the history.
    pub steps: u32,
    /// How many times the model was asked for a missing output.
    #[serde(default)]
    pub corrections: u32,
    /// The number of steps of the turn at which the step budget began.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub budget_from: u32,
    /// The number of the next attempt of the current model call, from 1.
    pub attempt: u32,
    /// Whether the hooks were not yet notified that the run has begun.
    #[serde(default)]
    pub first: bool,
    /// Whether an earlier process may have left an unfinished reply in the stream.
    #[serde(default)]
    pub resync: bool,
    /// Whether a stop of the run is requested.
    #[serde(default)]
    pub stop: bool,
    /// Whether messages wait for the next run, once this one has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub messages_wait: bool,
    /// The number of the last effect.
    pub effects: u32,
    /// The number of the exclusive effect in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doing: Option<u32>,
    /// The open step of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<OpenStepRef>,
    /// The number of the effect that waits for the child of a call, by the index of the call.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub awaited: BTreeMap<u32, u32>,
    /// The error because of which the run cannot continue: it fails once nothing of it is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<ErrorRecord>,
    /// The status with which the run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<RunStatus>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

impl Stored for RunState {
    const KIND: &'static str = "run_state";
    const VERSION: u32 = 1;
}

/// The open step, as the loop sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OpenStepRef {
    /// The id of the step.
    pub id: StepId,
    /// The states of its calls.
    pub calls: Calls,
    /// Whether one of its calls ends the run.
    #[serde(default)]
    pub fatal: bool,
}

impl OpenStepRef {
    /// Summarizes a stored step.
    #[must_use]
    pub(crate) fn of(step: &crate::session::OpenStep) -> Self {
        Self {
            id: step.id.clone(),
            calls: Calls::of(&step.calls),
            fatal: step.calls.iter().any(|call| call.fatal.is_some()),
        }
    }
}

impl RunState {
    /// Returns the key of its session.
    #[must_use]
    pub fn key(&self) -> SessionKey<'_> {
        SessionKey::new(&self.root_session_id, &self.session_id)
    }

    /// Whether the run has ended.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Returns the address of the next effect.
    pub(super) fn at(&mut self) -> EffectAddress {
        self.effects += 1;
        EffectAddress {
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
