use helix_agents_core::Transcript;
use helix_agents_core::error::ErrorCode;
use helix_agents_core::message::{
    AssistantMessage, AssistantPart, Message, ResultStatus, Thinking, ToolMessage, UserMessage,
};
use helix_agents_core::model::{ModelError, ModelErrorKind};
use helix_agents_core::schema::Schema;
use helix_agents_core::step::{
    AssistantMessagePlan, Conclusion, Correction, ErrorStep, FINISH_TOOL, FinalStatus, NextAction,
    PlanOptions, PromptMessage, StatusUpdate, StepResult, StopCause, StopConfig, StopReason,
    SubAgentCall, SubAgentResultInput, SystemPrompt, ToolResultInput, build_messages_for_llm,
    conclude, correction_message, create_assistant_message, create_sub_agent_result_message,
    create_tool_result_message, determine_final_status, is_recoverable_error_stop_reason,
    next_action, plan_step_processing, should_stop_execution, stop_cause, synthesize_finish_result,
};
use helix_agents_core::transcript::PairedStep;
use serde_json::{Value, json};

use crate::make::{call, call_id, calling, calls_step, reply, result, text_step};

const REASONS: [StopReason; 8] = [
    StopReason::EndTurn,
    StopReason::StopSequence,
    StopReason::ToolUse,
    StopReason::MaxTokens,
    StopReason::ContentFilter,
    StopReason::Refusal,
    StopReason::Error,
    StopReason::Unknown,
];

fn result_schema() -> Schema {
    Schema::object(
        "the output",
        json!({"type": "object", "required": ["result"], "properties": {"result": {"type": "string"}}}),
    )
    .unwrap()
}

fn plan(result: &StepResult) -> helix_agents_core::step::StepProcessingPlan {
    plan_step_processing(result, PlanOptions::default())
}

fn plan_with_schema(result: &StepResult) -> helix_agents_core::step::StepProcessingPlan {
    let schema = result_schema();
    plan_step_processing(result, PlanOptions::new(Some(&schema)))
}

fn model_failure() -> StepResult {
    StepResult::failed(&ModelError::new(ModelErrorKind::Overloaded, "no room"))
}

/// Checks that the plan's message and settled results form a valid step.
fn assert_paired(plan: &helix_agents_core::step::StepProcessingPlan) {
    let message = plan.assistant_message.clone().unwrap();
    let mut transcript = Transcript::new();
    let step = PairedStep::new(message, plan.settled_results.clone()).unwrap();
    transcript.push_step(step).unwrap();
}

