//! Results of calls, and the text that the model reads of them.

use std::time::Duration;

use helix_agents_core::error::ErrorCode;
use helix_agents_core::message::Message;
use helix_agents_core::session::{EffectState, RunStatus};
use helix_agents_core::tool::ToolError;
use serde_json::json;

use super::agents::{Gate, Log, agent, browser, calling, echo, gated, noted, tool};
use super::{MockReply, RuntimeSubject};

/// A text is stored as it is; any other result is written as canonical JSON.
pub async fn a_text_is_a_result_as_it_is(on: &RuntimeSubject) {
    let replies = [
        calling([("c1", "text"), ("c2", "value"), ("c3", "null")]),
        MockReply::text("done"),
    ];
    let tools = [
        tool("text", async |_, _| Ok(json!("line \"one\"\nline two"))),
        tool("value", async |_, _| {
            Ok(json!({ "b": [1, 2.5], "a": null }))
        }),
        tool("null", async |_, _| Ok(json!(null))),
    ];
    let agent = agent(replies).tools(tools).build().unwrap();
    on.turn(&agent, "go").await;
    let messages = on.messages().await;
    let results = messages.iter().filter_map(|message| match message {
        Message::Tool(result) => Some((result.content.as_str(), result.verbatim)),
        _ => None,
    });
    let results: Vec<_> = results.collect();
    assert_eq!(
        results,
        [
            ("line \"one\"\nline two", true),
            (r#"{"a":null,"b":[1,2.5]}"#, false),
            ("null", false),
        ]
    );
}

/// The model reads that a tool failed or panicked; the text is general unless the tool chose it.
pub async fn the_model_reads_a_failure(on: &RuntimeSubject) {
    let replies = [
        calling([("c1", "chosen"), ("c2", "question"), ("c3", "panics")]),
        MockReply::text("done"),
    ];
    let tools = [
        tool("chosen", async |_, _| {
            Err(ToolError::tell_model("order ids look like `42`"))
        }),
        tool("question", async |_, _| {
            let number: i64 = "secret".parse()?;
            Ok(json!(number))
        }),
        tool("panics", async |_, _| panic!("secret")),
    ];
    let agent = agent(replies).tools(tools).build().unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::Completed);
    assert_eq!(
        on.transcript_lines().await,
        [
            "user: go",
            "assistant: c1=chosen{} c2=question{} c3=panics{}",
            r#"c1=error: {"error":"order ids look like `42`"}"#,
            r#"c2=error: {"error":"The tool failed."}"#,
            r#"c3=error: {"error":"The tool failed."}"#,
            "assistant: done",
        ]
    );
}

/// The model reads that a tool is unknown, or that arguments do not fit, and nothing runs.
pub async fn the_model_reads_why_a_call_cannot_run(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [
        MockReply::calls([
            ("c1", "nobody", json!({})),
            ("c2", "strict", json!({ "n": "one" })),
            ("c3", "strict", json!({ "n": 3 })),
        ]),
        MockReply::text("done"),
    ];
    let schema = json!({
        "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"],
    });
    let noting = log.clone();
    let strict = helix_agents_core::Tool::raw("strict", "Wants a number.", schema, {
        move |arguments: serde_json::Value, _| {
            noting.note(arguments.to_string());
            async { Ok(json!("done")) }
        }
    });
    let agent = agent(replies).tools(strict).build().unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::Completed);
    assert_eq!(log.take(), [r#"{"n":3}"#]);
    let told = on.transcript_lines().await;
    assert_eq!(
        told[2],
        r#"c1=error: {"error":"There is no tool named nobody. Use one of: strict."}"#
    );
    let wrong = r#"c2=error: {"error":"the arguments of strict are not valid: "#;
    assert!(told[3].starts_with(wrong), "{}", told[3]);
    assert_eq!(told[4], "c3=success: done");
}

/// A fatal error ends the run; results of calls that ran are kept, and every call is paired.
pub async fn a_fatal_error_ends_the_run_with_every_call_paired(on: &RuntimeSubject) {
    let gate = Gate::default();
    let at = gate.clone();
    let fatal = tool("fatal", move |_, _| {
        let gate = at.clone();
        async move {
            // The sibling has begun, and ends after this.
            gate.reached(1).await;
            gate.open();
            Err(ToolError::fatal("the disk is gone"))
        }
    });
    let log = Log::default();
    let replies = [calling([
        ("c1", "gated"),
        ("c2", "fatal"),
        ("c3", "browser"),
        ("c4", "last"),
    ])];
    let tools = [
        gated("gated", &gate),
        fatal,
        browser("browser"),
        noted("last", &log).finish_with(),
    ];
    let agent = agent(replies).tools(tools).build().unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::Failed);
    let error = run.error.expect("it says why");
    assert_eq!(error.code, ErrorCode::ToolFatal);
    assert_eq!(error.detail, "the disk is gone");
    assert_eq!(log.take(), [""; 0]);
    assert_eq!(on.pending().await, []);
    assert_eq!(
        on.transcript_lines().await,
        [
            "user: go",
            "assistant: c1=gated{} c2=fatal{} c3=browser{} c4=last{}",
            "c1=success: done",
            r#"c2=error: {"error":"The tool failed."}"#,
            r#"c3=not_executed: {"error":"Not executed: the run ended before it."}"#,
            r#"c4=not_executed: {"error":"Not executed: the run ended before it."}"#,
        ]
    );
}

