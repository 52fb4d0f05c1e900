//! What each hook is told.

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
            #[doc = concat!("A [`", stringify!($name), "`], for loops and tests.")]
            #[must_use]
            pub fn new($($field: $type),*) -> Self {
                Self { $($field),* }
            }
        }
    )*};
}

payloads! {
    /// A turn begins.
    AgentStart {
        /// What the user said.
        input: &'a [UserMessage],
        /// The state at the beginning.
        state: &'a Value,
    }
    /// A run goes on after a pause.
    AgentResumed {
        /// What it waited for.
        reason: SuspendReason,
        /// The calls that were answered.
        calls: &'a [CallId],
    }
    /// A run pauses.
    AgentSuspended {
        /// What it waits for.
        reason: SuspendReason,
        /// The calls that are open.
        calls: &'a [CallId],
    }
    /// A turn is completed.
    AgentComplete {
        /// The output, for agents that have one.
        output: Option<&'a Value>,
        /// The state at the end.
        state: &'a Value,
        /// How many steps it took.
        step_count: u32,
        /// How long it took.
        duration: Duration,
    }
    /// A turn failed.
    AgentFail {
        /// Why.
        error: &'a ErrorRecord,
        /// The state at the end.
        state: &'a Value,
        /// How many steps it took.
        step_count: u32,
    }
    /// A model is about to be called.
    BeforeModelCall {
        /// What it will be shown.
        prompt: &'a PromptMessages<'a>,
        /// Which attempt it is, from 1.
        attempt: u32,
    }
    /// A model replied.
    AfterModelCall {
        /// The reply.
        reply: &'a ModelReply,
        /// How long it took.
        duration: Duration,
    }
    /// A tool is about to run.
    BeforeTool {
        /// The tool.
        tool: &'a ToolSpec,
        /// The call.
        call: &'a ToolCall,
    }
    /// A call is settled.
    AfterTool {
        /// The call.
        call: &'a ToolCall,
        /// What it came to.
        result: &'a ToolMessage,
        /// How long the tool ran; zero when it did not.
        duration: Duration,
    }
    /// A sub-agent is about to run.
    BeforeSubAgent {
        /// The call.
        call: &'a SubAgentCall,
    }
    /// A sub-agent's call is settled.
    AfterSubAgent {
        /// The call.
        call: &'a SubAgentCall,
        /// What it came to.
        result: &'a ToolMessage,
    }
    /// A message enters the history.
    MessageAdded {
        /// The message.
        message: &'a Message,
    }
    /// A tool changed the state.
    StateChange {
        /// The call that did it.
        call: &'a CallId,
        /// The change.
        patches: &'a [PatchOp],
        /// The state afterwards, as the tool sees it.
        state: &'a Value,
    }
}

/// What a run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SuspendReason {
    /// A client's or a person's answer.
    ClientTool,
    /// A child's end.
    AwaitingChildren,
}
