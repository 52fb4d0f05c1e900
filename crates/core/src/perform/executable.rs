//! Calls that may be run.

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
            CallState::Ready => tool.spec().options.approval != ApprovalMode::Always,
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::id::{ApprovalId, CallId};
    use crate::session::{Approval, CallPhase};
    use crate::time::Timestamp;
    use crate::tool::{Tool, ToolCx};

    fn tool(gated: bool) -> Tool {
        let refund = Tool::raw(
            "refund",
            "Refunds.",
            json!({ "type": "object" }),
            |arguments: Value, _: ToolCx| async move { Ok(arguments) },
        );
        let refund = if gated { refund.approval() } else { refund };
        refund.build().unwrap()
    }

    fn call(cents: u32) -> ToolCall {
        let arguments = json!({ "cents": cents });
        ToolCall::new(CallId::new("c1").unwrap(), "refund", arguments)
    }

    fn approved(cents: u32) -> OpenCall {
        let mut open = OpenCall::new(CallPhase::Regular, CallState::Approved);
        open.approval = Some(Approval::new(
            ApprovalId::new("ap-1").unwrap(),
            Digest::of_call("refund", &call(cents).arguments),
            None,
            Timestamp::default(),
        ));
        open
    }

    fn may_run(call: &ToolCall, open: &OpenCall, tool: &Tool) -> bool {
        ExecutableCall::new(call, open, tool).is_some()
    }

    /// proves in part: APR-04
    #[test]
    fn an_approval_is_good_for_exactly_its_arguments() {
        let (tool, asked) = (tool(true), call(500));
        assert!(may_run(&asked, &approved(500), &tool));
        assert!(!may_run(&asked, &approved(501), &tool));

        let mut nobody_agreed = approved(500);
        nobody_agreed.approval = None;
        assert!(!may_run(&asked, &nobody_agreed, &tool));
    }

    #[test]
    fn a_call_that_waits_or_has_its_result_is_not_run() {
        for state in [
            CallState::AwaitingApproval,
            CallState::AwaitingClient,
            CallState::AwaitingChild,
            CallState::Terminal,
        ] {
            let open = OpenCall {
                state,
                ..approved(500)
            };
            assert!(!may_run(&call(500), &open, &tool(true)), "{state:?}");
        }
        let ready = OpenCall::new(CallPhase::Regular, CallState::Ready);
        assert!(may_run(&call(500), &ready, &tool(false)));
        // The agent was changed since: it asks now.
        assert!(!may_run(&call(500), &ready, &tool(true)));
    }
}