/// The model reads that a tool timed out; whether the call took effect is known only for repeatable
/// tools.
pub async fn a_tool_that_takes_too_long_is_given_up(on: &RuntimeSubject) {
    let never = Gate::default();
    let wait = Duration::from_millis(20);
    let replies = [
        calling([("c1", "slow"), ("c2", "reads"), ("c3", "quick")]),
        MockReply::text("done"),
    ];
    let tools = [
        gated("slow", &never).timeout(wait),
        gated("reads", &never).timeout(wait).read_only(),
        echo("quick").timeout(Duration::from_secs(3600)),
    ];
    let agent = agent(replies).tools(tools).build().unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::Completed);
    let told = on.transcript_lines().await;
    assert_eq!(
        told[2..5],
        [
            r#"c1=unknown: {"error":"The tool did not finish within 20 ms. The outcome is unknown. The call may or may not have taken effect. Do not repeat it before checking."}"#,
            r#"c2=error: {"error":"The tool did not finish within 20 ms."}"#,
            "c3=success: {}",
        ]
    );
}

/// Call ids that a provider repeats get a number, within a reply, a turn and across turns, and are
/// the same everywhere they are shown.
pub async fn a_repeated_call_id_gets_a_number(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [
        calling([("call", "noted"), ("call", "noted")]),
        calling([("call", "noted")]),
        MockReply::text("one"),
        calling([("call", "browser")]),
        MockReply::text("two"),
    ];
    let tools = [noted("noted", &log), browser("browser")];
    let agent = agent(replies).tools(tools).build().unwrap();
    on.turn(&agent, "one").await;
    let mut ran = log.take();
    ran.sort();
    assert_eq!(ran, ["noted call {}", "noted call_2 {}", "noted call_3 {}"]);
    on.turn(&agent, "two").await;
    on.answered(on.waiting("call_4").await.result("here")).await;
    on.resumed().await;
    assert_eq!(
        on.transcript_lines().await,
        [
            "user: one",
            "assistant: call=noted{} call_2=noted{}",
            "call=success: done",
            "call_2=success: done",
            "assistant: call_3=noted{}",
            "call_3=success: done",
            "assistant: one",
            "user: two",
            "assistant: call_4=browser{}",
            "call_4=success: here",
            "assistant: two",
        ]
    );
    let names: Vec<_> = on
        .payloads()
        .await
        .iter()
        .map(super::lines::named)
        .collect();
    for id in ["call", "call_2", "call_3", "call_4"] {
        for kind in ["tool_arg_stream_start", "tool_start", "tool_end"] {
            let name = format!("{kind} {id}");
            let count = names.iter().filter(|found| **found == name).count();
            assert_eq!(count, 1, "{name}");
        }
    }
}

/// A call that was abandoned and may have taken effect stays unknown for as long as its step is
/// open.
pub async fn a_call_that_was_given_up_stays_unknown(on: &RuntimeSubject) {
    let gate = Gate::default();
    let slow = gated("slow", &gate).timeout(Duration::from_millis(20));
    let agent = agent([calling([("c1", "slow"), ("c2", "browser")])])
        .tools([slow, browser("browser")])
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    let open = on.snapshot().await.open_step.expect("its step is open");
    let effect = open.calls[0].effect.as_ref().expect("it was ours to run");
    assert_eq!(effect.state, EffectState::Unknown);
    gate.open();
}
