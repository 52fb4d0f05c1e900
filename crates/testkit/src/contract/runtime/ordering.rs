//! The order in which calls are run, and in which their results are reported.

use helix_agents_core::session::RunStatus;
use helix_agents_core::tool::ToolError;
use serde_json::json;

use super::agents::{Gate, Log, agent, browser, calling, tool};
use super::{MockReply, RuntimeSubject};

/// A tool that increments a counter in the state, after waiting at a gate.
fn counting(name: &str, gate: &Gate) -> helix_agents_core::tool::ToolBuilder {
    let gate = gate.clone();
    tool(name, move |_, cx| {
        let gate = gate.clone();
        async move {
            gate.pass().await;
            cx.edit_state(|draft| draft.increment("/count", 1))?;
            Ok(json!("counted"))
        }
    })
}

/// A `finish_with` tool that logs the state it sees, and fails on request.
fn last(name: &'static str, log: &Log) -> helix_agents_core::tool::ToolBuilder {
    let log = log.clone();
    tool(name, move |arguments, cx| {
        let log = log.clone();
        async move {
            let state = cx.state().get()?;
            log.note(format!("{} sees {state}", cx.call_id()));
            cx.edit_state(|draft| draft.increment("/count", 10))?;
            match arguments.get("fails") {
                Some(_) => Err(ToolError::tell_model("not yet")),
                None => Ok(json!({ "by": cx.call_id() })),
            }
        }
    })
    .finish_with()
}

/// Regular calls run at the same time. Calls that may finish the turn run after all of them, one by
/// one, and see their state changes, also across a pause. The first that succeeds is the output and
/// the later ones are not run; the error of one that fails goes to the model.
///
/// proves: ORD-01
pub async fn finishing_calls_come_last_and_one_by_one(on: &RuntimeSubject) {
    let (gate, log) = (Gate::default(), Log::default());
    let replies = [
        MockReply::calls([
            ("f1", "last", json!({ "fails": true })),
            ("c1", "count", json!({})),
            ("c2", "count", json!({})),
        ]),
        calling([
            ("f2", "last"),
            ("c3", "browser"),
            ("f3", "last"),
            ("c4", "count"),
        ]),
    ];
    let tools = [
        counting("count", &gate),
        last("last", &log),
        browser("browser"),
    ];
    let agent = agent(replies)
        .tools(tools)
        .initial_state(json!({ "count": 0 }))
        .build()
        .unwrap();
    let run = on.start(&agent, "go").await;
    // Both have begun before either ends, and the other one has not.
    gate.reached(2).await;
    assert_eq!(log.take(), [""; 0]);
    gate.open();

    let paused = on.ended(&run).await;
    assert_eq!(paused.status, RunStatus::SuspendedStepPartial);
    assert_eq!(log.take(), [r#"f1 sees {"count":2}"#]);
    assert_eq!(
        on.state().await,
        json!({ "count": 13 }),
        "what is finished is kept"
    );
    on.answered(on.waiting("c3").await.result("here")).await;
    let run = on.restarted().await.resumed().await;
    assert_eq!(log.take(), [r#"f2 sees {"count":13}"#]);
    assert_eq!(run.status, RunStatus::Completed);
    assert_eq!(run.output, Some(json!({ "by": "f2" })));
    assert_eq!(on.state().await, json!({ "count": 23 }));
    assert_eq!(
        on.transcript_lines().await,
        [
            "user: go",
            r#"assistant: f1=last{"fails":true} c1=count{} c2=count{}"#,
            r#"f1=error: {"error":"not yet"}"#,
            "c1=success: counted",
            "c2=success: counted",
            "assistant: f2=last{} c3=browser{} f3=last{} c4=count{}",
            r#"f2=success: {"by":"f2"}"#,
            "c3=success: here",
            r#"f3=not_executed: {"error":"Not executed: another call of the same reply ended the turn."}"#,
            "c4=success: counted",
        ]
    );
}

/// Results are stored in the model's order, whatever order they arrived in.
///
/// proves: ORD-04
pub async fn results_stand_in_the_models_order(on: &RuntimeSubject) {
    // Each call waits for the one after it in the model's order.
    let gates: Vec<Gate> = (0..4).map(|_| Gate::default()).collect();
    let log = Log::default();
    let (waits, noting) = (gates.clone(), log.clone());
    let chained = tool("chained", move |arguments, cx| {
        let (gates, log) = (waits.clone(), noting.clone());
        async move {
            let at = arguments.get("at").and_then(serde_json::Value::as_u64);
            let at = usize::try_from(at.unwrap_or(0)).unwrap_or(0);
            if let Some(next) = gates.get(at) {
                next.pass().await;
            }
            log.note(cx.call_id().as_str());
            Ok(json!(at))
        }
    });
    let call = |id, at: usize| (id, "chained", json!({ "at": at }));
    let replies = [
        MockReply::calls([call("c0", 0), call("c1", 1), call("c2", 2), call("c3", 3)]),
        MockReply::text("done"),
    ];
    let agent = agent(replies).tools(chained).build().unwrap();
    let run = on.start(&agent, "go").await;
    for gate in gates.iter().rev() {
        gate.reached(1).await;
    }
    for (done, gate) in gates.iter().enumerate().rev() {
        gate.open();
        if done == 0 {
            break;
        }
        // The one before is let go when this one's result is durable.
        on.until_told(&format!("tool_end c{done}")).await;
    }
    on.ended(&run).await;
    assert_eq!(log.take(), ["c3", "c2", "c1", "c0"]);
    assert_eq!(
        on.transcript_lines().await[2..6],
        [
            "c0=success: 0",
            "c1=success: 1",
            "c2=success: 2",
            "c3=success: 3"
        ]
    );
}
