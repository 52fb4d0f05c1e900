//! The end of a turn: outputs, forced completion, limits and rules.

use std::sync::Arc;

use helix_agents_core::error::ErrorCode;
use helix_agents_core::model::ToolChoice;
use helix_agents_core::session::RunStatus;
use helix_agents_core::step::{FINISH_TOOL, StepResult, StopCause, StopReason};
use serde_json::{Value, json};

use super::agents::{Log, agent, answer_schema, browser, calling, noted, of_model, tool};
use super::{MockReply, RuntimeSubject};
use crate::MockModel;

const ASKED_AGAIN: &str =
    "\nGive the final output now, and nothing else. It must match the output schema exactly.";

fn finish(id: &'static str, output: Value) -> MockReply {
    MockReply::calls([(id, FINISH_TOOL, output)])
}

/// A valid `__finish__` ends the turn. Every other call of the reply is paired and none is run; of
/// two valid ones the first counts.
///
/// proves in part: STP-03
pub async fn a_final_output_ends_the_turn_beside_other_calls(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [MockReply::calls([
        ("c1", "noted", json!({})),
        ("f1", FINISH_TOOL, json!({ "answer": "not a number" })),
        ("c2", "browser", json!({})),
        ("f2", FINISH_TOOL, json!({ "answer": 2 })),
        ("c3", "pay", json!({})),
        ("f3", FINISH_TOOL, json!({ "answer": 3 })),
    ])];
    let tools = [
        noted("noted", &log),
        browser("browser"),
        noted("pay", &log).approval(),
    ];
    let agent = agent(replies)
        .tools(tools)
        .output_schema(answer_schema())
        .build()
        .unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::Completed);
    assert_eq!(run.completion_reason, Some(StopCause::StructuredOutput));
    assert_eq!(run.output, Some(json!({ "answer": 2 })));
    assert_eq!(log.take(), [""; 0]);
    assert_eq!(on.pending().await, []);
    // Readers are shown the output, not how it was given.
    let shown = on.payloads().await;
    let names = shown.iter().map(super::lines::named);
    let argued: Vec<_> = names
        .filter(|name| name.starts_with("tool_arg_stream_start"))
        .collect();
    let wanted = ["c1", "c2", "c3"].map(|id| format!("tool_arg_stream_start {id}"));
    assert_eq!(argued, wanted);
    let why = "the turn ended with the final output in the same reply.";
    let not = |id: &str| format!(r#"{id}=not_executed: {{"error":"Not executed: {why}"}}"#);
    assert_eq!(
        on.transcript_lines().await[2..],
        [
            not("c1"),
            not("f1"),
            not("c2"),
            r#"f2=success: {"acknowledged":true}"#.to_owned(),
            not("c3"),
            not("f3"),
        ]
    );
    let output = helix_agents_core::stream::ChunkPayload::Output {
        output: json!({ "answer": 2 }),
    };
    assert!(on.payloads().await.contains(&output));
}

