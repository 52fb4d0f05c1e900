//! What becomes of each call of a reply before anything is run.

use super::hooks::Hooks;
use super::work::Work;
use super::{PerformError, Ports};
use crate::canonical::{Digest, idempotency_key};
use crate::entries::started;
use crate::id::{IdSourceExt, SessionId};
use crate::machine::{At, Effect};
use crate::message::{ResultStatus, ToolCall};
use crate::session::{CallPhase, CallState, EffectRecord, OpenCall, OpenStep, PendingCall};
use crate::shared_state::SharedState;
use crate::step::failed_result;
use crate::store::{Change, Field};
use crate::stream::ChunkPayload;
use crate::time::Timestamp;
use crate::tool::{ApprovalMode, ExecutedBy, Tool, ToolCx, ToolError, ToolSpec};

/// What is to be done about the calls of a reply.
pub(super) struct Intents {
    pub(super) calls: Vec<OpenCall>,
    pub(super) changes: Vec<(SessionId, Change)>,
    pub(super) said: Vec<ChunkPayload>,
}

/// Sorts the calls of a reply: refused, for a client, for a person to decide, or ready to run.
pub(super) async fn intents(
    effect: &Effect,
    ports: &Ports,
    work: &Work,
    hooks: &Hooks<'_>,
    open: &OpenStep,
    now: Timestamp,
) -> Result<Intents, PerformError> {
    let at = &effect.at;
    let mut all = Intents {
        calls: Vec::with_capacity(open.calls.len()),
        changes: Vec::new(),
        said: Vec::new(),
    };
    for call in open.message.tool_calls() {
        let tool = match fitting(work, call) {
            Ok(tool) => tool,
            Err(text) => {
                all.refuse(call, &text);
                continue;
            }
        };
        let spec = tool.spec();
        let phase = if spec.finish_with {
            CallPhase::Finish
        } else {
            CallPhase::Regular
        };
        if spec.executed_by == ExecutedBy::Client {
            let pending = pending(at, call, spec, now);
            all.said.push(started(call));
            all.wait(at, pending, CallState::AwaitingClient);
            continue;
        }
        if needs_approval(at, work, ports, hooks, call, tool).await? {
            let approval_id = ports.ids.approval_id()?;
            let pending = pending(at, call, spec, now).needing_approval(approval_id.clone());
            all.said.push(ChunkPayload::ToolApprovalRequest {
                tool_call_id: call.id.clone(),
                tool_name: call.name.clone(),
                approval_id,
                input: call.arguments.clone(),
                digest: pending.digest.clone(),
            });
            all.wait(at, pending, CallState::AwaitingApproval);
            continue;
        }
        all.said.push(started(call));
        all.calls.push(OpenCall {
            effect: Some(intended(at, call, now)),
            ..OpenCall::new(phase, CallState::Ready)
        });
    }
    Ok(all)
}

/// Whether a person has to agree first.
async fn needs_approval(
    at: &At,
    work: &Work,
    ports: &Ports,
    hooks: &Hooks<'_>,
    call: &ToolCall,
    tool: &Tool,
) -> Result<bool, PerformError> {
    if tool.spec().approval == ApprovalMode::Never {
        return Ok(false);
    }
    let state = SharedState::of_committed(hooks.state()?);
    let cx = surroundings(at, work, ports, call, state).build();
    Ok(tool.needs_approval(&call.arguments, &cx).await)
}

/// The tool of a call whose arguments fit, or what the model is told.
fn fitting<'a>(work: &'a Work, call: &ToolCall) -> Result<&'a Tool, String> {
    let Some(tool) = work.agent().tool(&call.name) else {
        let names: Vec<_> = work.agent().tools().iter().map(Tool::name).collect();
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

fn intended(at: &At, call: &ToolCall, now: Timestamp) -> EffectRecord {
    let key = idempotency_key(&at.session_id, &at.run_id, &call.id);
    EffectRecord::intended(key, now)
}

/// A question about a call.
pub(super) fn pending(at: &At, call: &ToolCall, spec: &ToolSpec, now: Timestamp) -> PendingCall {
    let mut pending = pending_of(at, call, now);
    pending.deadline = spec.deadline.map(|wait| now.saturating_add(wait));
    pending
}

/// A question about a call whose tool is gone.
pub(super) fn pending_of(at: &At, call: &ToolCall, now: Timestamp) -> PendingCall {
    let mut pending = PendingCall::client(
        at.session_id.clone(),
        at.run_id.clone(),
        call.id.clone(),
        &call.name,
        call.arguments.clone(),
        now,
    );
    debug_assert_eq!(pending.digest, Digest::of_call(&call.name, &call.arguments));
    pending.root_session_id = at.root_session_id.clone();
    pending
}

/// The changes that put a question on the list, where the root finds its owner.
pub(super) fn asking(at: &At, pending: PendingCall) -> [(SessionId, Change); 2] {
    let call = pending.tool_call_id.clone();
    let owner = Field::CallOwner(call, Some(at.session_id.clone()));
    [
        (at.session_id.clone(), Change::Pending(Box::new(pending))),
        (at.root_session_id.clone(), Change::Set(owner)),
    ]
}

/// What a tool, or a rule about it, sees.
pub(super) fn surroundings(
    at: &At,
    work: &Work,
    ports: &Ports,
    call: &ToolCall,
    state: SharedState,
) -> crate::tool::ToolCxBuilder {
    ToolCx::builder(at.session_id.clone(), at.run_id.clone(), call.id.clone())
        .agent_type(&at.agent_type)
        .step(at.step)
        .user_id(work.who.user_id.clone())
        .state(state)
        .abort(ports.abort.clone())
        .bounds(ports.bounds())
}

impl Intents {
    fn refuse(&mut self, call: &ToolCall, text: &str) {
        self.said.push(ChunkPayload::ToolInputError {
            tool_call_id: call.id.clone(),
            tool_name: call.name.clone(),
            input: call.arguments.clone(),
            error: text.to_owned(),
        });
        let result = failed_result(&call.id, &call.name, text, ResultStatus::Error);
        self.calls
            .push(OpenCall::settled(CallPhase::Regular, result));
    }

    fn wait(&mut self, at: &At, pending: PendingCall, state: CallState) {
        self.changes.extend(asking(at, pending));
        self.calls.push(OpenCall::new(CallPhase::Regular, state));
    }
}
