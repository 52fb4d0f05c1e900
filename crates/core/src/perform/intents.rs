//! Sorts the calls of a reply before anything is run.

use std::sync::Arc;

use super::PerformError;
use super::hooks::Hooks;
use super::scope::EffectContext;
use crate::agent::AnyAgent;
use crate::budget::{BudgetScope, BudgetUnit};
use crate::canonical::Digest;
use crate::entries::{tool_end_chunk, tool_start_chunk};
use crate::id::{ApprovalId, IdSourceExt};
use crate::message::{AssistantMessage, ResultStatus, ToolCall};
use crate::session::{CallPhase, CallState, EffectRecord, IdempotencyKey, OpenCall, PendingCall};
use crate::shared_state::SharedState;
use crate::step::{failed_result, synthesize_not_executed_result};
use crate::stream::ChunkPayload;
use crate::tool::{ApprovalMode, ExecutedBy, Tool, ToolCx, ToolCxBuilder, ToolError, ToolSpec};

/// The calls of a reply as they enter the open step, with the questions that they ask.
pub(super) struct Intents {
    pub(super) calls: Vec<OpenCall>,
    pub(super) questions: Vec<PendingCall>,
    pub(super) told: Vec<ChunkPayload>,
    /// How many calls may be executed.
    pub(super) admitted: u64,
    /// The limit because of which others are not.
    pub(super) denied: Option<(BudgetScope, BudgetUnit)>,
}

/// The reason that the model is told for calls that do not fit into a budget.
const BUDGET_IS_USED_UP: &str = "the budget of tool calls is used up.";

/// Sorts the calls of a reply: refused, for a client, for a person to decide, or ready to run. The list
/// `calls` is emptied, and used again for the result.
pub(super) async fn intents(
    cx: EffectContext<'_>,
    hooks: &Hooks<'_>,
    message: &AssistantMessage,
    mut calls: Vec<OpenCall>,
) -> Result<Intents, PerformError> {
    calls.clear();
    let mut all = Intents {
        calls,
        questions: Vec::new(),
        told: Vec::new(),
        admitted: 0,
        denied: None,
    };
    let room = cx.budget_left(BudgetUnit::ToolCalls);
    for call in message.tool_calls() {
        let tool = match fitting_tool(cx.view.agent(), call) {
            Ok(tool) => tool,
            Err(text) => {
                all.refuse(call, &text);
                continue;
            }
        };
        if let Some((_, scope)) = room.filter(|(left, _)| all.admitted >= *left) {
            all.deny(call, scope);
            continue;
        }
        all.admitted += 1;
        let spec = tool.spec();
        let phase = if spec.options.finish_with {
            CallPhase::Finish
        } else if tool.companion().is_some() {
            CallPhase::Companion
        } else {
            CallPhase::Regular
        };
        if spec.executed_by == ExecutedBy::Client {
            all.told.push(tool_start_chunk(call));
            all.wait(pending(cx, call, spec), CallState::AwaitingClient);
            continue;
        }
        if needs_approval(cx, hooks, call, tool).await? {
            let approval_id = cx.ports().ids.approval_id()?;
            let pending = pending(cx, call, spec).needing_approval(approval_id.clone());
            all.told.push(approval_request(call, approval_id, &pending));
            all.wait(pending, CallState::AwaitingApproval);
            continue;
        }
        all.told.push(tool_start_chunk(call));
        all.calls.push(OpenCall {
            effect: Some(intended(cx, call)),
            ..OpenCall::new(phase, CallState::Ready)
        });
    }
    Ok(all)
}

/// Whether a person has to agree first.
async fn needs_approval(
    cx: EffectContext<'_>,
    hooks: &Hooks<'_>,
    call: &ToolCall,
    tool: &Tool,
) -> Result<bool, PerformError> {
    if tool.spec().options.approval == ApprovalMode::Never {
        return Ok(false);
    }
    let state = SharedState::of_committed(hooks.state()?);
    let tool_cx = tool_cx(cx, call, state).build();
    Ok(tool.needs_approval(&call.arguments, &tool_cx).await)
}