/// proves: STP-01
#[test]
fn a_reply_becomes_text_or_calls_and_should_stop_follows_from_the_reason() {
    let stops: Vec<_> = REASONS
        .into_iter()
        .filter(|reason| match text_step("Hello!", *reason) {
            StepResult::Text(step) => {
                assert_eq!(step.content(), "Hello!");
                assert_eq!(step.stop_reason, *reason);
                step.should_stop()
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let all_but_tool_use: Vec<_> = REASONS
        .into_iter()
        .filter(|reason| *reason != StopReason::ToolUse)
        .collect();
    assert_eq!(stops, all_but_tool_use);

    let message = AssistantMessage::new(vec![
        AssistantPart::Thinking(Thinking::new("hm").signed("sig")),
        AssistantPart::text("Both."),
        AssistantPart::ToolCall(call("s1", "subagent__summarizer", json!({"message": "x"}))),
        AssistantPart::ToolCall(call("t1", "search", json!({"query": "test"}))),
    ]);
    let StepResult::ToolCalls(step) = reply(message.clone(), StopReason::ToolUse) else {
        panic!("calls make a tool step");
    };
    assert_eq!(step.message, message, "the model's own order is kept");
    assert_eq!(
        step.tool_calls,
        [call("t1", "search", json!({"query": "test"}))]
    );
    let sub = SubAgentCall::new(call_id("s1"), "summarizer", json!({"message": "x"}));
    assert_eq!(step.sub_agent_calls, [sub]);

    let StepResult::Error(step) = model_failure() else {
        panic!("a failure is an error step");
    };
    assert!(step.should_stop);
    assert_eq!(step.error.code, ErrorCode::ProviderOverloaded);
}

/// proves: STP-02
#[test]
fn text_is_stored_and_ends_the_turn_unless_the_stop_reason_is_tool_use() {
    let going_on = plan(&text_step("Hello!", StopReason::ToolUse));
    assert_eq!(
        going_on.assistant_message,
        Some(AssistantMessage::text("Hello!"))
    );
    assert_eq!(going_on.status_update, None);
    assert!(!going_on.is_terminal);

    let done = plan(&text_step("Hello!", StopReason::EndTurn));
    assert!(done.is_terminal);
    assert_eq!(
        done.status_update,
        Some(StatusUpdate::Completed { output: None })
    );
    assert_eq!(done.stop_reason, Some(StopReason::EndTurn));
    assert_eq!(done.output, None);
}

/// proves: STP-02
#[test]
fn calls_are_pending_and_the_turn_continues() {
    let calls = vec![
        call("tc1", "search", json!({"query": "test"})),
        call("tc2", "fetch", json!({"url": "https://example.test"})),
        call("sc1", "subagent__writer", json!({"message": "hi"})),
    ];
    let plan = plan(&calls_step(calls.clone()));
    assert_eq!(plan.pending_tool_calls, calls[..2]);
    let sub = SubAgentCall::new(call_id("sc1"), "writer", json!({"message": "hi"}));
    assert_eq!(plan.pending_sub_agent_calls, [sub]);
    assert_eq!(plan.settled_results, []);
    assert_eq!(plan.status_update, None);
    assert!(!plan.is_terminal);
    let stored: Vec<_> = plan
        .assistant_message
        .as_ref()
        .unwrap()
        .tool_calls()
        .cloned()
        .collect();
    assert_eq!(stored, calls);
}

/// proves: STP-02
#[test]
fn native_output_is_stored_as_a_message_too() {
    let plan = plan_with_schema(&StepResult::structured_output(
        json!({"result": "done", "a": 1}),
    ));
    let text = r#"{"a":1,"result":"done"}"#;
    assert_eq!(plan.assistant_message, Some(AssistantMessage::text(text)));
    let output = Some(json!({"result": "done", "a": 1}));
    assert_eq!(plan.output, output);
    assert_eq!(plan.status_update, Some(StatusUpdate::Completed { output }));
    assert!(plan.is_terminal);

    let invalid = plan_with_schema(&StepResult::structured_output(json!({"result": 7})));
    assert!(!invalid.is_terminal);
    assert_eq!(
        invalid.assistant_message,
        Some(AssistantMessage::text(r#"{"result":7}"#))
    );
    assert!(matches!(
        invalid.correction,
        Some(Correction::Invalid { .. })
    ));
}

/// proves: STP-02
#[test]
fn an_error_fails_the_turn_and_stores_nothing() {
    let plan_ = plan(&model_failure());
    assert_eq!(plan_.assistant_message, None);
    assert!(plan_.is_terminal);
    let Some(StatusUpdate::Failed { error }) = plan_.status_update else {
        panic!("not failed");
    };
    assert_eq!(error.code, ErrorCode::ProviderOverloaded);

    let StepResult::Error(step) = model_failure() else {
        panic!("not an error");
    };
    let mut passing: ErrorStep = step;
    passing.should_stop = false;
    let plan_ = plan(&StepResult::Error(passing));
    assert_eq!((plan_.is_terminal, plan_.status_update), (false, None));
}

/// proves: STP-03, STP-04
#[test]
fn finish_ends_the_turn_with_its_validated_output() {
    let step = calls_step(vec![call("tc1", FINISH_TOOL, json!({"result": "done"}))]);
    for plan in [plan(&step), plan_with_schema(&step)] {
        let output = Some(json!({"result": "done"}));
        assert_eq!(plan.pending_tool_calls, []);
        assert_eq!(plan.output, output);
        assert_eq!(plan.status_update, Some(StatusUpdate::Completed { output }));
        assert!(plan.is_terminal);
        let acknowledged = ToolMessage::clone(&synthesize_finish_result(&call_id("tc1")));
        assert_eq!(acknowledged.content, r#"{"acknowledged":true}"#);
        assert_eq!(plan.settled_results, [acknowledged]);
        assert_paired(&plan);
    }
}

/// proves: STP-03
#[test]
fn calls_beside_finish_are_paired_and_never_pending() {
    let step = calls_step(vec![
        call("t1", "search", json!({})),
        call("f1", FINISH_TOOL, json!({"wrong": true})),
        call("s1", "subagent__writer", json!({})),
        call("f2", FINISH_TOOL, json!({"result": "second"})),
        call("f3", FINISH_TOOL, json!({"result": "third"})),
    ]);
    let plan = plan_with_schema(&step);
    assert_eq!(plan.pending_tool_calls, []);
    assert_eq!(plan.pending_sub_agent_calls, []);
    assert_eq!(
        plan.output,
        Some(json!({"result": "second"})),
        "the first valid one wins"
    );
    let outcome: Vec<_> = plan
        .settled_results
        .iter()
        .map(|result| (result.tool_call_id.as_str(), result.status))
        .collect();
    let expected = [
        ("t1", ResultStatus::NotExecuted),
        ("f1", ResultStatus::NotExecuted),
        ("s1", ResultStatus::NotExecuted),
        ("f2", ResultStatus::Success),
        ("f3", ResultStatus::NotExecuted),
    ];
    assert_eq!(outcome, expected);
    assert_paired(&plan);
}

/// proves: STP-03
#[test]
fn an_invalid_finish_executes_nothing_and_asks_again() {
    let step = calls_step(vec![
        call("t1", "search", json!({})),
        call("f1", FINISH_TOOL, json!({"result": 7})),
    ]);
    let plan = plan_with_schema(&step);
    assert_eq!(plan.pending_tool_calls, []);
    assert!(!plan.is_terminal);
    assert_eq!((&plan.output, &plan.status_update), (&None, &None));
    let Some(Correction::Invalid { errors }) = &plan.correction else {
        panic!("no correction");
    };
    assert_eq!(errors, &[r#"at `/result`: 7 is not of type "string""#]);
    let statuses: Vec<_> = plan.settled_results.iter().map(|r| r.status).collect();
    assert_eq!(statuses, [ResultStatus::NotExecuted, ResultStatus::Error]);
    assert!(plan.settled_results[1].content.contains("not of type"));
    assert_paired(&plan);

    let message = correction_message(plan.correction.as_ref().unwrap());
    assert!(message.is_hidden());
    assert!(message.content.contains("/result"), "{}", message.content);
}

#[test]
fn calls_of_a_reply_that_the_provider_cut_off_are_not_executed() {
    for (reason, code) in [
        (StopReason::ContentFilter, ErrorCode::ProviderContentFilter),
        (StopReason::Refusal, ErrorCode::ProviderRefusal),
        (StopReason::Error, ErrorCode::ProviderError),
    ] {
        let step = reply(calling(&["a", "b"]), reason);
        let plan = plan(&step);
        assert_eq!(plan.pending_tool_calls, []);
        assert!(plan.is_terminal);
        assert!(
            matches!(&plan.status_update, Some(StatusUpdate::Failed { error }) if error.code == code)
        );
        assert_paired(&plan);
        assert_eq!(
            stop_cause(&step, 1, &StopConfig::default()),
            Some(StopCause::Error)
        );
        assert_eq!(determine_final_status(&step), FinalStatus::Failed);
    }
    for reason in [StopReason::MaxTokens, StopReason::Unknown] {
        let plan = plan(&reply(calling(&["a"]), reason));
        assert_eq!(plan.pending_tool_calls.len(), 1, "{reason:?}");
    }
}

/// proves: STP-06
#[test]
fn stop_rules_are_checked_in_order() {
    let config = StopConfig::default().max_steps(3).stop_when(
        |result| matches!(result, StepResult::ToolCalls(step) if step.tool_calls.len() == 2),
    );
    let one_call = || reply(calling(&["a"]), StopReason::ToolUse);
    let two_calls = || reply(calling(&["a", "b"]), StopReason::ToolUse);
    let cases: [(StepResult, u32, Option<StopCause>); 8] = [
        (
            StepResult::structured_output(json!({})),
            1,
            Some(StopCause::StructuredOutput),
        ),
        (model_failure(), 1, Some(StopCause::Error)),
        (
            text_step("bye", StopReason::EndTurn),
            1,
            Some(StopCause::Text),
        ),
        (
            text_step("bye", StopReason::EndTurn),
            3,
            Some(StopCause::Text),
        ),
        (two_calls(), 1, Some(StopCause::StopWhen)),
        (two_calls(), 3, Some(StopCause::StopWhen)),
        (one_call(), 3, Some(StopCause::MaxSteps)),
        (one_call(), 2, None),
    ];
    for (result, steps, expected) in cases {
        assert_eq!(
            stop_cause(&result, steps, &config),
            expected,
            "{result:?} after {steps}"
        );
        assert_eq!(
            should_stop_execution(&result, steps, &config),
            expected.is_some()
        );
    }
    let unlimited = StopConfig::default().max_steps(None);
    assert_eq!(stop_cause(&one_call(), 1_000_000, &unlimited), None);
    let default = StopConfig::default();
    assert_eq!(stop_cause(&one_call(), 49, &default), None);
    assert_eq!(
        stop_cause(&one_call(), 50, &default),
        Some(StopCause::MaxSteps)
    );
}

/// proves: STP-07
#[test]
fn stop_reasons_map_to_completed_or_failed() {
    let failed: Vec<_> = REASONS
        .into_iter()
        .filter(|reason| determine_final_status(&text_step("x", *reason)) == FinalStatus::Failed)
        .collect();
    let expected = [
        StopReason::MaxTokens,
        StopReason::ContentFilter,
        StopReason::Refusal,
        StopReason::Error,
        StopReason::Unknown,
    ];
    assert_eq!(failed, expected);
    assert_eq!(
        determine_final_status(&model_failure()),
        FinalStatus::Failed
    );
    assert_eq!(
        determine_final_status(&StepResult::structured_output(Value::Null)),
        FinalStatus::Completed
    );

    let at_the_limit = reply(calling(&["a"]), StopReason::ToolUse);
    let cut = conclude(&at_the_limit, StopCause::MaxSteps, false);
    assert_eq!(
        cut,
        Conclusion::Failed {
            code: ErrorCode::MaxSteps
        }
    );
    let forced = conclude(&at_the_limit, StopCause::MaxSteps, true);
    assert_eq!(forced, Conclusion::ForcedCompletion);
    let own_rule = conclude(&at_the_limit, StopCause::StopWhen, false);
    assert_eq!(own_rule, Conclusion::Completed);
}

/// proves: STP-08
#[test]
fn a_missing_output_is_requested_again_only_if_that_can_help() {
    let recoverable: Vec<_> = REASONS
        .into_iter()
        .filter(|reason| is_recoverable_error_stop_reason(*reason))
        .collect();
    assert_eq!(recoverable, [StopReason::MaxTokens]);

    let corrections: Vec<_> = REASONS
        .into_iter()
        .map(|reason| plan_with_schema(&text_step("some text", reason)))
        .map(|plan| {
            (
                plan.correction,
                plan.is_terminal,
                plan.status_update.is_some(),
            )
        })
        .collect();
    let text = (Some(Correction::TextInsteadOfOutput), false, false);
    let fails = (None, true, true);
    let expected = [
        text.clone(),
        text,
        (None, false, false),
        (Some(Correction::Truncated), false, false),
        fails.clone(),
        fails.clone(),
        fails.clone(),
        fails,
    ];
    assert_eq!(corrections, expected);

    // Without a schema the same truncation is a failure.
    let plan = plan(&text_step("some te", StopReason::MaxTokens));
    assert!(
        matches!(plan.status_update, Some(StatusUpdate::Failed { error }) if error.code == ErrorCode::MaxTokens)
    );
}

/// proves: STP-09
#[test]
fn messages_are_built_in_the_documented_form() {
    let message = create_assistant_message(AssistantMessagePlan {
        content: Some("Both.".to_owned()),
        tool_calls: vec![call("t1", "search", json!({}))],
        sub_agent_calls: vec![SubAgentCall::new(
            call_id("s1"),
            "summarizer",
            json!({"a": 1}),
        )],
        thinking: vec![Thinking::new("hm")],
    });
    let expected = AssistantMessage::new(vec![
        AssistantPart::Thinking(Thinking::new("hm")),
        AssistantPart::text("Both."),
        AssistantPart::ToolCall(call("t1", "search", json!({}))),
        AssistantPart::ToolCall(call("s1", "subagent__summarizer", json!({"a": 1}))),
    ]);
    assert_eq!(message, expected);
    assert_eq!(message.content().as_deref(), Some("Both."));
    assert_eq!(message.thinking().count(), 1);

    let tool = |result| {
        create_tool_result_message(ToolResultInput {
            tool_call_id: call_id("tc1"),
            tool_name: "search".into(),
            result,
        })
    };
    let contents = [
        (
            tool(Ok(json!({"items": ["a", "b"]}))),
            r#"{"items":["a","b"]}"#,
            ResultStatus::Success,
        ),
        (
            tool(Ok(json!("plain \"text\""))),
            "plain \"text\"",
            ResultStatus::Success,
        ),
        (tool(Ok(json!("42"))), "42", ResultStatus::Success),
        (tool(Ok(json!(42))), "42", ResultStatus::Success),
        (
            tool(Err("no such order".to_owned())),
            r#"{"error":"no such order"}"#,
            ResultStatus::Error,
        ),
    ];
    for (message, content, status) in &contents {
        assert_eq!(
            (message.content.as_str(), message.status),
            (*content, *status)
        );
    }
    // A text that looks like a number is returned as a text.
    assert_eq!(contents[2].0.value(), json!("42"));
    assert_eq!(contents[3].0.value(), json!(42));

    let sub = create_sub_agent_result_message(SubAgentResultInput {
        tool_call_id: call_id("s1"),
        agent_type: "summarizer".to_owned(),
        result: Ok(json!({"summary": "short"})),
    });
    assert_eq!(sub.tool_name, "subagent__summarizer");
    assert_eq!(sub.content, r#"{"summary":"short"}"#);
}

/// proves: STP-10
#[test]
fn the_prompt_is_the_resolved_system_prompt_and_then_the_history() {
    #[derive(Default, serde::Deserialize)]
    struct Notes {
        notes: Vec<String>,
    }
    let mut history = Transcript::new();
    history.push_user(UserMessage::new("hi"));
    let state = json!({"notes": ["a", "b"]});

    let fixed = SystemPrompt::from("Be brief.");
    let dynamic =
        SystemPrompt::from_state(|state: &Notes| format!("You have {} notes.", state.notes.len()));
    for (prompt, text) in [(&fixed, "Be brief."), (&dynamic, "You have 2 notes.")] {
        let messages = build_messages_for_llm(&history, prompt, &state);
        let user = Message::User(UserMessage::new("hi"));
        let expected = [PromptMessage::System(text), PromptMessage::History(&user)];
        assert_eq!(messages.iter().collect::<Vec<_>>(), expected);
    }
    let wrong_shape = json!({"notes": "not a list"});
    let messages = build_messages_for_llm(&history, &dynamic, &wrong_shape);
    assert_eq!(messages.system(), "You have 0 notes.");
    let empty = SystemPrompt::from("");
    assert_eq!(
        build_messages_for_llm(&history, &empty, &state)
            .iter()
            .count(),
        1
    );
}

/// The plan takes precedence over the rules that stop a turn.
///
/// proves: STP-06
#[test]
fn the_next_action_follows_the_plan_before_the_stop_rules() {
    let config = StopConfig::default().max_steps(2);
    let next = |step: &StepResult, schema: bool, count: u32| {
        let plan = if schema {
            plan_with_schema(step)
        } else {
            plan(step)
        };
        next_action(&plan, step, count, &config)
    };
    let calls = || reply(calling(&["a"]), StopReason::ToolUse);
    assert_eq!(next(&calls(), false, 1), NextAction::Continue);
    let finish = calls_step(vec![call("f", FINISH_TOOL, json!({"result": "done"}))]);
    assert_eq!(
        next(&finish, true, 2),
        NextAction::Complete,
        "on the last allowed step"
    );
    let invalid = StepResult::structured_output(json!({"result": 7}));
    let NextAction::Correct(Correction::Invalid { .. }) = next(&invalid, true, 1) else {
        panic!("an output that is not valid does not end the turn");
    };
    let mut cut_off = StepResult::structured_output(json!({"result": "done"}));
    if let StepResult::StructuredOutput(step) = &mut cut_off {
        step.stop_reason = StopReason::MaxTokens;
    }
    assert_eq!(next(&cut_off, true, 1), NextAction::Complete);
    assert_eq!(determine_final_status(&cut_off), FinalStatus::Completed);
    let out_of_steps = NextAction::Correct(Correction::OutOfSteps);
    assert_eq!(next(&calls(), true, 2), out_of_steps);
    let NextAction::Fail(error) = next(&calls(), false, 2) else {
        panic!("a cut-off turn without an output schema fails");
    };
    assert_eq!(error.code, ErrorCode::MaxSteps);
    let NextAction::Fail(error) = next(&model_failure(), false, 1) else {
        panic!("a failed model call fails the turn");
    };
    assert_eq!(error.code, ErrorCode::ProviderOverloaded);
}

/// A custom loop that uses only the public functions.
///
/// proves: STP-11
#[test]
fn a_loop_can_be_written_with_the_public_functions() {
    let mut transcript = Transcript::new();
    transcript.push_user(UserMessage::new("add 1 and 2"));
    let mut script = vec![
        calls_step(vec![call("c1", "t", json!({"a": 1, "b": 2}))]),
        text_step("it is 3", StopReason::EndTurn),
        calls_step(vec![call("f1", FINISH_TOOL, json!({"result": 3}))]),
        calls_step(vec![call("f2", FINISH_TOOL, json!({"result": "3"}))]),
    ]
    .into_iter();
    let config = StopConfig::default();
    let prompt = SystemPrompt::from("Add.");
    let (mut steps, mut corrections) = (0, 0);
    let output = loop {
        steps += 1;
        let shown = build_messages_for_llm(&transcript, &prompt, &Value::Null);
        assert_eq!(shown.iter().count(), transcript.len() + 1);
        let step = script.next().expect("the loop stops by itself");
        let plan = plan_with_schema(&step);
        let pending = plan.pending_tool_calls.iter();
        let results: Vec<_> = pending
            .map(|call| result(call.id.as_str()))
            .chain(plan.settled_results.clone())
            .collect();
        let message = plan.assistant_message.clone().unwrap();
        let paired = PairedStep::new(message, results).unwrap();
        transcript.push_step(paired).unwrap();
        match next_action(&plan, &step, steps, &config) {
            NextAction::Continue => {}
            NextAction::Correct(correction) => {
                corrections += 1;
                transcript.push_user(correction_message(&correction));
            }
            NextAction::Complete => break plan.output,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(output, Some(json!({"result": "3"})));
    assert_eq!((steps, corrections, transcript.len()), (4, 2, 10));
}
