//! The loop and its effects, driven by the simplest host.

/// Runs that are taken over.
mod fences;
/// Randomly generated runs, replayed and with repeated events.
mod replay;
/// Tables of states, events and the effects that follow.
mod table;

use std::sync::Arc;

use helix_agents_core::agent::AgentRegistry;
use helix_agents_core::entries::{Entries, ExecuteRequest, Performer};
use helix_agents_core::machine::AgentLimits;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::perform::Ports;
use helix_agents_core::session::RunStatus;
use helix_agents_core::store::{Page, SessionStore};
use helix_agents_core::time::Timestamp;
use helix_agents_core::tool::{Tool, ToolCx};
use helix_agents_core::{Agent, SessionId, ToolResult};
use helix_agents_testkit::{MockModel, MockReply, SequentialIds, VirtualClock, block_on, drive};
use serde_json::{Value, json};

/// The limits of an agent that sets none.
fn facts() -> AgentLimits {
    serde_json::from_value(json!({
        "maxSteps": 50, "maxCompletionRetries": 2, "modelRetries": 3,
    }))
    .unwrap()
}

/// Returns the object with some of its keys set.
fn with(mut base: Value, keys: Value) -> Value {
    let (Value::Object(all), Value::Object(keys)) = (&mut base, keys) else {
        panic!("both are objects");
    };
    all.extend(keys);
    base
}

#[test]
fn a_turn_with_a_tool_ends_completed() {
    let store = MemoryStore::new();
    let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(1_000)).auto_advance());
    let ids = Arc::new(SequentialIds::new());
    let agents = Arc::new(AgentRegistry::new());
    let model = MockModel::replies([
        MockReply::calls([("c1", "add", json!({"a": 1}))]),
        MockReply::text("done"),
        MockReply::calls([("c1", "add", json!({"a": 1}))]),
        MockReply::text("done"),
    ]);
    let agent = Agent::builder("t")
        .model(Arc::new(model) as Arc<dyn helix_agents_core::model::Model>)
        .system_prompt("x")
        .tools(Tool::raw(
            "add",
            "adds",
            json!({"type":"object"}),
            |args: Value, cx: ToolCx| async move {
                cx.edit_state(|draft| draft.set("/seen", true))?;
                let result: ToolResult<Value> = Ok(args);
                result
            },
        ))
        .build()
        .unwrap();
    agents.register(&agent).unwrap();
    for remembering in [false, true] {
        let mut ports = Ports::new(
            Arc::new(store.clone()),
            Arc::new(store.clone()),
            clock.clone(),
            ids.clone(),
            agents.clone(),
        );
        if remembering {
            ports = ports.remembering();
        }
        let entries = Entries::new(
            Arc::new(store.clone()),
            Arc::new(store.clone()),
            clock.clone(),
            ids.clone(),
        );
        block_on(async {
            let session = SessionId::new(format!("s{remembering}")).unwrap();
            let execute = ExecuteRequest::new(&agent, "hello").in_session(session.clone());
            let state = entries
                .execute(execute, &Performer::new("test"))
                .await
                .unwrap();
            let state = drive(&AgentLimits::of(&agent), state, &ports)
                .await
                .unwrap();
            assert_eq!(state.ended, Some(RunStatus::Completed));
            let messages = store.messages(session.as_root(), Page::ALL).await.unwrap();
            assert_eq!(messages.total, 4);
        });
    }
}
