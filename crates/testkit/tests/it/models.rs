//! The mock and the routing model.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::id::SessionId;
use helix_agents_core::message::{AssistantMessage, AssistantPart, Message, ToolCall, UserMessage};
use helix_agents_core::model::{
    Model, ModelConfig, ModelError, ModelErrorKind, ModelExt, ModelReply, ModelRequest, TokenUsage,
    ToolChoice, ToolSchema,
};
use helix_agents_core::schema::Schema;
use helix_agents_core::step::{StopReason, SystemPrompt, build_messages_for_llm};
use helix_agents_core::time::Timestamp;
use helix_agents_core::{CallId, Transcript};
use helix_agents_models::{Script, ScriptedModel};
use helix_agents_testkit::{
    MockModel, MockReply, RoutingModel, SeenRequest, SequentialIds, VirtualClock, block_on,
};
use serde_json::{Value, json};

/// Asks on behalf of an agent, with a conversation of one message.
fn ask_with(
    model: &dyn Model,
    agent: &str,
    tools: &[ToolSchema],
    choice: ToolChoice,
    attempt: u32,
) -> Result<ModelReply, ModelError> {
    let mut history = Transcript::new();
    history.push_user(UserMessage::new("hello"));
    let state = json!({ "n": 1 });
    let system = SystemPrompt::from("You help.");
    let prompt = build_messages_for_llm(&history, &system, &state);
    let config = ModelConfig::default();
    let session = SessionId::new("s1").unwrap();
    let clock = VirtualClock::new(Timestamp::from_millis(0));
    let request = ModelRequest {
        prompt,
        config: &config,
        state: &state,
        agent_type: agent,
        session_id: &session,
        clock: &clock,
        tools,
        tool_choice: choice,
        native_output: None,
        attempt,
    };
    block_on(model.reply(request, &SequentialIds::new()))
}

fn ask(model: &dyn Model, agent: &str) -> Result<ModelReply, ModelError> {
    ask_with(model, agent, &[], ToolChoice::Auto, 1)
}

fn call(id: &str, tool: &str, arguments: Value) -> AssistantPart {
    AssistantPart::ToolCall(ToolCall::new(CallId::new(id).unwrap(), tool, arguments))
}

fn reply(parts: Vec<AssistantPart>, stop_reason: StopReason) -> ModelReply {
    let message = AssistantMessage::new(parts);
    ModelReply::new(message).with_stop_reason(stop_reason)
}

fn text(text: &str) -> AssistantPart {
    AssistantPart::text(text)
}

/// proves: LLM-03
#[test]
fn a_mock_gives_its_replies_in_their_order() {
    let usage = TokenUsage::new(3, 4);
    let mock = MockModel::replies([
        MockReply::text("Hi."),
        MockReply::calls([
            ("c1", "look", json!({ "id": 7 })),
            ("c2", "wait", json!({})),
        ]),
        MockReply::text("So:")
            .with_calls([("c1", "look", json!([]))])
            .with_finish(json!("x")),
        MockReply::finish(json!({ "ok": true })),
        MockReply::text("cut")
            .with_stop_reason(StopReason::MaxTokens)
            .with_usage(usage),
    ]);
    let replies = (0..5).map(|_| ask(&mock, "support").unwrap());
    let mut cut = reply(vec![text("cut")], StopReason::MaxTokens);
    cut.usage = usage;
    let expected = [
        reply(vec![text("Hi.")], StopReason::EndTurn),
        reply(
            vec![
                call("c1", "look", json!({ "id": 7 })),
                call("c2", "wait", json!({})),
            ],
            StopReason::ToolUse,
        ),
        reply(
            vec![
                text("So:"),
                call("c1", "look", json!([])),
                call("call-1", "__finish__", json!("x")),
            ],
            StopReason::ToolUse,
        ),
        reply(
            vec![call("call-1", "__finish__", json!({ "ok": true }))],
            StopReason::ToolUse,
        ),
        cut,
    ];
    assert_eq!(replies.collect::<Vec<_>>(), expected);
    assert_eq!(mock.replies_left(), 0);
}

