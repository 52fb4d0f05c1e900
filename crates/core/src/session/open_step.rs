//! The open step: the model's last reply, while its calls are not all settled.
//!
//! Everything unfinished is here, and none of it in the transcript. When every call has its result,
//! the step moves into the transcript as one [`PairedStep`].

use serde::{Deserialize, Serialize};

use super::{EffectRecord, StepStart};
use crate::canonical::Digest;
use crate::error::ErrorRecord;
use crate::id::{ApprovalId, CallId, RunId, SessionId, StepId, UserId};
use crate::message::{AssistantMessage, Message, ToolCall, ToolMessage};
use crate::model::TokenUsage;
use crate::shared_str::SharedStr;
use crate::state::StepWrites;
use crate::step::NextAction;
use crate::stored::Stored;
use crate::stream::Sequence;
use crate::time::Timestamp;
use crate::transcript::{PairedStep, PairingError};

/// A model's reply and the state of its calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OpenStep {
    /// The id of the step.
    pub id: StepId,
    /// The run whose model call it was.
    pub run_id: RunId,
    /// The number of the step in its turn, from 1.
    pub step: u32,
    /// The model's message.
    pub message: AssistantMessage,
    /// The state of each call, in the model's order.
    pub calls: Vec<OpenCall>,
    /// The next action by the stop rules, once all calls are settled.
    #[serde(default, skip_serializing_if = "NextAction::is_continue")]
    pub after: NextAction,
    /// The tokens of the reply. They are recorded when the step is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ReplyUsage>,
    /// A position in the stream before the step's own chunks.
    #[serde(default, skip_serializing_if = "Sequence::is_start")]
    pub start_sequence: Sequence,
    /// The version of the state before the step; 0 where an earlier version of the library wrote the step.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub state_before: u64,
}

impl Stored for OpenStep {
    const KIND: &'static str = "open_step";
    const VERSION: u32 = 1;
}

/// The model and the tokens of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReplyUsage {
    /// The name of the model.
    pub model: SharedStr,
    /// The tokens that the reply used.
    pub tokens: TokenUsage,
    /// Their price in millionths of a US dollar, if the model knows it.
    #[serde(
        default,
        rename = "microDollars",
        skip_serializing_if = "Option::is_none"
    )]
    pub micro_dollars: Option<u64>,
}

impl ReplyUsage {
    /// Creates the usage of a reply.
    #[must_use]
    pub fn new(model: impl Into<SharedStr>, tokens: TokenUsage) -> Self {
        Self {
            model: model.into(),
            tokens,
            micro_dollars: None,
        }
    }

    /// Sets the price.
    #[must_use]
    pub(crate) fn priced(mut self, micro_dollars: Option<u64>) -> Self {
        self.micro_dollars = micro_dollars;
        self
    }
}

/// When a call is run within its step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallPhase {
    /// In parallel with the other regular calls.
    #[default]
    Regular,
    /// Beside the regular calls, begun one after another in the model's order: the calls of companion tools.
    Companion,
    /// After all regular calls, one by one: its result may end the turn.
    Finish,
}

impl CallPhase {
    /// Whether the calls of this phase are over before those of the finishing phase begin.
    #[must_use]
    pub(crate) fn is_first(self) -> bool {
        matches!(self, Self::Regular | Self::Companion)
    }
}

/// The state of a call in the open step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallState {
    /// The runtime runs the call when its phase begins.
    Ready,
    /// A client runs the call and submits the result.
    AwaitingClient,
    /// The call waits for a person's approval.
    AwaitingApproval,
    /// The call is approved; the runtime runs it.
    Approved,
    /// A child session works on the call, or the call waits for one that is suspended.
    AwaitingChild,
    /// The call has its result.
    Terminal,
}

/// One call of the open step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OpenCall {
    /// The phase in which the call is run.
    #[serde(default)]
    pub phase: CallPhase,
    /// The state of the call.
    pub state: CallState,
    /// The record of the effect, for calls that the runtime runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectRecord>,
    /// The child session that works on the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<Box<ChildCall>>,
    /// The result, once the call is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ToolMessage>,
    /// State operations of the call that are not applied yet.
    #[serde(default, skip_serializing_if = "StepWrites::is_empty")]
    pub writes: StepWrites,
    /// The approval, for calls that needed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// The error with which the run ends, if the call failed fatally.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fatal: Option<ErrorRecord>,
    /// How long the call ran, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub duration_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// The child session that works on a call, and its run for this call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChildCall {
    /// The id of the child session.
    pub session_id: SessionId,
    /// The run of the child.
    pub run_id: RunId,
    /// Whether that run is suspended, and the parent waits for its answers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspended: bool,
}

impl ChildCall {
    /// Creates the record of a child that runs.
    #[must_use]
    pub fn new(session_id: SessionId, run_id: RunId) -> Self {
        Self {
            session_id,
            run_id,
            suspended: false,
        }
    }
}

/// A person's approval of one call, bound to its arguments. It is used once: it moves here when the
/// pending call is removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Approval {
    /// The id of the approval request.
    pub approval_id: ApprovalId,
    /// The digest of the tool and the arguments that were shown.
    pub digest: Digest,
    /// The user who approved, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<UserId>,
    /// When the call was approved.
    pub decided_at: Timestamp,
}

impl Approval {
    /// Creates the approval of one call.
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
    /// Creates a call in a state, without effect and result.
    #[must_use]
    pub fn new(phase: CallPhase, state: CallState) -> Self {
        Self {
            phase,
            state,
            effect: None,
            child: None,
            result: None,
            writes: StepWrites::default(),
            approval: None,
            fatal: None,
            duration_ms: 0,
        }
    }

