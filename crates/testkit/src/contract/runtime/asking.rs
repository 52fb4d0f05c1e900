//! Model calls: requests, replies, failures and retries.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::Agent;
use helix_agents_core::error::ErrorCode;
use helix_agents_core::model::{
    ModelConfig, ModelError, ModelErrorKind, ModelEvent, TokenUsage, ToolChoice,
};
use helix_agents_core::session::{RunStatus, StopKind};
use helix_agents_core::step::StopReason;
use helix_agents_core::store::Sessions;
use helix_agents_core::stream::ChunkPayload;
use helix_agents_core::usage::{UsageEntry, UsageKind};
use serde_json::json;

use super::super::builders::call;
use super::agents::{Gate, calling, echo, of_model};
use super::lines::transcript_lines;
use super::stepwise_model::{ModelStep, StepwiseModel};
use super::subject::session;
use super::{MockReply, RuntimeSubject};
use crate::{MockModel, SeenRequest};

fn finished(stop_reason: StopReason) -> ModelStep {
    let usage = TokenUsage::new(1, 1);
    ModelStep::Emit(ModelEvent::Finished { stop_reason, usage })
}

fn text(text: &str) -> ModelStep {
    ModelStep::Emit(ModelEvent::Text(text.to_owned()))
}

fn fails(kind: ModelErrorKind) -> Vec<ModelStep> {
    vec![ModelStep::Fail(ModelError::new(kind, "told to fail"))]
}

fn asks(model: &Arc<StepwiseModel>) -> Agent {
    let agent = Agent::builder("agent").model(Arc::clone(model));
    agent.build().unwrap()
}

/// The model is shown the system prompt, the whole history, the tools and the state.
///
/// proves in part: LLM-01
pub async fn the_model_is_shown_everything(on: &RuntimeSubject) {
    let model = Arc::new(MockModel::replies([
        calling([("c1", "echo")]),
        MockReply::text("done"),
        MockReply::text("again"),
    ]));
    let agent = of_model(&model)
        .tools(echo("echo"))
        .system_prompt_from_state(|state: &serde_json::Value| format!("You see {state}."))
        .initial_state(json!({ "mood": "calm" }))
        .build()
        .unwrap();
    on.turn(&agent, "one").await;
    on.restarted().await.turn(&agent, "two").await;
    let history = on.messages().await;
    let seen = |messages: usize| SeenRequest {
        agent_type: "agent".to_owned(),
        session_id: session(),
        system: r#"You see {"mood":"calm"}."#.to_owned(),
        messages: history[..messages].to_vec(),
        state: json!({ "mood": "calm" }),
        tools: vec!["echo".to_owned()],
        tool_choice: ToolChoice::Auto,
        native_output: false,
        attempt: 1,
    };
    assert_eq!(model.seen(), [seen(1), seen(3), seen(5)]);
}

/// Text, thinking and arguments reach readers in pieces, and the reply is stored whole.
///
/// proves: LLM-01
pub async fn a_reply_is_streamed_in_pieces_and_stored_whole(on: &RuntimeSubject) {
    let thinking = |text: &str| ModelStep::Emit(ModelEvent::Thinking(text.to_owned()));
    let arguments = |delta: &str| {
        ModelStep::Emit(ModelEvent::CallArguments {
            call: 0,
            delta: delta.to_owned(),
        })
    };
    let mut config = ModelConfig::default();
    config.temperature = Some(0.5);
    let model = Arc::new(StepwiseModel::new([
        vec![
            thinking("hm"),
            thinking("m"),
            ModelStep::Emit(ModelEvent::ThinkingEnd {
                signature: Some("sig".to_owned()),
                redacted: None,
                provider_metadata: None,
            }),
            text("Let "),
            text("me see."),
            ModelStep::Emit(ModelEvent::CallStart {
                id: Some("c1".to_owned()),
                name: "echo".to_owned(),
            }),
            arguments(r#"{"n":"#),
            arguments("1}"),
            ModelStep::Emit(ModelEvent::CallEnd {
                call: 0,
                provider_metadata: None,
            }),
            finished(StopReason::ToolUse),
        ],
        vec![text("Done."), finished(StopReason::EndTurn)],
    ]));
    let agent = Agent::builder("agent")
        .model(Arc::clone(&model))
        .model_config(config.clone())
        .tools(echo("echo"))
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    let is_piece = |it: &ChunkPayload| super::lines::names(std::slice::from_ref(it)).is_empty();
    let pieces = on.payloads().await.into_iter().filter(is_piece);
    let thought = |content: &str, is_complete| ChunkPayload::Thinking {
        content: content.to_owned(),
        is_complete,
    };
    let said = |delta: &str| ChunkPayload::TextDelta {
        delta: delta.to_owned(),
    };
    let argued = |delta: &str| ChunkPayload::ToolArgStreamDelta {
        tool_call_id: call("c1"),
        delta: delta.to_owned(),
    };
    assert_eq!(
        pieces.collect::<Vec<_>>(),
        [
            thought("hm", false),
            thought("m", false),
            thought("", true),
            said("Let "),
            said("me see."),
            ChunkPayload::ToolArgStreamStart {
                tool_call_id: call("c1"),
                tool_name: "echo".into(),
            },
            argued(r#"{"n":"#),
            argued("1}"),
            ChunkPayload::ToolArgStreamEnd {
                tool_call_id: call("c1"),
            },
            said("Done."),
        ]
    );
    assert_eq!(
        on.transcript_lines().await,
        [
            "user: go",
            r#"assistant: (hmm) Let me see. c1=echo{"n":1}"#,
            r#"c1=success: {"n":1}"#,
            "assistant: Done.",
        ]
    );
    let asked = model.asked();
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|it| it.config == config));
}

