//! Keeps what was stored readable.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

use helix_agents_core::canonical::Digest;
use helix_agents_core::error::{Coded, ErrorCode, ErrorRecord};
use helix_agents_core::message::{
    AssistantMessage, AssistantPart, FilePart, Message, Thinking, UserMessage,
};
use helix_agents_core::model::TokenUsage;
use helix_agents_core::session::{
    Answer, CallPhase, CallState, Checkpoint, CheckpointSource, ChildWait, EffectRecord,
    InterruptContext, OpenCall, OpenStep, PendingCall, RunRecord, RunStatus, RunTrigger,
    SessionMode, SessionState, SessionStatus, StopKind, StopRequest, SubSessionRef, Submission,
    Suspended, TracingContext, WorkspaceRef,
};
use helix_agents_core::state::{StateOp, StepWrites};
use helix_agents_core::step::StopCause;
use helix_agents_core::stored::{Stored, StoredError, decode, encode};
use helix_agents_core::stream::{Chunk, ChunkBase, ChunkPayload};
use helix_agents_core::time::Timestamp;
use helix_agents_core::usage::{UsageEntry, UsageKind};
use helix_agents_core::{
    AgentId, ApprovalId, CheckpointId, MessageId, RunId, SessionId, StepId, StreamId, UsageId,
    UserId,
};
use serde_json::json;

use crate::make::{call, call_id, result};

