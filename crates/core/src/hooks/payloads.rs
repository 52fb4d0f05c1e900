//! The payload of each hook.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ErrorRecord;
use crate::id::CallId;
use crate::message::{Message, ToolCall, ToolMessage, UserMessage};
use crate::model::ModelReply;
use crate::state::PatchOp;
use crate::step::{PromptMessages, SubAgentCall};
use crate::tool::ToolSpec;

macro_rules! payloads {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone)]
        #[non_exhaustive]
        pub struct $name<'a> {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl<'a> $name<'a> {
            // Only a loop that fires hooks makes a payload.
            #[doc(hidden)]
            #[must_use]
            pub fn new($($field: $type),*) -> Self {
                Self { $($field),* }
            }
        }
    )*};
}

payloads! {
    /// The payload of a turn that begins.
    ///
    /// ```
    /// fn first(payload: &helix_agents::AgentStart<'_>) -> Option<String> {
    ///     payload.input.first().map(|message| message.content.clone())
    /// }
    /// ```
    AgentStart {
        /// The user messages of the turn.
        input: &'a [UserMessage],
        /// The state at the beginning.
        state: &'a Value,
    }
    /// The payload of a run that continues after a suspension.
    ///
    /// ```
    /// fn describe(payload: &helix_agents::AgentResumed<'_>) -> String {
    ///     format!("resumed after {:?}, {} answers", payload.reason, payload.calls.len())
    /// }
    /// ```
    AgentResumed {
        /// The kind of answer that the run waited for.
        reason: SuspendReason,
        /// The calls that were answered.
        calls: &'a [CallId],
    }
    /// The payload of a run that suspends.
    ///
    /// ```
    /// fn describe(payload: &helix_agents::AgentSuspended<'_>) -> String {
    ///     format!("waits for {:?}, {} calls", payload.reason, payload.calls.len())
    /// }
    /// ```
    AgentSuspended {
        /// The kind of answer that the run waits for.
        reason: SuspendReason,
        /// The calls that are pending.
        calls: &'a [CallId],
    }
    /// The payload of a completed turn.
    ///
    /// ```
    /// fn describe(payload: &helix_agents::AgentComplete<'_>) -> String {
    ///     format!("{} steps in {:?}", payload.step_count, payload.duration)
    /// }
    /// ```
    AgentComplete {
        /// The output, for agents that have one.
        output: Option<&'a Value>,
        /// The state at the end.
        state: &'a Value,
        /// The number of steps in the turn.
        step_count: u32,
        /// How long the turn took.
        duration: Duration,
    }
    /// The payload of a failed turn.
    ///
    /// ```
    /// fn is_worth_a_retry(payload: &helix_agents::AgentFail<'_>) -> bool {
    ///     payload.error.retryable
    /// }
    /// ```
    AgentFail {
        /// The error that ended the turn.
        error: &'a ErrorRecord,
        /// The state at the end.
        state: &'a Value,
        /// The number of steps in the turn.
        step_count: u32,
    }
    /// The payload before a model call.
    ///
    /// ```
    /// fn describe(payload: &helix_agents::BeforeModelCall<'_>) -> String {
    ///     format!("attempt {} with the prompt {:?}", payload.attempt, payload.prompt.system())
    /// }
    /// ```
    BeforeModelCall {
        /// The messages that are sent to the model.
        prompt: &'a PromptMessages<'a>,
        /// The number of the attempt, from 1.
        attempt: u32,
    }
    /// The payload after a model call.
    ///
    /// ```
    /// fn tokens(payload: &helix_agents::AfterModelCall<'_>) -> u64 {
    ///     payload.reply.usage.total()
    /// }
    /// ```
    AfterModelCall {
        /// The reply of the model.
        reply: &'a ModelReply,
        /// How long the call took.
        duration: Duration,
    }
    /// The payload before a tool runs.
    ///
    /// ```
    /// fn describe(payload: &helix_agents::BeforeTool<'_>) -> String {
    ///     format!("{}({})", payload.tool.name, payload.call.arguments)
    /// }
    /// ```
    BeforeTool {
        /// The tool to run.
        tool: &'a ToolSpec,
        /// The call of the model.
        call: &'a ToolCall,
    }
    /// The payload of a settled call.
    ///
    /// ```
    /// fn describe(payload: &helix_agents::AfterTool<'_>) -> String {
    ///     format!("{} took {:?}: {:?}", payload.call.name, payload.duration, payload.result.status)
    /// }
    /// ```
    AfterTool {
        /// The call of the model.
        call: &'a ToolCall,
        /// The result of the call.
        result: &'a ToolMessage,
        /// How long the tool ran; zero if it did not.
        duration: Duration,
    }
    /// The payload before a sub-agent runs.
    BeforeSubAgent {
        /// The call of the sub-agent.
        call: &'a SubAgentCall,
    }
    /// The payload of a settled sub-agent call.
    AfterSubAgent {
        /// The call of the sub-agent.
        call: &'a SubAgentCall,
        /// The result of the call.
        result: &'a ToolMessage,
    }
    /// The payload of a message that enters the history.
    ///
    /// ```
    /// fn is_reply(payload: &helix_agents::MessageAdded<'_>) -> bool {
    ///     matches!(payload.message, helix_agents::Message::Assistant(_))
    /// }
    /// ```
    MessageAdded {
        /// The message to append.
        message: &'a Message,
    }
    /// The payload of a state change by a tool.
    ///
    /// ```
    /// fn describe(payload: &helix_agents::StateChange<'_>) -> String {
    ///     format!("call {} made {} changes", payload.call, payload.patches.len())
    /// }
    /// ```
    StateChange {
        /// The call that changed the state.
        call: &'a CallId,
        /// The change as RFC 6902 operations.
        patches: &'a [PatchOp],
        /// The state after the change, as the tool sees it.
        state: &'a Value,
    }
}

/// The kind of answer that a suspended run waits for.
///
/// ```
/// use helix_agents::{AgentSuspended, SuspendReason};
///
/// fn page_somebody(payload: &AgentSuspended<'_>) -> bool {
///     payload.reason == SuspendReason::Approval
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SuspendReason {
    /// The answer of a client, among others.
    ClientTool,
    /// Decisions of a person alone.
    Approval,
    /// The end of a child session.
    AwaitingChildren,
    /// Nothing any more: nobody had answered when the deadlines passed. Only a run that is resumed has it.
    Timeout,
}
