use std::collections::BTreeMap;
use std::sync::Arc;

use helix_agents_core::canonical::Digest;
use helix_agents_core::error::{Coded, ErrorCode};
use helix_agents_core::message::{AssistantMessage, AssistantPart, Message};
use helix_agents_core::session::{
    Answer, CallPhase, CallState, OpenCall, OpenStep, PendingCall, PendingKind, RunStatus,
    SessionState, SessionStatus, Submission, SubmissionError, Suspended,
};
use helix_agents_core::stored::{decode, encode};
use helix_agents_core::time::Timestamp;
use helix_agents_core::transcript::PairingError;
use helix_agents_core::{ApprovalId, RunId, SessionId, StepId, Transcript};
use serde_json::{Value, json};

use crate::make::{call, call_id, result};

/// proves in part: SES-05
#[test]
fn run_statuses_have_their_names_on_the_wire() {
    let names = [
        (RunStatus::Running, "running", false),
        (RunStatus::Completed, "completed", false),
        (RunStatus::Failed, "failed", false),
        (RunStatus::Interrupted, "interrupted", false),
        (
            RunStatus::SuspendedClientTool,
            "suspended_client_tool",
            true,
        ),
        (
            RunStatus::SuspendedAwaitingChildren,
            "suspended_awaiting_children",
            true,
        ),
        (
            RunStatus::SuspendedStepPartial,
            "suspended_step_partial",
            true,
        ),
    ];
    for (status, name, suspended) in names {
        assert_eq!(serde_json::to_value(status).unwrap(), name);
        assert_eq!(
            serde_json::from_value::<RunStatus>(json!(name)).unwrap(),
            status
        );
        assert_eq!(status.is_suspended(), suspended, "{name}");
        assert_eq!(status.is_ended(), status != RunStatus::Running);
    }
    let suspended = Suspended::new(
        StepId::new("step-1").unwrap(),
        vec![call_id("c1")],
        vec![SessionId::new("child").unwrap()],
    );
    assert_eq!(
        serde_json::to_value(suspended).unwrap(),
        json!({"toolCallIds": ["c1"], "children": ["child"], "stepId": "step-1"})
    );
}

/// proves in part: SES-06
#[test]
fn session_statuses_have_their_names_on_the_wire() {
    let names = [
        (SessionStatus::Active, "active"),
        (SessionStatus::Completed, "completed"),
        (SessionStatus::Failed, "failed"),
        (SessionStatus::Interrupted, "interrupted"),
        (SessionStatus::Paused, "paused"),
    ];
    for (status, name) in names {
        assert_eq!(serde_json::to_value(status).unwrap(), name);
        assert_eq!(
            serde_json::from_value::<SessionStatus>(json!(name)).unwrap(),
            status
        );
    }
}

/// Every field of the session model exists, under its documented name.
///
/// proves in part: SES-07
#[test]
fn a_session_has_every_field_of_the_session_model() {
    let state = crate::golden::full_session();
    let json = serde_json::to_value(&state).unwrap();
    let mut names: Vec<_> = json
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let mut expected = vec![
        "sessionId",
        "agentType",
        "streamId",
        "customState",
        "status",
        "stepCount",
        "output",
        "error",
        "failureReason",
        "interruptContext",
        "pendingClientToolCalls",
        "suspendedAwaitingChildren",
        "suspendedStepId",
        "completedClientToolCalls",
        "clientToolCallOwnership",
        "tracingContext",
        "expiresAt",
        "parentSessionId",
        "rootSessionId",
        "mode",
        "version",
        "resumeCount",
        "checkpointId",
        "checkpointedAt",
        "checkpointSource",
        "userId",
        "tags",
        "metadata",
        "workspaceRef",
        "createdAt",
        "updatedAt",
    ];
    names.sort_unstable();
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert_eq!(serde_json::from_value::<SessionState>(json).unwrap(), state);

    let fresh = SessionState::new(SessionId::new("s").unwrap(), "a", Timestamp::from_millis(5));
    let json = serde_json::to_value(&fresh).unwrap();
    let expected = json!({
        "sessionId": "s", "agentType": "a", "customState": {}, "status": "active", "stepCount": 0,
        "version": 0, "resumeCount": 0, "createdAt": 5, "updatedAt": 5,
    });
    assert_eq!(json, expected, "what is absent is left out, never null");
    assert_eq!(fresh.root(), &fresh.session_id);
    assert_eq!(fresh.pending_client_tool_calls, BTreeMap::new());
    assert_eq!(fresh.custom_state, Arc::new(json!({})));
}