/// A temporary failure is retried after 1, 2 and 4 seconds, or after the provider's delay, within
/// the same step. A permanent failure, or a fourth temporary one, fails the turn with its code.
///
/// proves: LLM-04
pub async fn a_failed_model_call_is_tried_again(on: &RuntimeSubject) {
    let says = Duration::from_millis(2_500);
    let limited = ModelError::new(ModelErrorKind::RateLimited, "slow down").retry_after(says);
    let model = Arc::new(StepwiseModel::new([
        fails(ModelErrorKind::Overloaded),
        // A stream that just ends is a dropped connection.
        vec![text("half a")],
        fails(ModelErrorKind::Transport),
        vec![text("better"), finished(StopReason::EndTurn)],
        vec![ModelStep::Fail(limited)],
        vec![text("good"), finished(StopReason::EndTurn)],
        fails(ModelErrorKind::Auth),
        vec![text("No."), finished(StopReason::Refusal)],
        fails(ModelErrorKind::Overloaded),
        fails(ModelErrorKind::Overloaded),
        fails(ModelErrorKind::Overloaded),
        fails(ModelErrorKind::Overloaded),
    ]));
    let agent = asks(&model);
    let first = on.turn(&agent, "one").await;
    assert_eq!((first.status, first.step_count), (RunStatus::Completed, 1));
    let second = on.turn(&agent, "two").await;
    assert_eq!(second.status, RunStatus::Completed);
    let asked = model.asked();
    let attempts: Vec<_> = asked.iter().map(|it| it.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 4, 1, 2]);
    let wait = |at: usize| asked[at].at.since(asked[at - 1].at);
    let waits = [wait(1), wait(2), wait(3), wait(5)];
    let should = [1_000, 2_000, 4_000, 2_500].map(Duration::from_millis);
    if on.exact {
        assert_eq!(waits, should);
    } else {
        assert!(waits.iter().zip(should).all(|(was, should)| *was >= should));
    }
    for (code, retryable, asked) in [
        (ErrorCode::ProviderAuth, false, 7),
        (ErrorCode::ProviderRefusal, false, 8),
        (ErrorCode::ProviderOverloaded, true, 12),
    ] {
        let error = on.turn(&agent, "more").await.error.expect("it says why");
        assert_eq!((error.code, error.retryable), (code, retryable));
        assert_eq!(model.asked().len(), asked);
    }
    assert_eq!(
        on.transcript_lines().await,
        [
            "user: one",
            "assistant: better",
            "user: two",
            "assistant: good",
            "user: more",
            "user: more",
            "assistant: No.",
            "user: more",
        ]
    );
}

/// A permanent failure ends the turn at once; a temporary one ends it after three retries.
pub async fn a_model_that_keeps_failing_fails_the_turn(on: &RuntimeSubject) {
    let kinds = [
        (ModelErrorKind::Auth, ErrorCode::ProviderAuth),
        (
            ModelErrorKind::ContextLength,
            ErrorCode::ProviderContextLength,
        ),
        (
            ModelErrorKind::ContentFilter,
            ErrorCode::ProviderContentFilter,
        ),
        (ModelErrorKind::Refusal, ErrorCode::ProviderRefusal),
        (ModelErrorKind::Invalid, ErrorCode::ProviderInvalid),
    ];
    let once = kinds.map(|(kind, _)| fails(kind));
    let overloaded = (0..5).map(|_| fails(ModelErrorKind::Overloaded));
    let model = Arc::new(StepwiseModel::new(once.into_iter().chain(overloaded)));
    let agent = asks(&model);
    let mut asked = 0;
    for (_, code) in kinds {
        let run = on.turn(&agent, "go").await;
        asked += 1;
        let error = run.error.expect("it says why");
        assert_eq!((error.code, error.retryable), (code, false));
        assert_eq!(model.asked().len(), asked, "it is not tried again");
    }
    let run = on.turn(&agent, "go").await;
    let error = run.error.expect("it says why");
    assert_eq!(error.code, ErrorCode::ProviderOverloaded);
    assert!(error.retryable, "another turn may do better");
    assert_eq!(model.asked().len(), asked + 4);
    assert_eq!(on.transcript_lines().await, ["user: go"; 6]);
}

