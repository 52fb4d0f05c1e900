//! Tests of callers of sub-agents: children that are answered, taken over or stopped beside them.

use std::sync::Arc;

use helix_agents_core::runtime::{RuntimeExt, Turn};
use helix_agents_core::tool::Tool;
use helix_agents_runtime_local::LocalRuntime;
use helix_agents_testkit::MockReply;
use serde_json::json;

use crate::children::{agent, task, waiting_tool};
use crate::failing_store::{HeldStart, failing_store};
use crate::kit::{Gate, Place, session};

/// A child is answered and goes on while its caller is about to note that it waits. The caller waits on.
///
/// proves in part: SUB-04
#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_is_answered_beside_the_pause_is_waited_for() {
    for place in Place::all() {
        let gate = Gate::new();
        let replies = [
            MockReply::calls([("h1", "ask", json!({}))]),
            MockReply::calls([("h2", "wait", json!({}))]),
            MockReply::text("Helped."),
        ];
        let ask = Tool::client_raw("ask", "Asks the client.", json!({ "type": "object" }));
        let helper = agent("helper", replies)
            .tools(ask)
            .tools(waiting_tool(&gate))
            .build()
            .unwrap();
        let replies = [
            MockReply::calls([("c", "subagent__helper", task())]),
            MockReply::text("done"),
        ];
        let parent = agent("parent", replies)
            .tools(Tool::sub_agent(&helper))
            .build()
            .unwrap();
        let (backend, failures) = failing_store(place.open().await);
        let notes = Gate::new();
        *failures.held_notes.lock().unwrap() = Some(Arc::clone(&notes));
        let builder = LocalRuntime::builder(backend).recovery(false);
        let runtime = builder.auto_continue(true).build();
        let turn = Turn::new("go").session(session("s"));
        let run = runtime.execute(&parent, turn).await.unwrap();
        notes.reached().await;
        let question = runtime.pending(&session("s")).await.unwrap().remove(0);
        let child = HeldStart::watching(&question.session_id);
        runtime.submit(question.result("yes")).await.unwrap();
        gate.reached().await;
        *failures.held_start.lock().unwrap() = Some(Arc::clone(&child));
        notes.open();
        tokio::select! {
            outcome = run.outcome() => panic!("the caller is left: {outcome:?}"),
            // By the effect that finds it running, and by whoever waits for it again.
            () = child.looked_at(2) => {}
        }
        gate.open();
        assert_eq!(run.output().await.unwrap(), "done");
    }
}
