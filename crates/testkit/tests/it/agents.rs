//! Crash tests of an agent as a user has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use helix_agents_core::Agent;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::RuntimeExt;
use helix_agents_core::tool::{Tool, ToolBuilder};
use helix_agents_testkit::crash::CrashTest;
use helix_agents_testkit::{EveryTool, MockModel, ThreadRuntime, block_on};
use serde_json::{Value, json};

/// A tool that counts its calls, and refuses what its schema does not allow.
fn counted(name: &str, schema: Value, count: &Arc<AtomicUsize>) -> ToolBuilder {
    let count = Arc::clone(count);
    Tool::raw(name, "Counts.", schema, move |arguments: Value, _| {
        let count = Arc::clone(&count);
        async move {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(arguments)
        }
    })
}

#[test]
fn a_model_that_is_only_named_is_replaced_by_one_that_calls_every_tool() {
    let [one, other] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let nested = json!({
        "type": "object",
        "required": ["order", "kind", "lines"],
        "properties": {
            "order": { "$ref": "#/$defs/order" },
            "kind": { "enum": ["small", "large"] },
            "lines": { "type": "array", "minItems": 2, "items": { "type": "integer", "minimum": 7 } },
            "note": { "anyOf": [{ "type": "string", "minLength": 3 }, { "type": "null" }] },
        },
        "$defs": { "order": { "type": "object", "required": ["id"], "properties": { "id": { "type": "string" } } } },
    });
    let agent = Agent::builder("support")
        .model("some/model")
        .tools([
            counted("one", json!({ "type": "object" }), &one).idempotent(),
            counted("other", nested, &other).idempotent().approval(),
        ])
        .output_schema(json!({
            "type": "object",
            "required": ["done"],
            "properties": { "done": { "type": "boolean" } },
        }))
        .build()
        .unwrap();
    let runtime = ThreadRuntime::new(MemoryStore::new());
    block_on(async {
        let run = runtime.execute(&agent.with_model(EveryTool), "go").await;
        let pause = run.unwrap().outcome().await.unwrap().suspended().unwrap();
        assert_eq!(one.load(Ordering::SeqCst), 1);
        let asked = &pause.pending()[0].input;
        let wanted = json!({
            "order": { "id": "x" }, "kind": "small", "lines": [7, 7], "note": "xxx",
        });
        assert_eq!(*asked, wanted);
        CrashTest::of(&agent).assert_survives().await;
    });
    assert!(one.load(Ordering::SeqCst) > 10, "it was played many times");
    assert!(other.load(Ordering::SeqCst) > 10, "its approval was given");
}

#[test]
#[should_panic(expected = "violations")]
fn an_agent_whose_replies_differ_every_time_fails_the_crash_test() {
    let count = Arc::new(AtomicUsize::new(0));
    let forgetful = Tool::raw(
        "count",
        "Counts.",
        json!({ "type": "object" }),
        move |_, _| {
            let count = count.fetch_add(1, Ordering::SeqCst);
            async move { Ok(json!(count)) }
        },
    );
    let model = MockModel::new().calls("count", json!({})).says("Counted.");
    let agent = Agent::builder("counter").model(model);
    let agent = agent.tools(forgetful).build().unwrap();
    block_on(CrashTest::of(&agent).assert_survives());
}

#[test]
fn a_conversation_is_the_same_in_every_session() {
    let model = MockModel::new()
        .calls("one", json!({}))
        .and_calls("one", json!({ "again": true }))
        .says("Done.")
        .says("Again.");
    let count = Arc::new(AtomicUsize::new(0));
    let tool = counted("one", json!({ "type": "object" }), &count);
    let agent = Agent::builder("talks").model(model).tools(tool);
    let agent = agent.build().unwrap();
    let runtime = ThreadRuntime::new(MemoryStore::new());
    block_on(async {
        for session in ["a", "b"] {
            let turn = helix_agents_core::runtime::Turn::new("go").session(session);
            let run = runtime.execute(&agent, turn).await.unwrap();
            assert_eq!(run.output().await.unwrap(), "Done.");
            let run = runtime.send(&agent, session, "go").await.unwrap();
            assert_eq!(run.output().await.unwrap(), "Again.");
            let spent = runtime.send(&agent, session, "go").await.unwrap();
            assert!(spent.output().await.is_err());
        }
    });
    assert_eq!(count.load(Ordering::SeqCst), 4);
}