/// The usage of a session has the tokens that a failed call is known to have used, beside those of the attempt
/// that succeeded.
///
/// proves in part: USG-01
pub async fn the_tokens_of_a_call_that_fails_are_recorded(on: &RuntimeSubject) {
    let gone = || ModelError::new(ModelErrorKind::Transport, "gone");
    let model = Arc::new(MockModel::replies([
        MockReply::text("he")
            .with_usage(TokenUsage::new(7, 1))
            .then_fail(gone()),
        MockReply::text("hel")
            .with_usage(TokenUsage::new(7, 2))
            .then_drop(),
        MockReply::text("hello").with_usage(TokenUsage::new(7, 3)),
        MockReply::error(ModelErrorKind::Auth).with_usage(TokenUsage::new(5, 0)),
    ]));
    let agent = of_model(&model).build().unwrap();
    assert_eq!(on.turn(&agent, "one").await.status, RunStatus::Completed);
    assert_eq!(on.turn(&agent, "two").await.status, RunStatus::Failed);
    assert_eq!(
        tokens(&on.restarted().await.usage().await),
        [(7, 1), (7, 2), (7, 3), (5, 0)]
    );
}

fn tokens(usage: &[UsageEntry]) -> Vec<(u64, u64)> {
    let tokens = usage.iter().filter_map(|entry| match &entry.kind {
        UsageKind::Tokens { tokens, .. } => Some((tokens.input, tokens.output)),
        _ => None,
    });
    tokens.collect()
}

/// The usage of a session has the tokens that a call is known to have used before a stop cut it off.
///
/// proves in part: USG-01
pub async fn the_tokens_of_a_call_that_is_cut_off_are_recorded(on: &RuntimeSubject) {
    let mut recorded = Vec::new();
    for (kind, said) in [
        (StopKind::Interrupt, Some("He")),
        (StopKind::Interrupt, None),
        (StopKind::Abort, Some("He")),
    ] {
        let gate = Gate::default();
        let used = ModelStep::Emit(ModelEvent::Usage(TokenUsage::new(9, 4)));
        let mut steps = vec![used];
        steps.extend(said.map(text));
        steps.push(ModelStep::Wait(gate.clone()));
        let agent = asks(&Arc::new(StepwiseModel::new([steps])));
        let run = on.start(&agent, "go").await;
        gate.reached(1).await;
        let sessions = Sessions::new(&*on.backend().store, &*on.clock);
        let asked = sessions.request_stop(&session(), kind, None).await;
        assert!(asked.unwrap().is_some());
        assert!(on.ended(&run).await.status.is_ended());
        recorded.push((9, 4));
        assert_eq!(
            tokens(&on.usage().await),
            recorded,
            "{kind:?} after {said:?}"
        );
    }
}

/// The text of a discarded attempt is not replayed to later readers, and live readers are told that
/// it was discarded.
pub async fn a_discarded_attempt_is_not_replayed(on: &RuntimeSubject) {
    let gate = Gate::default();
    let model = Arc::new(StepwiseModel::new([
        vec![
            text("never "),
            text("mind"),
            ModelStep::Wait(gate.clone()),
            ModelStep::Fail(ModelError::new(ModelErrorKind::Transport, "gone")),
        ],
        vec![text("kept"), finished(StopReason::EndTurn)],
    ]));
    let run = on.start(&asks(&model), "go").await;
    on.until_told("text_delta").await;
    gate.open();
    on.ended(&run).await;
    let payloads = on.payloads().await;
    let said = payloads.iter().filter_map(|it| match it {
        ChunkPayload::TextDelta { delta } => Some(delta.as_str()),
        _ => None,
    });
    assert_eq!(said.collect::<String>(), "kept");
    assert_eq!(
        super::lines::names(&payloads),
        [
            "run_started",
            "step_discarded",
            "step_committed",
            "checkpoint_created"
        ]
    );
    assert_eq!(
        transcript_lines(&on.messages().await),
        ["user: go", "assistant: kept"]
    );
}