    /// Creates a call that has its result without having been run.
    #[must_use]
    pub(crate) fn settled(phase: CallPhase, result: ToolMessage) -> Self {
        Self {
            result: Some(result),
            ..Self::new(phase, CallState::Terminal)
        }
    }

    /// Returns how many times the call was begun again, as far as recorded.
    #[must_use]
    pub(crate) fn attempts(&self) -> u32 {
        self.effect.as_ref().map_or(0, |effect| effect.attempts)
    }

    /// Whether somebody outside is to answer the call: a client that runs it, or a person who decides.
    pub(crate) fn is_awaiting_answer(&self) -> bool {
        matches!(
            self.state,
            CallState::AwaitingClient | CallState::AwaitingApproval
        )
    }

    /// Settles the call with its result.
    pub fn settle(&mut self, result: ToolMessage) {
        self.state = CallState::Terminal;
        self.result = Some(result);
    }
}

impl OpenStep {
    /// Returns the model's message and the results that exist so far.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        let message = Message::Assistant(self.message.clone());
        let results = self.calls.iter().filter_map(|call| call.result.clone());
        let results = results.map(Message::Tool);
        std::iter::once(message).chain(results).collect()
    }

    /// Creates the open step of a reply; `state` returns the initial state of each call.
    #[must_use]
    #[doc(hidden)]
    pub fn new(
        id: StepId,
        run_id: RunId,
        step: u32,
        message: AssistantMessage,
        state: impl FnMut(&ToolCall) -> OpenCall,
    ) -> Self {
        let mut calls = Vec::with_capacity(message.tool_calls().count());
        calls.extend(message.tool_calls().map(state));
        Self {
            id,
            run_id,
            step,
            message,
            calls,
            after: NextAction::Continue,
            usage: None,
            start_sequence: Sequence::START,
            state_before: 0,
        }
    }

    /// Returns the session before the step, if it is known.
    pub(crate) fn before(&self) -> Option<StepStart> {
        let is_known = self.state_before > 0;
        is_known.then(|| StepStart::new(self.state_before, self.start_sequence.0))
    }

    /// Returns a call and its state, by its index in the model's order.
    #[must_use]
    #[doc(hidden)]
    pub fn call(&self, index: usize) -> Option<(&ToolCall, &OpenCall)> {
        self.calls().nth(index)
    }

    /// The same by the place as effects and changes name it.
    pub(crate) fn call_at(&self, index: u32) -> Option<(&ToolCall, &OpenCall)> {
        self.call(usize::try_from(index).ok()?)
    }

    /// Replaces what is known of a call, as a store does for [`Row::OpenCall`](crate::store::Row::OpenCall).
    /// An id that is not of this step changes nothing.
    pub fn set_call(&mut self, id: &CallId, call: OpenCall) {
        let place = self.message.tool_calls().position(|made| made.id == *id);
        if let Some(slot) = place.and_then(|place| self.calls.get_mut(place)) {
            *slot = call;
        }
    }

    /// Iterates over the calls with their states, in the model's order.
    #[doc(hidden)]
    pub fn calls(&self) -> impl Iterator<Item = (&ToolCall, &OpenCall)> {
        self.message.tool_calls().zip(&self.calls)
    }

    /// Whether every call has its result.
    #[must_use]
    #[doc(hidden)]
    pub fn is_settled(&self) -> bool {
        self.calls.iter().all(|call| call.result.is_some())
    }

    /// Converts the step into the form in which it enters the transcript.
    ///
    /// # Errors
    /// [`PairingError`] while a call has no result.
    #[doc(hidden)]
    pub fn into_paired(self) -> Result<PairedStep, PairingError> {
        let results = self.calls.into_iter().filter_map(|call| call.result);
        PairedStep::new(self.message, results)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::AssistantPart;

    fn call(id: &str) -> ToolCall {
        ToolCall::new(CallId::new(id).unwrap(), "find", json!({}))
    }

    fn step() -> OpenStep {
        let message = AssistantMessage::new(vec![
            AssistantPart::ToolCall(call("c-1")),
            AssistantPart::ToolCall(call("c-2")),
        ]);
        OpenStep::new(
            StepId::new("st-1").unwrap(),
            RunId::new("r-1").unwrap(),
            1,
            message,
            |_| OpenCall::new(CallPhase::Regular, CallState::Ready),
        )
    }

    #[test]
    fn a_call_is_set_by_its_id_and_found_by_its_place() {
        let waiting = OpenCall::new(CallPhase::Regular, CallState::AwaitingClient);
        let mut open = step();
        open.set_call(&call("c-2").id, waiting.clone());
        assert_eq!(open.call_at(1), Some((&call("c-2"), &waiting)));
        assert_eq!(open.call_at(0), step().call_at(0));
        assert_eq!(open.call_at(2), None);

        let before = open.clone();
        open.set_call(&call("c-3").id, waiting);
        assert_eq!(open, before, "another step's call changes nothing");
    }

    #[test]
    fn a_client_and_a_person_are_awaited_and_nobody_else() {
        for (state, is_awaiting) in [
            (CallState::Ready, false),
            (CallState::AwaitingClient, true),
            (CallState::AwaitingApproval, true),
            (CallState::Approved, false),
            (CallState::AwaitingChild, false),
            (CallState::Terminal, false),
        ] {
            let open = OpenCall::new(CallPhase::Regular, state);
            assert_eq!(open.is_awaiting_answer(), is_awaiting, "{state:?}");
        }
    }
}
