//! Sessions and their records: every field set, every optional field absent, and every
//! value of every enum.

use std::collections::BTreeMap;
use std::sync::Arc;

use helix_agents_core::canonical::Digest;
use helix_agents_core::error::{ErrorCode, ErrorRecord};
use helix_agents_core::message::UserMessage;
use helix_agents_core::model::TokenUsage;
use helix_agents_core::session::{
    Answer, AnswerKind, Approval, CallBinding, CallPhase, CallState, Checkpoint, CheckpointSource,
    ChildCall, ChildLocation, ChildMode, ChildStatus, ChildWait, EffectRecord, EffectState,
    InterruptContext, OpenCall, OpenStep, PendingCall, PersistentChild, ReplyUsage, RunRecord,
    RunStatus, RunTrigger, SessionAbove, SessionMode, SessionState, SessionStatus, StepStart,
    StopKind, StopRequest, SubSessionRef, Submission, Suspended, TracingContext, TurnStart,
    WorkspaceRef,
};
use helix_agents_core::step::{Correction, NextAction, StopCause};
use helix_agents_core::store::{Header, InboxRow, Lease};
use helix_agents_core::stream::{OutboxEntry, Sequence};
use helix_agents_core::time::Timestamp;
use helix_agents_core::{ApprovalId, CheckpointId, RunId, SessionId, StepId, StreamId, UserId};
use serde_json::{Value, json};

use super::machine::error;
use super::messages::{assistant, writes};
use crate::make::{call_id, result};

pub(super) const RUN_TRIGGERS: [RunTrigger; 5] = [
    RunTrigger::Execute,
    RunTrigger::Continue,
    RunTrigger::WithMessage,
    RunTrigger::Retry,
    RunTrigger::FromCheckpoint,
];

pub(super) const RUN_STATUSES: [RunStatus; 7] = [
    RunStatus::Running,
    RunStatus::Completed,
    RunStatus::Failed,
    RunStatus::Interrupted,
    RunStatus::SuspendedClientTool,
    RunStatus::SuspendedAwaitingChildren,
    RunStatus::SuspendedStepPartial,
];

const SESSION_STATUSES: [SessionStatus; 5] = [
    SessionStatus::Active,
    SessionStatus::Completed,
    SessionStatus::Failed,
    SessionStatus::Interrupted,
    SessionStatus::Paused,
];

const STOP_CAUSES: [StopCause; 6] = [
    StopCause::StructuredOutput,
    StopCause::Error,
    StopCause::Text,
    StopCause::StopWhen,
    StopCause::MaxSteps,
    StopCause::Budget,
];

/// One code of each category.
const CODES: [ErrorCode; 5] = [
    ErrorCode::ValidationError,
    ErrorCode::StateStale,
    ErrorCode::StoreUnavailable,
    ErrorCode::ProviderRateLimited,
    ErrorCode::ToolFatal,
];

const CALL_STATES: [CallState; 6] = [
    CallState::Ready,
    CallState::AwaitingClient,
    CallState::AwaitingApproval,
    CallState::Approved,
    CallState::AwaitingChild,
    CallState::Terminal,
];

const CHILD_STATUSES: [ChildStatus; 5] = [
    ChildStatus::Running,
    ChildStatus::Suspended,
    ChildStatus::Completed,
    ChildStatus::Failed,
    ChildStatus::Interrupted,
];

