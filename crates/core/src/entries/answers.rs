//! Turns the answers to pending calls into results or approvals.

use std::sync::Arc;

use super::close::may_have_begun;
use crate::id::{CallId, RunId, SessionId};
use crate::message::{ResultStatus, ToolCall, ToolMessage};
use crate::session::{
    Answer, AnswerKind, Approval, CallBinding, CallState, EffectRecord, IdempotencyKey, OpenCall,
    OpenStep, PendingCall, PendingKind, SessionState, Submission,
};
use crate::step::{
    ToolResultInput, create_tool_result_message, failed_result, synthesize_not_executed_result,
    synthesize_unknown_result,
};
use crate::store::{AnsweredCall, Change, Commit, Field, PendingStatus, Precondition};
use crate::stream::{Chunk, ChunkOrigin, ChunkPayload};
use crate::time::Timestamp;
use crate::usage::{UsageEntry, UsageKind};

/// The answers to the calls of a step, removed from the pending calls.
#[derive(Debug)]
pub(crate) struct TakenAnswers {
    /// The step with the answers applied.
    pub(crate) step: OpenStep,
    root: SessionId,
    calls: Vec<CallId>,
    /// The calls that nobody had answered at their deadline.
    timed_out: Vec<PendingCall>,
    chunks: Vec<ChunkPayload>,
    usage: Vec<UsageEntry>,
}

/// The rule for calls that nobody has answered and whose deadline has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// Such a call times out: it is taken as if the framework had answered it.
    TimesOut,
    /// Such a call stays open, and whoever takes the answers decides about it.
    IsLeft,
}

/// Takes every answer to a call of the open step.
pub(crate) fn take_answers(
    session: &SessionState,
    step: &OpenStep,
    run: &RunId,
    at: Timestamp,
    overdue: Overdue,
) -> TakenAnswers {
    let mut taken = TakenAnswers {
        step: step.clone(),
        root: session.root().clone(),
        calls: Vec::new(),
        timed_out: Vec::new(),
        chunks: Vec::new(),
        usage: Vec::new(),
    };
    for (call, open) in step.message.tool_calls().zip(&mut taken.step.calls) {
        let pending = session.pending_client_tool_calls.get(&call.id);
        let pending = pending.filter(|_| open.is_awaiting_answer());
        let answered = pending.and_then(|pending| {
            let answer = match overdue {
                Overdue::TimesOut => pending.answer_at(at),
                Overdue::IsLeft => pending.answer.clone(),
            };
            Some((pending, answer?))
        });
        let Some((pending, answer)) = answered else {
            continue;
        };
        if pending.answer.is_none() {
            taken.timed_out.push(pending.clone());
        }
        taken
            .chunks
            .extend(apply(session, call, open, pending, &answer));
        taken.calls.push(call.id.clone());
        let wait = answer.submitted_at.since(pending.created_at).as_millis();
        let wait_ms = u64::try_from(wait).unwrap_or(u64::MAX);
        let name = call.name.clone();
        let mut kinds = vec![UsageKind::ClientToolWaitMs {
            name: name.clone(),
            wait_ms,
        }];
        if let Some(result) = &open.result {
            kinds.push(UsageKind::Tool {
                name: name.clone(),
                success: result.status.is_success(),
                duration_ms: wait_ms,
            });
        }
        for kind in kinds {
            let what = match kind {
                UsageKind::Tool { .. } => "tool",
                _ => "wait",
            };
            taken.usage.push(UsageEntry {
                id: crate::id::UsageId::of_call(&call.id, what),
                run_id: run.clone(),
                step: step.step,
                timestamp: at,
                kind,
            });
        }
    }
    taken
}

