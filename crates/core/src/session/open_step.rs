//! The open step: what the model last said, while its calls are not all settled.
//!
//! Everything unfinished lives here and nothing of it in the transcript. When every call has its
//! result, the step moves into the transcript as one [`PairedStep`].

use serde::{Deserialize, Serialize};

use super::EffectRecord;
use crate::canonical::Digest;
use crate::error::ErrorRecord;
use crate::id::{ApprovalId, RunId, StepId, UserId};
use crate::message::{AssistantMessage, Message, ToolCall, ToolMessage};
use crate::model::TokenUsage;
use crate::state::StepWrites;
use crate::step::NextAction;
use crate::stored::Stored;
use crate::stream::Sequence;
use crate::time::Timestamp;
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
    /// What the rules say comes after it, once its calls are settled.
    #[serde(default, skip_serializing_if = "NextAction::is_continue")]
    pub after: NextAction,
    /// What the reply cost. It is recorded when the step is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ReplyUsage>,
    /// A place in the stream before its own chunks.
    #[serde(default, skip_serializing_if = "Sequence::is_start")]
    pub start_sequence: Sequence,
}

impl Stored for OpenStep {
    const KIND: &'static str = "open_step";
    const VERSION: u32 = 1;
}

/// What a reply cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReplyUsage {
    /// The model.
    pub model: String,
    /// Its tokens.
    pub tokens: TokenUsage,
}

impl ReplyUsage {
    /// What a reply cost.
    #[must_use]
    pub fn new(model: impl Into<String>, tokens: TokenUsage) -> Self {
        Self {
            model: model.into(),
            tokens,
        }
    }
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
    /// What it wrote to the state, and is not applied yet.
    #[serde(default, skip_serializing_if = "StepWrites::is_empty")]
    pub writes: StepWrites,
    /// The agreement that lets it run, for calls that needed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// Why the run ends with it, when it failed for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fatal: Option<ErrorRecord>,
    /// How long it ran.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub duration_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// A person's agreement to one call, bound to its arguments. Used once: it moves here when the
/// question is taken off the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Approval {
    /// Which question was answered.
    pub approval_id: ApprovalId,
    /// The digest of the tool and the arguments that were shown.
    pub digest: Digest,
    /// Who agreed, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<UserId>,
    /// When.
    pub decided_at: Timestamp,
}

impl Approval {
    /// An agreement.
    #[must_use]
    pub fn new(
        approval_id: ApprovalId,
        digest: Digest,
        decided_by: Option<UserId>,
        decided_at: Timestamp,
    ) -> Self {
        Self {
            approval_id,
            digest,
            decided_by,
            decided_at,
        }
    }
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
            approval: None,
            fatal: None,
            duration_ms: 0,
        }
    }

    /// A call that has its result without having been run.
    #[must_use]
    pub fn settled(phase: CallPhase, result: ToolMessage) -> Self {
        Self {
            result: Some(result),
            ..Self::new(phase, CallState::Terminal)
        }
    }

    /// How often it was begun again, as far as anybody noted.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.effect.as_ref().map_or(0, |effect| effect.attempts)
    }

    /// Gives the call its result.
    pub fn settle(&mut self, result: ToolMessage) {
        self.state = CallState::Terminal;
        self.result = Some(result);
    }
}

impl OpenStep {
    /// What it says so far: the model's message, and the results that are there.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        let said = Message::Assistant(self.message.clone());
        let results = self.calls.iter().filter_map(|call| call.result.clone());
        let results = results.map(Message::Tool);
        std::iter::once(said).chain(results).collect()
    }

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
            after: NextAction::Continue,
            usage: None,
            start_sequence: Sequence::START,
        }
    }

    /// A call and what is known of it, by its place in the model's order.
    #[must_use]
    pub fn call(&self, index: usize) -> Option<(&ToolCall, &OpenCall)> {
        self.calls().nth(index)
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