fn open_step() -> OpenStep {
    let message = AssistantMessage::new(vec![
        AssistantPart::ToolCall(call("a", "t", json!({}))),
        AssistantPart::text("and"),
        AssistantPart::ToolCall(call("b", "t", json!({}))),
    ]);
    OpenStep::new(
        StepId::new("step-1").unwrap(),
        RunId::new("run-1").unwrap(),
        1,
        message,
        |call| match call.id.as_str() {
            "a" => OpenCall::new(CallPhase::Regular, CallState::Ready),
            _ => OpenCall::new(CallPhase::Regular, CallState::AwaitingClient),
        },
    )
}

#[test]
fn an_open_step_enters_the_transcript_only_when_every_call_has_its_result() {
    let mut step = open_step();
    let states: Vec<_> = step
        .calls()
        .map(|(call, open)| (call.id.as_str(), open.state))
        .collect();
    assert_eq!(
        states,
        [("a", CallState::Ready), ("b", CallState::AwaitingClient)]
    );
    step.calls[1].result = Some(result("b"));
    assert!(!step.is_settled());
    let missing = PairingError::MissingResult { call: call_id("a") };
    assert_eq!(step.clone().into_paired().unwrap_err(), missing);

    step.calls[0].result = Some(result("a"));
    assert!(step.is_settled());
    let mut transcript = Transcript::new();
    transcript.push_step(step.into_paired().unwrap()).unwrap();
    assert_eq!(transcript.last(), Some(&Message::Tool(result("b"))));
}

fn client(result: Option<Value>, error: Option<&str>) -> Submission {
    Submission::ClientToolResult {
        tool_call_id: call_id("c"),
        result,
        error: error.map(str::to_owned),
        digest: None,
        run_id: None,
    }
}

fn approval() -> Submission {
    let id = ApprovalId::new("ap-1").unwrap();
    Submission::decision(call_id("c"), id, true, None)
}

/// A call that waits for a client, or for the approval `ap-1`.
fn pending(kind: PendingKind) -> PendingCall {
    let call = PendingCall::client(
        SessionId::new("s").unwrap(),
        RunId::new("run-1").unwrap(),
        call_id("c"),
        "t",
        json!({"x": 1}),
        Timestamp::from_millis(1),
    );
    match kind {
        PendingKind::Approval => call.needing_approval(ApprovalId::new("ap-1").unwrap()),
        _ => call,
    }
}

#[test]
fn an_answer_must_be_of_the_kind_that_the_call_waits_for() {
    use PendingKind::{Approval, Client};
    let wrong = |waits_for| SubmissionError::WrongKind {
        call: call_id("c"),
        waits_for,
    };
    let neither = SubmissionError::ResultOrError { call: call_id("c") };
    let cases = [
        (client(Some(json!(1)), None), Client, Ok(())),
        (client(Some(Value::Null), None), Client, Ok(())),
        (client(None, Some("no camera")), Client, Ok(())),
        (approval(), Approval, Ok(())),
        // Giving up is allowed for both kinds.
        (client(None, Some("abandoned")), Approval, Ok(())),
        (
            client(Some(json!("yes")), None),
            Approval,
            Err(wrong(Approval)),
        ),
        (approval(), Client, Err(wrong(Client))),
        (client(None, None), Client, Err(neither.clone())),
        (client(Some(json!(1)), Some("both")), Client, Err(neither)),
    ];
    for (submission, kind, expected) in cases {
        let got = submission.check(&pending(kind));
        assert_eq!(got, expected, "{submission:?} for {kind:?}");
    }
}