pub(super) fn session(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

pub(super) fn run() -> RunId {
    RunId::new("run-1").unwrap()
}

pub(super) fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn step_id() -> StepId {
    StepId::new("step-1").unwrap()
}

/// A session in which every field is set.
pub(crate) fn full_session() -> SessionState {
    let mut state = SessionState::new(session("s1"), "support", at(1));
    state.stream_id = Some(StreamId::new("stream-1").unwrap());
    state.custom_state = Arc::new(json!({"notes": ["a"], "count": 2}));
    state.status = SessionStatus::Interrupted;
    state.step_count = 3;
    state.output = Some(json!({"summary": "ok"}));
    state.error = Some(ErrorRecord::new(ErrorCode::MaxSteps, "50 steps"));
    state.failure_reason = Some("limit".to_owned());
    state.interrupt_context = Some(InterruptContext::new(run(), Some("user".to_owned()), at(4)));
    state.pending_client_tool_calls = BTreeMap::from([(call_id("c1"), pending())]);
    let wait = ChildWait::new(session("child"), "writer", at(5));
    state.suspended_awaiting_children = BTreeMap::from([(call_id("c2"), wait)]);
    state.suspended_step_id = Some(step_id());
    state.completed_client_tool_calls = BTreeMap::from([(call_id("c0"), at(3))]);
    state.client_tool_call_ownership = BTreeMap::from([(call_id("c1"), session("child"))]);
    state.tracing_context = Some(TracingContext {
        trace_id: "t".to_owned(),
        root_span_id: "r".to_owned(),
    });
    state.expires_at = Some(at(99));
    state.parent_session_id = Some(session("parent"));
    state.root_session_id = Some(session("root"));
    state.mode = Some(SessionMode::Standard);
    state.version = 12;
    state.resume_count = 2;
    state.checkpoint_id = Some(CheckpointId::new("cp-1").unwrap());
    state.checkpointed_at = Some(at(6));
    state.checkpoint_source = Some(CheckpointSource::Staging);
    state.user_id = Some(UserId::new("alice").unwrap());
    state.tags = vec!["vip".to_owned()];
    state.metadata = BTreeMap::from([("region".to_owned(), "eu".to_owned())]);
    state.workspace_ref = Some(WorkspaceRef {
        provider_id: "local".to_owned(),
        reference: json!({"dir": "w1"}),
        capabilities: vec!["fs".to_owned()],
        schema_version: 1,
    });
    state.updated_at = at(9);
    state
}

pub(super) fn sessions() -> Vec<SessionState> {
    let bare = |status| {
        let mut state = SessionState::new(session("s1"), "support", at(1));
        state.status = status;
        state
    };
    let mut other = bare(SessionStatus::Active);
    other.output = Some(Value::Null);
    other.interrupt_context = Some(InterruptContext::new(run(), None, at(4)));
    other.mode = Some(SessionMode::Persistent);
    other.checkpoint_source = Some(CheckpointSource::Save);
    let mut samples = vec![full_session(), other];
    samples.extend(SESSION_STATUSES.map(bare));
    let mut child = bare(SessionStatus::Active);
    let persistent = PersistentChild::new("editor", true, call_id("c3"));
    child.persistent = Some(Box::new(persistent));
    samples.push(child);
    let mut below = bare(SessionStatus::Active);
    let mut persistent = PersistentChild::new("scout", false, call_id("c4"));
    persistent.above = vec![SessionAbove::new(session("s1"), "editor")];
    below.persistent = Some(Box::new(persistent));
    samples.push(below);
    samples
}

/// The content of a session is stored in rows, so it is empty in a header.
pub(super) fn outbox_entries() -> Vec<OutboxEntry> {
    let mark = json!({ "effect": 2, "begun": { "effect": 3, "attempt": 1, "by": "x" } });
    let samples = json!([
        {
            "incarnation": 4,
            "ends": true,
            "rewind": { "to": 7, "session": session("s2") },
            "chunks": super::chunks::chunks().into_iter().take(2).collect::<Vec<_>>(),
            "status": "ended",
            "gates": { "s1": { "fence": 3, "mark": mark }, "s2": null },
        },
        { "incarnation": 1, "gates": { "s1": { "fence": 0 } } },
        { "incarnation": 1, "previous": 6, "status": "paused" },
    ]);
    serde_json::from_value(samples).unwrap()
}

pub(super) fn headers() -> Vec<Header> {
    let mut session = full_session();
    session.custom_state = Arc::new(json!({}));
    session.pending_client_tool_calls.clear();
    let run_id = run();
    let samples = json!([
        {
            "session": session,
            "fence": 3,
            "lease": Lease::new("host-1", at(50)),
            "messages": 7,
            "stateVersion": 4,
            "run": { "id": run_id, "status": "suspended_step_partial", "host": "local" },
            "stop": stop(StopKind::Abort, Some("user")),
            "calls": {
                "c1": { "kind": "approval", "runId": run_id, "answered": true, "deadline": 900 },
                "c2": { "kind": "client", "runId": run_id, "answered": false },
            },
            "inbox": [InboxRow::new("row-1", vec![UserMessage::new("and?")], at(8))],
        },
        { "session": session, "fence": 0, "messages": 0, "stateVersion": 0 },
        {
            "session": session,
            "fence": 3,
            "messages": 7,
            "stateVersion": 4,
            "run": { "id": run_id, "status": "running", "host": "local", "steps": 2 },
            "mark": {
                "effect": 4,
                "begun": { "effect": 5, "attempt": 2, "after": 9, "by": "attempt-1" },
                "failure": { "error": error(), "now": 5, "retryAfterMs": 250 },
                "open": {
                    "id": "step-1", "step": 3, "calls": "ruxcastT", "attempts": { "1": 1, "2": 2 },
                },
            },
        },
        {
            "session": session,
            "fence": 9,
            "lease": { "holder": "host-1", "until": 50, "givenUp": true },
            "takeovers": 4,
            "messages": 1,
            "stateVersion": 1,
            "run": { "id": run_id, "status": "running", "host": "local" },
        },
        { "session": session, "fence": 9, "messages": 1, "cuts": 2, "stateVersion": 1 },
        {
            "session": session,
            "fence": 9,
            "messages": 1,
            "stateVersion": 1,
            "calls": {
                "c3": { "kind": "client", "runId": run_id, "answered": false, "deadline": 9, "warnAt": 8 },
            },
            "notices": [UserMessage::hidden("The client answered call c1.")],
        },
        {
            "session": session,
            "fence": 9,
            "messages": 1,
            "stateVersion": 1,
            "budget": {
                "tree": { "tokens": 120, "microDollars": 7 },
                "sessions": {
                    "s1": {
                        "agent": {
                            "run": { "steps": 3, "toolCalls": 9 },
                            "tree": { "tokens": 5000, "microDollars": 900 },
                        },
                        "requested": { "session": { "wallClockMs": 60000 } },
                        "run": { "steps": 1, "toolCalls": 2 },
                        "session": { "wallClockMs": 250 },
                        "next": { "steps": 1, "tokens": 4216, "microDollars": 70 },
                        "reserved": { "run": run_id, "step": 2, "amount": { "steps": 1, "tokens": 4216 } },
                        "since": 40,
                    },
                    "s2": {
                        "requested": { "run": { "tokens": 10 } },
                        "refused": {
                            "run": run_id, "scope": "run", "unit": "tokens", "limit": 10, "needed": 4100,
                        },
                    },
                },
            },
        },
    ]);
    serde_json::from_value(samples).unwrap()
}

fn run_record() -> RunRecord {
    let mut record = RunRecord::started(run(), session("s1"), RunTrigger::Continue, "local", at(2));
    record.turn = 2;
    record.step_count = 3;
    record.status = RunStatus::SuspendedStepPartial;
    record.start_sequence = 41;
    record.ended_at = Some(at(10));
    record.completion_reason = Some(StopCause::StopWhen);
    record.output = Some(json!("x"));
    record.error = Some(ErrorRecord::new(ErrorCode::OutputInvalid, "no output"));
    record.suspended = Some(Suspended::new(step_id(), vec![call_id("c2")], vec![]));
    record
}

fn turn_start() -> TurnStart {
    let start = json!({
        "messages": 3, "userMessages": 1, "stateVersion": 5, "stateAfter": 6, "sequence": 41,
    });
    serde_json::from_value(start).unwrap()
}

fn waits_before() -> Suspended {
    let mut waits = Suspended::new(step_id(), vec![call_id("c2")], vec![]);
    waits.before = Some(StepStart::new(5, 41));
    waits
}

pub(super) fn runs() -> Vec<RunRecord> {
    let with = |change: &dyn Fn(&mut RunRecord)| {
        let mut record =
            RunRecord::started(run(), session("s1"), RunTrigger::Execute, "local", at(2));
        change(&mut record);
        record
    };
    let waits = Suspended::new(step_id(), vec![], vec![session("child")]);
    let mut samples = vec![
        run_record(),
        with(&|run| run.output = Some(Value::Null)),
        with(&|run| (run.budget_from, run.turn_start) = (4, Some(turn_start()))),
        with(&|run| run.suspended = Some(waits_before())),
        with(&|run| run.suspended = Some(waits.clone())),
        with(&|run| run.suspended = Some(Suspended::default())),
    ];
    samples.extend(RUN_TRIGGERS.map(|trigger| with(&|run| run.trigger = trigger)));
    samples.extend(RUN_STATUSES.map(|status| with(&|run| (run.status, run.turn) = (status, 2))));
    samples.extend(STOP_CAUSES.map(|cause| with(&|run| run.completion_reason = Some(cause))));
    samples.extend(CODES.map(|code| with(&|run| run.error = Some(ErrorRecord::new(code, "why")))));
    samples.push(with(&|run| (run.steps_before, run.corrections) = (2, 1)));
    samples.push(with(&|run| run.messages = 2));
    samples
}

pub(super) fn open_steps() -> Vec<OpenStep> {
    let step = |state: &dyn Fn(&str) -> OpenCall| {
        OpenStep::new(step_id(), run(), 2, assistant(), |call| state(&call.name))
    };
    let mut full = step(&|name| match name {
        "refund" => OpenCall::new(CallPhase::Finish, CallState::AwaitingApproval),
        _ => OpenCall::new(CallPhase::Regular, CallState::Terminal),
    });
    let done = &mut full.calls[0];
    done.effect = Some(EffectRecord::intended("key", at(5)));
    done.result = Some(result("c1"));
    done.writes = writes();
    let mut samples = vec![full];
    samples.extend(CALL_STATES.map(|state| step(&|_| OpenCall::new(CallPhase::Regular, state))));
    let effects = [
        EffectState::Intended,
        EffectState::Done,
        EffectState::Unknown,
    ];
    samples.extend(effects.map(|state| {
        step(&|_| {
            let mut effect = EffectRecord::intended("key", at(5));
            effect.state = state;
            effect.attempts = 2;
            let mut call = OpenCall::new(CallPhase::Finish, CallState::Ready);
            call.effect = Some(effect);
            call
        })
    }));
    samples.push(step(&|_| {
        let mut effect = EffectRecord::intended("key", at(5));
        (effect.state, effect.claim) = (EffectState::Started, Some("claim-1".to_owned()));
        let mut call = OpenCall::new(CallPhase::Regular, CallState::Ready);
        call.effect = Some(effect);
        call
    }));
    samples.extend(AFTER.map(|after| {
        let mut ready = step(&|_| OpenCall::new(CallPhase::Regular, CallState::Ready));
        ready.after = after();
        ready
    }));
    let mut approved = step(&|_| {
        let mut call = OpenCall::new(CallPhase::Regular, CallState::Approved);
        let digest = Digest::of_call("refund", &json!({"cents": 5}));
        let user = UserId::new("alice").unwrap();
        call.approval = Some(Approval::new(approval(), digest, Some(user), at(8)));
        call.fatal = Some(ErrorRecord::new(ErrorCode::ToolFatal, "out of paper"));
        call.duration_ms = 12;
        call
    });
    approved.start_sequence = Sequence(17);
    approved.usage = Some(ReplyUsage::new("openai/gpt", TokenUsage::new(12, 3)));
    samples.push(approved);
    samples.extend([false, true].map(|suspended| {
        step(&|_| {
            let mut child = ChildCall::new(SessionId::new("child").unwrap(), run());
            child.suspended = suspended;
            let mut call = OpenCall::new(CallPhase::Regular, CallState::AwaitingChild);
            call.child = Some(Box::new(child));
            call
        })
    }));
    let mut begun = step(&|_| OpenCall::new(CallPhase::Regular, CallState::Ready));
    begun.state_before = 5;
    samples.push(begun);
    samples
}

const AFTER: [fn() -> NextAction; 7] = [
    || NextAction::Complete,
    || NextAction::Fail(ErrorRecord::new(ErrorCode::MaxSteps, "50 steps")),
    || NextAction::Correct(Correction::TextInsteadOfOutput),
    || NextAction::Correct(Correction::Truncated),
    || NextAction::Correct(Correction::OutOfSteps),
    || {
        NextAction::Correct(Correction::Invalid {
            errors: vec!["no summary".to_owned()],
        })
    },
    || NextAction::Continue,
];

fn asked() -> PendingCall {
    let input = json!({"cents": 5});
    PendingCall::client(session("s1"), run(), call_id("c1"), "refund", input, at(7))
}

fn approval() -> ApprovalId {
    ApprovalId::new("ap-1").unwrap()
}

fn pending() -> PendingCall {
    let mut pending = asked().needing_approval(approval());
    pending.deadline = Some(at(900));
    let reason = Some("too much".to_owned());
    let decision = Submission::decision(call_id("c1"), approval(), false, reason);
    let mut answer = Answer::new(decision, at(8));
    answer.decided_by = Some(UserId::new("alice").unwrap());
    pending.answer = Some(answer);
    pending
}

pub(super) fn answer_kinds() -> Vec<AnswerKind> {
    let calls = [asked(), asked().needing_approval(approval())];
    let timed_out = calls.map(|call| AnswerKind::TimedOut(Box::new(CallBinding::of(&call))));
    let mut samples = vec![AnswerKind::Submitted, AnswerKind::AnsweredLate];
    samples.extend(timed_out);
    samples
}

pub(super) fn pendings() -> Vec<PendingCall> {
    let answers = [
        Submission::result(call_id("c1"), json!({"ok": true})),
        Submission::result(call_id("c1"), Value::Null),
        Submission::error(call_id("c1"), "nobody is there"),
        Submission::decision(call_id("c1"), approval(), true, None),
        Submission::Expired {
            tool_call_id: call_id("c1"),
        },
    ];
    let mut samples = vec![pending(), asked(), asked().needing_approval(approval())];
    samples.extend(answers.map(|submission| {
        let mut pending = asked();
        pending.root_session_id = session("root");
        pending.answer = Some(Answer::new(submission, at(8)));
        pending
    }));
    let mut warned = asked();
    (warned.deadline, warned.warn_at) = (Some(at(90)), Some(at(80)));
    samples.push(warned);
    samples
}

pub(super) fn checkpoint() -> Checkpoint {
    let id = CheckpointId::new("cp-1").unwrap();
    Checkpoint {
        id,
        session_id: session("s1"),
        run_id: run(),
        status: SessionStatus::Active,
        timestamp: at(6),
        step_count: 3,
        message_count: 7,
        state_version: 4,
        open_step: Some(step_id()),
    }
}

pub(super) fn checkpoints() -> Vec<Checkpoint> {
    let mut samples = vec![checkpoint()];
    samples.extend(SESSION_STATUSES.map(|status| {
        let mut sample = checkpoint();
        sample.status = status;
        sample.open_step = None;
        sample
    }));
    samples
}

pub(super) fn children() -> Vec<SubSessionRef> {
    let child = || SubSessionRef::new(session("child"), "writer", call_id("c3"), at(4));
    let mut far = child();
    far.mode = ChildMode::Persistent;
    far.name = Some("editor".to_owned());
    far.location = ChildLocation::Remote;
    far.run_id = Some(run());
    let mut samples = vec![far];
    samples.extend(CHILD_STATUSES.map(|status| {
        let mut sample = child();
        sample.status = status;
        sample
    }));
    let mut kept = child();
    kept.mode = ChildMode::Persistent;
    kept.blocking = true;
    samples.push(kept);
    samples
}

fn stop(kind: StopKind, reason: Option<&str>) -> StopRequest {
    let mut stop = StopRequest::new(run(), kind, at(3));
    stop.reason = reason.map(str::to_owned);
    stop
}

pub(super) fn stops() -> Vec<StopRequest> {
    vec![
        stop(StopKind::Interrupt, Some("user")),
        stop(StopKind::Abort, None),
    ]
}