/// An invalid output runs nothing. The model reads what was wrong and must give another, outside
/// the limit of steps. The rejected reply stays in the history.
///
/// proves in part: STP-03, STP-08
pub async fn an_invalid_output_is_asked_for_again(on: &RuntimeSubject) {
    let log = Log::default();
    let model = Arc::new(MockModel::replies([
        MockReply::calls([
            ("c1", "noted", json!({})),
            ("f1", FINISH_TOOL, json!({ "answer": "one" })),
        ]),
        calling([("c2", "noted")]),
        finish("f2", json!({ "answer": 2 })),
    ]));
    let agent = of_model(&model)
        .tools(noted("noted", &log))
        .output_schema(answer_schema())
        .max_steps(1)
        .build()
        .unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::Completed);
    assert_eq!(run.output, Some(json!({ "answer": 2 })));
    assert_eq!((run.step_count, run.corrections), (3, 2));
    assert_eq!(log.take(), [""; 0], "nothing else is run meanwhile");
    let forced = ToolChoice::Tool(FINISH_TOOL.to_owned());
    let choices: Vec<_> = model.seen().into_iter().map(|it| it.tool_choice).collect();
    assert_eq!(choices, [ToolChoice::Auto, forced.clone(), forced]);
    let told = on.transcript_lines().await;
    assert_eq!(
        told[1],
        r#"assistant: c1=noted{} f1=__finish__{"answer":"one"}"#
    );
    assert_eq!(
        told[2],
        r#"c1=not_executed: {"error":"Not executed: the final output in the same reply was not valid."}"#
    );
    assert!(told[3].starts_with(r#"f1=error: {"error":"#), "{}", told[3]);
    assert!(told[4].starts_with("hidden: The final output is not valid:\n- "));
    assert!(told[4].ends_with(ASKED_AGAIN));
    assert_eq!(
        told[5..],
        [
            "assistant: c2=noted{}".to_owned(),
            r#"c2=not_executed: {"error":"Not executed: only the final output is accepted now."}"#
                .to_owned(),
            format!("hidden: Your reply did not contain the final output.{ASKED_AGAIN}"),
            r#"assistant: f2=__finish__{"answer":2}"#.to_owned(),
            r#"f2=success: {"acknowledged":true}"#.to_owned(),
        ]
    );
}

/// A text, a reply that was cut off for length, and the limit of steps all lead to a forced output.
///
/// proves in part: STP-08
pub async fn an_output_that_is_owed_is_asked_for(on: &RuntimeSubject) {
    let replies = [
        MockReply::text("I think it is one."),
        finish("f1", json!({ "answer": 1 })),
        MockReply::text("Well, as").with_stop_reason(StopReason::MaxTokens),
        finish("f2", json!({ "answer": 2 })),
        calling([("c1", "noted")]),
        calling([("c2", "noted")]),
        finish("f3", json!({ "answer": 3 })),
    ];
    let log = Log::default();
    let agent = agent(replies)
        .tools(noted("noted", &log))
        .output_schema(answer_schema())
        .max_steps(2)
        .build()
        .unwrap();
    for (answer, steps, why) in [
        (1, 2, "Your reply did not contain the final output."),
        (
            2,
            2,
            "Your reply was cut off because it was too long. Leave out explanations.",
        ),
        (3, 3, "There are no more steps for tool calls."),
    ] {
        let run = on.turn(&agent, "go").await;
        assert_eq!(run.output, Some(json!({ "answer": answer })));
        assert_eq!((run.step_count, run.corrections), (steps, 1));
        let told = on.transcript_lines().await;
        let asked = format!("hidden: {why}{ASKED_AGAIN}");
        assert_eq!(told.iter().filter(|line| **line == asked).count(), 1);
    }
    assert_eq!(log.take(), ["noted c1 {}", "noted c2 {}"]);
}

/// A provider with native structured output is asked for it; the history stores a message with the
/// canonical JSON.
pub async fn a_native_output_is_kept_as_a_message(on: &RuntimeSubject) {
    let model = MockModel::replies([
        MockReply::text("soon"),
        MockReply::text(r#"{ "answer" : 1 }"#),
    ]);
    let model = Arc::new(model.with_native_output());
    let agent = of_model(&model)
        .output_schema(answer_schema())
        .build()
        .unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.output, Some(json!({ "answer": 1 })));
    let how = model.seen().into_iter();
    let how = how.map(|it| (it.native_output, it.tool_choice));
    assert_eq!(
        how.collect::<Vec<_>>(),
        [(false, ToolChoice::Auto), (true, ToolChoice::None)]
    );
    let told = on.transcript_lines().await;
    assert_eq!(told.last().unwrap(), r#"assistant: {"answer":1}"#);
}

/// A model that gives no valid output within its attempts fails the turn.
pub async fn an_output_that_never_comes_fails_the_turn(on: &RuntimeSubject) {
    let model = Arc::new(MockModel::replies([
        MockReply::text("no"),
        finish("f1", json!({})),
        MockReply::text("no"),
        MockReply::text("never asked"),
    ]));
    let agent = of_model(&model)
        .output_schema(answer_schema())
        .build()
        .unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!((run.status, run.output), (RunStatus::Failed, None));
    let error = run.error.expect("it says why");
    assert_eq!(error.code, ErrorCode::OutputInvalid);
    assert_eq!((model.seen().len(), run.corrections), (3, 2));
    assert_eq!(on.transcript_lines().await.last().unwrap(), "assistant: no");
}

/// A turn that reaches its limit of steps fails, with all its steps in the history; the user's own
/// stop rule is applied first.
pub async fn the_limit_of_steps_fails_the_turn_unless_the_rule_ends_it(on: &RuntimeSubject) {
    let replies = || (1..=3).map(|_| calling([("call", "noted")]));
    let log = Log::default();
    let limited = agent(replies()).tools(noted("noted", &log)).max_steps(2);
    let run = on.turn(&limited.build().unwrap(), "go").await;
    assert_eq!((run.status, run.step_count), (RunStatus::Failed, 2));
    assert_eq!(run.completion_reason, Some(StopCause::MaxSteps));
    let error = run.error.expect("it says why");
    assert_eq!(error.code, ErrorCode::MaxSteps);
    assert_eq!(
        on.transcript_lines().await.last().unwrap(),
        "call_2=success: done"
    );
    assert_eq!(log.take().len(), 2);

    let ruled = agent(replies())
        .tools(noted("noted", &log))
        .max_steps(1)
        .stop_when(|result| matches!(result, StepResult::ToolCalls(_)));
    let run = on.turn(&ruled.build().unwrap(), "again").await;
    assert_eq!((run.status, run.step_count), (RunStatus::Completed, 1));
    assert_eq!(run.completion_reason, Some(StopCause::StopWhen));
    assert_eq!(log.take().len(), 1, "the calls of that step are run");
}

/// A reply that its provider cut off runs nothing, and every call of it is paired.
pub async fn a_reply_that_was_cut_off_runs_nothing(on: &RuntimeSubject) {
    let reasons = [
        (StopReason::ContentFilter, ErrorCode::ProviderContentFilter),
        (StopReason::Refusal, ErrorCode::ProviderRefusal),
        (StopReason::Error, ErrorCode::ProviderError),
    ];
    let replies = reasons.map(|(reason, _)| {
        let calls = [("call", "noted"), ("other", "browser")];
        calling(calls).with_stop_reason(reason)
    });
    let log = Log::default();
    let tools = [noted("noted", &log), browser("browser")];
    let agent = agent(replies).tools(tools).build().unwrap();
    for (_, code) in reasons {
        let run = on.turn(&agent, "go").await;
        assert_eq!(run.status, RunStatus::Failed);
        assert_eq!(run.error.expect("it says why").code, code);
    }
    assert_eq!(log.take(), [""; 0]);
    assert_eq!(on.pending().await, []);
    let told = on.transcript_lines().await;
    let paired = told.iter().filter(|line| {
        line.ends_with(
            r#"=not_executed: {"error":"Not executed: the reply was cut off by the model's provider."}"#,
        )
    });
    assert_eq!(paired.count(), 6);
}

/// An agent with an output schema offers the model `__finish__`, and a `finish_with` tool ends the
/// turn with its result if that fits the schema.
///
/// proves: AGT-04
pub async fn an_agent_with_an_output_has_ways_to_give_it(on: &RuntimeSubject) {
    let model = Arc::new(MockModel::replies([
        MockReply::calls([("c1", "report", json!({ "answer": "one" }))]),
        MockReply::calls([("c2", "report", json!({ "answer": 2 }))]),
        finish("f1", json!({ "answer": 3 })),
    ]));
    let report = tool("report", async |arguments, _| Ok(arguments)).finish_with();
    let agent = of_model(&model)
        .tools(report)
        .output_schema(answer_schema())
        .build()
        .unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::Completed);
    assert_eq!(run.output, Some(json!({ "answer": 2 })));
    let told = on.transcript_lines().await;
    let wrong = r#"c1=error: {"error":"The result does not fit the output schema: "#;
    assert!(told[2].starts_with(wrong), "{}", told[2]);
    assert_eq!(told.last().unwrap(), r#"c2=success: {"answer":2}"#);
    let run = on.turn(&agent, "again").await;
    assert_eq!(run.output, Some(json!({ "answer": 3 })));
    for seen in model.seen() {
        assert_eq!(seen.tools, ["report", FINISH_TOOL]);
    }
}
