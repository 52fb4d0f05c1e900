//! The events that the framework emits through `tracing`.

use std::process::Command;
use std::sync::Arc;

use helix_agents_core::Agent;
use helix_agents_core::entries::ExecuteRequest;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::{RunOptions, Runtime};
use helix_agents_core::session::RunRecord;
use helix_agents_core::tool::{Tool, ToolCx, ToolError};
use helix_agents_core::{SessionId, ToolResult};
use helix_agents_testkit::{Events, MockModel, MockReply, ThreadRuntime, block_on};
use serde_json::{Value, json};

/// A turn in which a tool fails.
fn turn(session: &str) -> RunRecord {
    let model = MockModel::replies([
        MockReply::calls([("c1", "fails", json!({}))]),
        MockReply::text("done"),
    ]);
    let fails = Tool::raw(
        "fails",
        "Fails.",
        json!({ "type": "object" }),
        |_: Value, _: ToolCx| async {
            let failed: ToolResult<Value> = Err(ToolError::tell_model("it is broken"));
            failed
        },
    );
    let agent = Agent::builder("agent").model(Arc::new(model)).tools(fails);
    let agent = agent.build().unwrap();
    let runtime = ThreadRuntime::new(MemoryStore::new());
    runtime.agents().keep(&agent).unwrap();
    let request = ExecuteRequest::new(&agent, "go").in_session(SessionId::new(session).unwrap());
    block_on(async {
        let run = runtime.start(request, RunOptions::default()).await.unwrap();
        runtime.ended(&run).await.unwrap()
    })
}

const CHILD: &str = "HELIX_TEST_A_TURN_THAT_NOBODY_LISTENS_TO";

/// Events have names and fields; without a subscriber, nothing is printed.
///
/// proves: LOG-01
#[test]
fn events_are_structured_and_silent_by_default() {
    if std::env::var_os(CHILD).is_some() {
        turn("unheard");
        return;
    }
    let events = Events::of_this_process().unwrap();
    let run = turn("heard");
    let seen = block_on(events.until(5, "session", "heard"));
    let names: Vec<_> = seen.iter().map(|event| event.name()).collect();
    assert_eq!(
        names,
        [
            "model.replied",
            "tool.failed",
            "step.committed",
            "model.replied",
            "step.committed",
        ]
    );
    for event in seen.iter().filter(|event| event.name() != "tool.failed") {
        assert_eq!(event.fields["run"], run.id.as_str());
    }
    let failed = &seen[1].fields;
    assert_eq!(
        (failed["call"].as_str(), failed["tool"].as_str()),
        ("c1", "fails")
    );
    assert_eq!(failed["detail"], "it is broken");

    // The same turn in a process without a subscriber.
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "logs::events_are_structured_and_silent_by_default",
            "--exact",
            "--nocapture",
        ])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let printed = String::from_utf8(child.stdout).unwrap();
    let lines: Vec<_> = printed.lines().filter(|line| !line.is_empty()).collect();
    assert!(child.status.success());
    assert_eq!(String::from_utf8(child.stderr).unwrap(), "");
    assert_eq!(lines.len(), 3, "only the harness speaks: {lines:?}");
    assert!(printed.contains("1 passed"));
}