/// An answer is bound to its request: approval id, and digest and run if they are named.
#[test]
fn an_answer_to_another_request_is_refused() {
    let waits = pending(PendingKind::Approval);
    let answer = |approval: &str, digest: Option<Digest>, run: Option<&str>| {
        Submission::ApprovalResponse {
            tool_call_id: call_id("c"),
            approval_id: ApprovalId::new(approval).unwrap(),
            approved: true,
            reason: None,
            digest,
            run_id: run.map(|run| RunId::new(run).unwrap()),
        }
        .check(&waits)
    };
    let asked = Digest::of_call("t", &json!({"x": 1}));
    let other = Digest::of_call("t", &json!({"x": 2}));
    let mismatch = |what| {
        Err(SubmissionError::Mismatch {
            call: call_id("c"),
            what,
        })
    };
    assert_eq!(answer("ap-1", None, None), Ok(()));
    assert_eq!(answer("ap-1", Some(asked), Some("run-1")), Ok(()));
    assert_eq!(answer("ap-2", None, None), mismatch("approval id"));
    assert_eq!(answer("ap-1", Some(other), None), mismatch("digest"));
    assert_eq!(answer("ap-1", None, Some("run-2")), mismatch("run"));
}

#[test]
fn answers_beyond_the_limits_are_refused() {
    let waits = pending(PendingKind::Client);
    // A text is measured as it is stored, whatever its JSON would be.
    for text in ["x", "\n"].map(|one| one.repeat(1024 * 1024)) {
        assert_eq!(client(Some(json!(text)), None).check(&waits), Ok(()));
        let as_json = client(Some(json!([text])), None).check(&waits);
        assert!(as_json.is_err());
    }
    let large = client(Some(json!("x".repeat(1024 * 1024 + 1))), None);
    let error = large.check(&waits).unwrap_err();
    let bytes = 1024 * 1024 + 1;
    let call = call_id("c");
    assert_eq!(error, SubmissionError::ResultTooLarge { call, bytes });
    assert_eq!(error.code(), ErrorCode::ValidationError);
    let long = client(None, Some(&"x".repeat(8 * 1024 + 1)));
    let bytes = 8 * 1024 + 1;
    let call = call_id("c");
    let expected = SubmissionError::ErrorTooLong { call, bytes };
    assert_eq!(long.check(&waits).unwrap_err(), expected);

    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(client(Some(nested(100)), None).check(&waits), Ok(()));
    let call = call_id("c");
    let expected = SubmissionError::ResultTooDeep { call };
    let deep = client(Some(nested(101)), None);
    assert_eq!(deep.check(&waits).unwrap_err(), expected);
}

/// Every accepted answer can be stored and read again, however it is nested.
#[test]
fn the_deepest_accepted_answer_can_be_stored_and_read_again() {
    let nested = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let mut waits = pending(PendingKind::Client);
    let submission = Submission::result(call_id("c"), nested.clone());
    submission.check(&waits).unwrap();
    waits.answer = Some(Answer::new(submission, Timestamp::from_millis(2)));
    let mut session = SessionState::new(SessionId::new("s").unwrap(), "a", Timestamp::default());
    session.pending_client_tool_calls = BTreeMap::from([(call_id("c"), waits)]);
    let text = encode(&session).unwrap();
    assert_eq!(decode::<SessionState>(&text).unwrap(), session);

    session.output = Some((0..60).fold(nested, |inner, _| json!({"in": inner})));
    let error = encode(&session).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a session cannot be stored: it is nested deeper than 120 levels; leave that part out"
    );
}

/// `null` is an output: a tool that returns nothing has finished, too.
#[test]
fn an_output_of_null_is_not_lost() {
    let mut session = SessionState::new(SessionId::new("s").unwrap(), "a", Timestamp::default());
    session.output = Some(Value::Null);
    let text = encode(&session).unwrap();
    assert_eq!(
        decode::<SessionState>(&text).unwrap().output,
        Some(Value::Null)
    );
    let json = json!({"kind": "client-tool-result", "toolCallId": "c", "result": null});
    let submission: Submission = serde_json::from_value(json).unwrap();
    assert_eq!(submission, client(Some(Value::Null), None));
}

#[test]
fn submissions_have_their_documented_form_on_the_wire() {
    let json = json!({"kind": "client-tool-result", "toolCallId": "c", "result": {"x": 1}});
    assert_eq!(
        serde_json::to_value(client(Some(json!({"x": 1})), None)).unwrap(),
        json
    );
    let json = json!({"kind": "approval-response", "toolCallId": "c", "approvalId": "ap-1", "approved": true});
    assert_eq!(
        serde_json::from_value::<Submission>(json).unwrap(),
        approval()
    );
}