/// Applies an answer to its call, and returns the chunks that report it.
fn apply(
    session: &SessionState,
    call: &ToolCall,
    open: &mut OpenCall,
    pending: &PendingCall,
    answer: &Answer,
) -> Vec<ChunkPayload> {
    match &answer.submission {
        Submission::ClientToolResult { result, error, .. } => {
            let result = match (result, error) {
                (Some(value), _) => create_tool_result_message(ToolResultInput {
                    tool_call_id: call.id.clone(),
                    tool_name: call.name.clone(),
                    result: Ok(value.clone()),
                }),
                (None, Some(text)) if pending.approval_id.is_some() => {
                    synthesize_not_executed_result(&call.id, &call.name, text)
                }
                (None, text) => {
                    let text = text.as_deref().unwrap_or("the client failed");
                    failed_result(&call.id, &call.name, text, ResultStatus::Error)
                }
            };
            let chunk = tool_end_chunk(&result);
            open.settle(result);
            vec![chunk]
        }
        Submission::ApprovalResponse {
            approval_id,
            approved,
            reason,
            ..
        } => {
            let mut chunks = vec![ChunkPayload::ToolApprovalResponse {
                tool_call_id: call.id.clone(),
                approval_id: approval_id.clone(),
                approved: *approved,
                reason: reason.clone(),
                decided_by: answer.decided_by.clone(),
            }];
            if *approved {
                open.state = CallState::Approved;
                open.approval = Some(Approval::new(
                    approval_id.clone(),
                    pending.digest.clone(),
                    answer.decided_by.clone(),
                    answer.submitted_at,
                ));
                open.effect = Some(EffectRecord::intended(
                    IdempotencyKey::of(&session.session_id, &pending.run_id, &call.id),
                    answer.submitted_at,
                ));
                chunks.push(tool_start_chunk(call));
            } else {
                let mut text = format!("The call of {} was not approved.", call.name);
                if let Some(reason) = reason {
                    text.push_str(" Reason: ");
                    text.push_str(reason);
                }
                let result = failed_result(&call.id, &call.name, &text, ResultStatus::Denied);
                chunks.push(tool_end_chunk(&result));
                open.settle(result);
            }
            chunks
        }
        Submission::Expired { .. } => {
            let result = timed_out_result(call, open, pending);
            let chunk = tool_end_chunk(&result);
            open.settle(result);
            vec![chunk]
        }
    }
}

/// Returns the result of a call that nobody answered before its deadline. A person who was asked about a
/// call that may have run has not said what became of it.
fn timed_out_result(call: &ToolCall, open: &OpenCall, pending: &PendingCall) -> ToolMessage {
    if may_have_begun(open) {
        return synthesize_unknown_result(&call.id, &call.name);
    }
    let text = match pending.kind {
        PendingKind::Client => "The client did not answer within the deadline.",
        PendingKind::Approval => {
            "Nobody decided on this call before its deadline; it was not executed."
        }
    };
    failed_result(&call.id, &call.name, text, ResultStatus::TimedOut)
}

/// Returns the chunk that reports the start of a call.
pub(crate) fn tool_start_chunk(call: &ToolCall) -> ChunkPayload {
    ChunkPayload::ToolStart {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        arguments: call.arguments.clone(),
    }
}

/// Returns the chunk that reports a result.
pub(crate) fn tool_end_chunk(result: &ToolMessage) -> ChunkPayload {
    let tool_call_id = result.tool_call_id.clone();
    let tool_name = result.tool_name.clone();
    if result.status.is_success() {
        return ChunkPayload::ToolEnd {
            tool_call_id,
            tool_name,
            result: result.value(),
            success: true,
            error: None,
        };
    }
    ChunkPayload::ToolError {
        tool_call_id,
        tool_name,
        error: result.error_text(),
    }
}

impl TakenAnswers {
    /// Whether there was no answer.
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Logs the calls that timed out, once the commit is made.
    pub(crate) fn log_timeouts(&self) {
        for pending in &self.timed_out {
            let (session, call) = (&pending.session_id, &pending.tool_call_id);
            tracing::info!(event = "client_tool.timeout", %session, %call);
        }
    }

    /// Adds the answers to a commit. It is refused if somebody answers a call meanwhile that times out here.
    pub(crate) fn write(
        &self,
        mut commit: Commit,
        session: &SessionId,
        base: &Arc<ChunkOrigin>,
        at: Timestamp,
    ) -> Commit {
        let taken = (0u32..).zip(self.step.calls());
        let taken = taken.filter(|(_, (call, _))| self.calls.contains(&call.id));
        for (index, (call, open)) in taken {
            let id = || call.id.clone();
            let open = Box::new(open.clone());
            commit = commit
                .then_in(session.clone(), Change::OpenCall(index, id(), open))
                .then_in(session.clone(), Change::RemovePending(id()))
                .then_in(
                    self.root.clone(),
                    Change::Set(Field::DisownedCall(id(), session.clone())),
                );
        }
        for pending in &self.timed_out {
            let call = pending.tool_call_id.clone();
            let kind = AnswerKind::TimedOut(Box::new(CallBinding::of(pending)));
            let answered = AnsweredCall::new(call.clone(), at).with_kind(kind);
            let is_open = Precondition::Call(call, PendingStatus::Open);
            commit = commit.when_in(session.clone(), is_open).then_in(
                self.root.clone(),
                Change::Set(Field::CompletedCall(answered)),
            );
        }
        for entry in &self.usage {
            commit = commit.then_in(session.clone(), Change::Usage(entry.clone()));
        }
        for payload in &self.chunks {
            commit = commit.say(Chunk::new(Arc::clone(base), at, payload.clone()));
        }
        commit
    }
}