fn session(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

fn run() -> RunId {
    RunId::new("run-1").unwrap()
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn pending() -> PendingCall {
    let mut pending = PendingCall::client(
        session("s1"),
        run(),
        call_id("c1"),
        "refund",
        json!({"cents": 5}),
        at(7),
    )
    .needing_approval(ApprovalId::new("ap-1").unwrap());
    pending.deadline = Some(at(900));
    let mut answer = Answer::new(
        Submission::ApprovalResponse {
            tool_call_id: call_id("c1"),
            approval_id: ApprovalId::new("ap-1").unwrap(),
            approved: false,
            reason: Some("too much".to_owned()),
        },
        at(8),
    );
    answer.decided_by = Some(UserId::new("alice").unwrap());
    pending.answer = Some(answer);
    pending
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
    state.suspended_step_id = Some(StepId::new("step-1").unwrap());
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

fn assistant() -> AssistantMessage {
    let mut gated = call("c2", "refund", json!({"cents": 5}));
    gated.provider_metadata = Some(json!({"thoughtSignature": "x"}));
    AssistantMessage::new(vec![
        AssistantPart::Thinking(Thinking::new("check first").signed("sig")),
        AssistantPart::Text {
            text: "One moment.".to_owned(),
        },
        AssistantPart::ToolCall(call("c1", "lookup", json!({"id": 7}))),
        AssistantPart::ToolCall(gated),
    ])
}

fn open_step() -> OpenStep {
    let mut step = OpenStep::new(
        StepId::new("step-1").unwrap(),
        run(),
        2,
        assistant(),
        |call| match call.name.as_str() {
            "refund" => OpenCall::new(CallPhase::Finish, CallState::AwaitingApproval),
            _ => OpenCall::new(CallPhase::Regular, CallState::Terminal),
        },
    );
    let done = &mut step.calls[0];
    done.effect = Some(EffectRecord::intended("key", at(5)));
    done.result = Some(result("c1"));
    done.writes = writes();
    step
}

fn writes() -> StepWrites {
    let path = |text: &str| text.parse().unwrap();
    StepWrites::from(vec![
        StateOp::Append {
            path: path("/notes"),
            value: json!("b"),
        },
        StateOp::Replace {
            path: path("/a~1b"),
            value: json!({"x": null}),
        },
        StateOp::Delete { path: path("/old") },
        StateOp::Increment {
            path: path("/count"),
            by: 2.into(),
        },
    ])
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
    let step = StepId::new("step-1").unwrap();
    record.suspended = Some(Suspended::new(step, vec![call_id("c2")], vec![]));
    record
}

fn checkpoint() -> Checkpoint {
    let id = CheckpointId::new("cp-1").unwrap();
    let mut checkpoint = Checkpoint::new(id, session("s1"), run(), SessionStatus::Active, at(6));
    checkpoint.step_count = 3;
    checkpoint.message_count = 7;
    checkpoint.state_version = 4;
    checkpoint.open_step = Some(StepId::new("step-1").unwrap());
    checkpoint
}

fn chunk() -> Chunk {
    let base = ChunkBase::new(
        AgentId::new("s1").unwrap(),
        "support",
        session("s1"),
        run(),
        2,
    );
    let request = ChunkPayload::ToolApprovalRequest {
        tool_call_id: call_id("c2"),
        tool_name: "refund".to_owned(),
        approval_id: ApprovalId::new("ap-1").unwrap(),
        input: json!({"cents": 5}),
        digest: Digest::of_call("refund", &json!({"cents": 5})),
    };
    Chunk::new(Arc::new(base), at(11), request)
}

fn user_message() -> Message {
    Message::User(
        UserMessage::new("hello")
            .with_id(MessageId::new("m1").unwrap())
            .with_file(FilePart::new("data:text/plain,hi", "text/plain").named("hi.txt"))
            .with_metadata("source", "web"),
    )
}

fn usage() -> UsageEntry {
    let kind = UsageKind::Tokens {
        model: "scripted/a".to_owned(),
        tokens: TokenUsage::new(12, 3),
    };
    UsageEntry::new(UsageId::new("u1").unwrap(), run(), 2, at(5), kind)
}

/// The golden file of a value must say exactly what we write today, and read back as the value.
/// Golden files of older versions must be readable, too: they stay when a version is raised.
fn check<T: Stored + Debug + PartialEq>(name: &str, value: &T) {
    let text = encode(value).unwrap();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(format!("{name}.v{}.json", T::VERSION));
    if std::env::var_os("HELIX_WRITE_GOLDEN").is_some() && !path.exists() {
        std::fs::write(&path, format!("{text}\n")).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_else(|error| {
        panic!(
            "{}: {error}; for a new type or version run the tests once with HELIX_WRITE_GOLDEN=1",
            path.display()
        )
    });
    assert_eq!(
        text,
        golden.trim_end(),
        "the format of {name} changed: raise its VERSION and add an upgrade"
    );
    assert_eq!(&decode::<T>(golden.trim_end()).unwrap(), value);
    for older in 1..T::VERSION {
        let path = path.with_file_name(format!("{name}.v{older}.json"));
        let golden = std::fs::read_to_string(path).unwrap();
        decode::<T>(golden.trim_end()).unwrap();
    }
}

/// proves: SES-07
#[test]
fn what_was_stored_can_be_read() {
    check("session", &full_session());
    check("run", &run_record());
    check("open_step", &open_step());
    check("pending", &pending());
    check("checkpoint", &checkpoint());
    let child = SubSessionRef::new(session("child"), "writer", call_id("c3"), at(4));
    check("child", &child);
    let mut stop = StopRequest::new(run(), StopKind::Interrupt, at(3));
    stop.reason = Some("user".to_owned());
    check("stop", &stop);
    check("message_user", &user_message());
    check("message_assistant", &Message::Assistant(assistant()));
    check("message_tool", &Message::Tool(result("c1")));
    check("writes", &writes());
    check("usage", &usage());
    check("chunk", &chunk());
}

#[test]
fn what_cannot_be_read_is_reported_and_not_guessed() {
    let text = encode(&checkpoint()).unwrap();
    let newer = text.replacen("[\"checkpoint\",1,", "[\"checkpoint\",2,", 1);
    let error = decode::<Checkpoint>(&newer).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a stored checkpoint has format version 2, this program reads up to 1; upgrade this program"
    );
    assert_eq!(error.code(), ErrorCode::StateUnsupportedVersion);

    for broken in [
        "",
        "{}",
        &text[..text.len() - 4],
        &encode(&run_record()).unwrap(),
    ] {
        let error = decode::<Checkpoint>(broken).unwrap_err();
        assert!(matches!(error, StoredError::Corrupt { .. }), "{broken}");
        assert_eq!(error.code(), ErrorCode::StateCorrupt);
    }
    let other = decode::<Checkpoint>(&encode(&run_record()).unwrap()).unwrap_err();
    assert_eq!(
        other.to_string(),
        "a stored checkpoint cannot be read: it is a run; restore it from a backup or delete it"
    );
}

/// An older format is brought up to date one version at a time.
#[test]
fn older_formats_are_upgraded_step_by_step() {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Third {
        steps: Vec<u32>,
    }
    impl Stored for Third {
        const KIND: &'static str = "third";
        const VERSION: u32 = 3;
        fn upgrade(from: u32, data: serde_json::Value) -> Result<serde_json::Value, String> {
            match from {
                1 => Ok(json!({"step": data["s"]})),
                2 => Ok(json!({"steps": [data["step"]]})),
                _ => Err(format!("no upgrade from {from}")),
            }
        }
    }
    for text in [
        r#"["third",1,{"s":7}]"#,
        r#"["third",2,{"step":7}]"#,
        r#"["third",3,{"steps":[7]}]"#,
    ] {
        assert_eq!(
            decode::<Third>(text).unwrap(),
            Third { steps: vec![7] },
            "{text}"
        );
    }
    assert!(decode::<Third>(r#"["third",0,{}]"#).is_err());
}