/// The tool of a call whose arguments fit, or what the model is told.
fn fitting_tool<'a>(agent: &'a AnyAgent, call: &ToolCall) -> Result<&'a Tool, String> {
    let Some(tool) = agent.tool(&call.name) else {
        let names: Vec<_> = agent.tools().iter().map(Tool::name).collect();
        return Err(format!(
            "There is no tool named {}. Use one of: {}.",
            call.name,
            names.join(", ")
        ));
    };
    let errors = tool.input_errors(&call.arguments);
    if errors.is_empty() {
        return Ok(tool);
    }
    let refused = ToolError::invalid_input(&call.name, &errors);
    Err(refused.model_text().to_owned())
}

fn intended(cx: EffectContext<'_>, call: &ToolCall) -> EffectRecord {
    let at = cx.at();
    let key = IdempotencyKey::of(&at.session_id, &at.run_id, &call.id);
    EffectRecord::intended(key, cx.now)
}

/// A question about a call.
pub(super) fn pending(cx: EffectContext<'_>, call: &ToolCall, spec: &ToolSpec) -> PendingCall {
    let mut pending = pending_without_tool(cx, call);
    pending.deadline = spec
        .options
        .deadline
        .map(|wait| cx.now.saturating_add(wait));
    if cx.ports().warns_of_deadlines {
        return pending.warned();
    }
    pending
}

/// A question about a call whose tool is gone.
pub(super) fn pending_without_tool(cx: EffectContext<'_>, call: &ToolCall) -> PendingCall {
    let at = cx.at();
    let mut pending = PendingCall::client(
        at.session_id.clone(),
        at.run_id.clone(),
        call.id.clone(),
        &call.name,
        call.arguments.clone(),
        cx.now,
    );
    debug_assert_eq!(pending.digest, Digest::of_call(&call.name, &call.arguments));
    pending.root_session_id = at.root_session_id.clone();
    pending
}

/// The chunk that asks readers for an approval.
pub(super) fn approval_request(
    call: &ToolCall,
    approval_id: ApprovalId,
    pending: &PendingCall,
) -> ChunkPayload {
    ChunkPayload::ToolApprovalRequest {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        approval_id,
        input: call.arguments.clone(),
        digest: pending.digest.clone(),
    }
}

/// The context that a tool, or a rule about it, is given.
pub(super) fn tool_cx(cx: EffectContext<'_>, call: &ToolCall, state: SharedState) -> ToolCxBuilder {
    let (at, ports, context) = (cx.at(), cx.ports(), &cx.view.context);
    ToolCx::builder(at.session_id.clone(), at.run_id.clone(), call.id.clone())
        .agent_type(&at.agent_type)
        .step(at.step)
        .session_fields(
            context.user_id.clone(),
            Arc::clone(&context.tags),
            Arc::clone(&context.metadata),
        )
        .state(state)
        .abort(ports.abort.clone())
        .bounds(ports.bounds())
}

impl Intents {
    fn refuse(&mut self, call: &ToolCall, text: &str) {
        self.told.push(ChunkPayload::ToolInputError {
            tool_call_id: call.id.clone(),
            tool_name: call.name.clone(),
            input: call.arguments.clone(),
            error: text.to_owned(),
        });
        let result = failed_result(&call.id, &call.name, text, ResultStatus::Error);
        self.calls
            .push(OpenCall::settled(CallPhase::Regular, result));
    }

    /// A call that does not fit into a budget is not executed; those before it are.
    fn deny(&mut self, call: &ToolCall, scope: BudgetScope) {
        let result = synthesize_not_executed_result(&call.id, &call.name, BUDGET_IS_USED_UP);
        self.told.push(tool_end_chunk(&result));
        self.denied = Some((scope, BudgetUnit::ToolCalls));
        self.calls
            .push(OpenCall::settled(CallPhase::Regular, result));
    }

    fn wait(&mut self, pending: PendingCall, state: CallState) {
        self.questions.push(pending);
        self.calls.push(OpenCall::new(CallPhase::Regular, state));
    }
}
