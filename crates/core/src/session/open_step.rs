//! The open step: what the model last said, while its calls are not all settled.
//!
//! Everything unfinished lives here and nothing of it in the transcript. When every call has its
//! result, the step moves into the transcript as one [`PairedStep`].

use serde::{Deserialize, Serialize};

use super::EffectRecord;
use crate::id::{RunId, StepId};
use crate::message::{AssistantMessage, ToolCall, ToolMessage};
use crate::state::StepWrites;
use crate::stored::Stored;
use crate::transcript::{PairedStep, PairingError};

/// A reply and the calls it made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OpenStep {
    /// Names it.
    pub id: StepId,
    /// The run whose model call it was.
    pub run_id: RunId,
    /// Its number in the turn, from 1.
    pub step: u32,
    /// What the model said.
    pub message: AssistantMessage,
    /// What is known of each call, in the model's order.
    pub calls: Vec<OpenCall>,
}

impl Stored for OpenStep {
    const KIND: &'static str = "open_step";
    const VERSION: u32 = 1;
}

/// When a call is run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallPhase {
    /// With the other regular calls, in parallel.
    #[default]
    Regular,
    /// After all regular calls, one by one: its result may end the turn.
    Finish,
}

/// Where a call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallState {
    /// We run it when its phase comes.
    Ready,
    /// A client runs it.
    AwaitingClient,
    /// A person decides about it.
    AwaitingApproval,
    /// A person agreed; we run it.
    Approved,
    /// A child works on it.
    AwaitingChild,
    /// It has its result.
    Terminal,
}

/// What is known of one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OpenCall {
    /// When it is run.
    #[serde(default)]
    pub phase: CallPhase,
    /// Where it stands.
    pub state: CallState,
    /// What is known of its effect, for calls that we run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectRecord>,
    /// What it came to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ToolMessage>,
    /// What it wrote to the state.
    #[serde(default, skip_serializing_if = "StepWrites::is_empty")]
    pub writes: StepWrites,
}

impl OpenCall {
    /// A call in a state, with nothing known yet.
    #[must_use]
    pub fn new(phase: CallPhase, state: CallState) -> Self {
        Self {
            phase,
            state,
            effect: None,
            result: None,
            writes: StepWrites::default(),
        }
    }
}

impl OpenStep {
    /// A reply whose calls stand as `state` says.
    #[must_use]
    pub fn new(
        id: StepId,
        run_id: RunId,
        step: u32,
        message: AssistantMessage,
        state: impl FnMut(&ToolCall) -> OpenCall,
    ) -> Self {
        let calls = message.tool_calls().map(state).collect();
        Self {
            id,
            run_id,
            step,
            message,
            calls,
        }
    }

    /// Each call with what is known of it, in the model's order.
    pub fn calls(&self) -> impl Iterator<Item = (&ToolCall, &OpenCall)> {
        self.message.tool_calls().zip(&self.calls)
    }

    /// Whether every call has its result.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.calls.iter().all(|call| call.result.is_some())
    }

    /// The step as it enters the transcript.
    ///
    /// # Errors
    /// [`PairingError`] while a call has no result.
    pub fn into_paired(self) -> Result<PairedStep, PairingError> {
        let results = self.calls.into_iter().filter_map(|call| call.result);
        PairedStep::new(self.message, results)
    }
}