/// proves: LLM-03
#[test]
fn a_mock_fails_on_request() {
    let limited = || {
        let error = ModelError::new(ModelErrorKind::RateLimited, "slow down");
        error.retry_after(Duration::from_secs(2))
    };
    let mock = MockModel::replies([
        MockReply::error(ModelErrorKind::Overloaded),
        MockReply::failure(limited()),
        MockReply::text("Part").then_fail(limited()),
        MockReply::text("Part").then_drop(),
    ]);
    let failures: Vec<_> = (0..4)
        .map(|_| {
            let error = ask(&mock, "support").unwrap_err();
            (error.kind, error.detail, error.retry_after)
        })
        .collect();
    let wait = Some(Duration::from_secs(2));
    let dropped = "the stream ended before the model had finished";
    assert_eq!(
        failures,
        [
            (
                ModelErrorKind::Overloaded,
                "the mock was told to fail".into(),
                None
            ),
            (ModelErrorKind::RateLimited, "slow down".into(), wait),
            (ModelErrorKind::RateLimited, "slow down".into(), wait),
            (ModelErrorKind::Transport, dropped.into(), None),
        ]
    );
}

/// proves: LLM-03
#[test]
fn a_mock_without_replies_left_fails() {
    let mock = MockModel::replies([MockReply::text("only")]);
    ask(&mock, "support").unwrap();
    for asked in [2, 3] {
        let error = ask(&mock, "support").unwrap_err();
        let detail = format!("the mock has no reply left for request {asked}; add one");
        assert_eq!(
            (error.kind, error.detail),
            (ModelErrorKind::Invalid, detail)
        );
    }
}

/// proves: LLM-03
#[test]
fn a_mock_records_its_requests() {
    let mock = MockModel::replies([MockReply::text("one"), MockReply::text("two")]);
    let input = Schema::object("look", json!({ "type": "object" })).unwrap();
    let tools = [ToolSchema::new("look", "Looks.", input)];
    let choice = ToolChoice::Tool("look".into());
    ask(&mock, "support").unwrap();
    ask_with(&mock, "researcher", &tools, choice.clone(), 2).unwrap();
    let first = SeenRequest {
        agent_type: "support".into(),
        session_id: SessionId::new("s1").unwrap(),
        system: "You help.".into(),
        messages: vec![Message::User(UserMessage::new("hello"))],
        state: json!({ "n": 1 }),
        tools: vec![],
        tool_choice: ToolChoice::Auto,
        native_output: false,
        attempt: 1,
    };
    let second = SeenRequest {
        agent_type: "researcher".into(),
        tools: vec!["look".into()],
        tool_choice: choice,
        attempt: 2,
        ..first.clone()
    };
    assert_eq!(mock.seen(), [first, second]);
}

/// proves: LLM-03
#[test]
fn every_agent_has_its_own_model() {
    let mock = Arc::new(MockModel::replies([MockReply::text("mock")]));
    let script = json!({ "default": [ { "text": "Echo: {{last_user}}" } ] });
    let scripted = ScriptedModel::new(Script::from_value(script).unwrap());
    let models = RoutingModel::new()
        .route("support", Arc::clone(&mock) as Arc<dyn Model>)
        .route("researcher", Arc::new(scripted));
    let said = |agent| ask(&models, agent).unwrap().message.content().unwrap();
    assert_eq!(said("researcher"), "Echo: hello");
    assert_eq!(said("support"), "mock");
    assert_eq!(said("researcher"), "Echo: hello", "nobody took its reply");
    assert_eq!(mock.seen().len(), 1);
}

/// proves: LLM-03
#[test]
fn the_error_of_a_missing_model_lists_the_known_ones() {
    let error = |models: RoutingModel| {
        let error = ask(&models, "writer").unwrap_err();
        (error.kind, error.detail)
    };
    let mock = || Arc::new(MockModel::replies([]));
    assert_eq!(
        error(
            RoutingModel::new()
                .route("support", mock())
                .route("researcher", mock())
        ),
        (
            ModelErrorKind::Invalid,
            r#"no model is routed to agent "writer"; there are routes for researcher, support"#
                .to_owned(),
        )
    );
    assert_eq!(
        error(RoutingModel::new()),
        (
            ModelErrorKind::Invalid,
            r#"no model is routed to agent "writer"; there are routes for no agents"#.to_owned(),
        )
    );
}

#[test]
fn native_output_needs_the_support_of_all() {
    let plain = || Arc::new(MockModel::replies([]));
    let native = || Arc::new(MockModel::replies([]).with_native_output());
    let none = RoutingModel::new();
    let all = RoutingModel::new()
        .route("a", native())
        .route("b", native());
    let some = all.clone().route("b", plain());
    let supports = [none, all, some].map(|models| models.supports_native_output());
    assert_eq!(supports, [false, true, false]);
}
