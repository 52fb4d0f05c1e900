//! What may be run.

use crate::canonical::Digest;
use crate::message::ToolCall;
use crate::session::{CallState, OpenCall};
use crate::tool::{ApprovalMode, Tool};

/// A call that may be run. There is no other way to make one: where a person has to agree, that
/// agreement must be there, and must be one to exactly these arguments.
#[derive(Debug)]
pub(super) struct ExecutableCall<'a> {
    call: &'a ToolCall,
    tool: &'a Tool,
}

impl<'a> ExecutableCall<'a> {
    /// The call, if it may be run; `None` when a person's agreement is missing.
    pub(super) fn new(call: &'a ToolCall, open: &OpenCall, tool: &'a Tool) -> Option<Self> {
        let may_run = match open.state {
            // An agent that was changed to ask always is obeyed for calls that it made before.
            CallState::Ready => tool.spec().approval != ApprovalMode::Always,
            CallState::Approved => {
                let approval = open.approval.as_ref();
                approval.is_some_and(|approval| {
                    approval.digest == Digest::of_call(&call.name, &call.arguments)
                })
            }
            CallState::AwaitingClient
            | CallState::AwaitingApproval
            | CallState::AwaitingChild
            | CallState::Terminal => false,
        };
        may_run.then_some(Self { call, tool })
    }

    pub(super) fn call(&self) -> &'a ToolCall {
        self.call
    }

    pub(super) fn tool(&self) -> &'a Tool {
        self.tool
    }
}
