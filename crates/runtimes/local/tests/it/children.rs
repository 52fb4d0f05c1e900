//! Tests of sub-agents: many of them, deep trees, other processes, and a shutdown.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::agent::{Agent, AgentBuilder};
use helix_agents_core::runtime::{Outcome, Runtime, RuntimeExt, Turn};
use helix_agents_core::session::SessionStatus;
use helix_agents_core::store::{Page, SessionKey, SessionQuery};
use helix_agents_core::stream::{ChunkPayload, Sequence};
use helix_agents_core::time::Timestamp;
use helix_agents_core::tool::{PersistentAgent, Tool, ToolBuilder, ToolCx};
use helix_agents_core::{SessionId, ToolResult};
use helix_agents_runtime_local::LocalRuntime;
use helix_agents_testkit::{MockModel, MockReply, VirtualClock};
use serde_json::{Value, json};

use crate::failing_store::{HeldStart, failing_store};
use crate::kit::{Gate, Place, session};

pub(crate) fn agent(name: &str, replies: impl IntoIterator<Item = MockReply>) -> AgentBuilder {
    Agent::builder(name).model(Arc::new(MockModel::replies(replies)))
}

/// A model that gives the same text whoever asks, as often as they ask.
pub(crate) fn saying(name: &str, text: &str) -> AgentBuilder {
    let script = json!({ "default": [{ "text": text }] }).to_string();
    let script = helix_agents_models::Script::parse(&script).unwrap();
    Agent::builder(name).model(helix_agents_models::ScriptedModel::new(script))
}

pub(crate) fn task() -> Value {
    json!({ "message": "Help me." })
}

/// proves in part: SUB-01
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_children_of_one_reply_complete() {
    for place in Place::all() {
        let runtime = place.runtime().await;
        let helper = saying("helper", "Helped.").build().unwrap();
        let ids: Vec<String> = (0..100).map(|n| format!("c{n:03}")).collect();
        let calls = ids
            .iter()
            .map(|id| (id.as_str(), "subagent__helper", task()));
        let parent = agent("parent", [MockReply::calls(calls), MockReply::text("done")])
            .tools(Tool::sub_agent(&helper))
            .build()
            .unwrap();
        let turn = Turn::new("go").session(session("s"));
        let run = runtime.execute(&parent, turn).await.unwrap();
        assert_eq!(run.output().await.unwrap(), "done");
        let query = SessionQuery {
            page: Page::first(200),
            ..SessionQuery::default()
        };
        let all = runtime.backend().store.list(&query).await.unwrap();
        assert_eq!(all.total, 101);
        let ended =
            |one: &helix_agents_core::session::SessionState| one.status == SessionStatus::Completed;
        assert!(all.items.iter().all(ended));
        let streams = &runtime.backend().streams;
        let chunks = streams
            .read(&session("s"), Sequence::START, usize::MAX)
            .await
            .unwrap();
        let in_order = chunks
            .windows(2)
            .all(|two| two[0].sequence < two[1].sequence);
        assert!(in_order, "the sequences of the stream grow");
        for stored in &chunks {
            let base = &stored.chunk.base;
            let is_root = base.session_id == session("s");
            let wanted = if is_root { "parent" } else { "helper" };
            assert_eq!(base.agent_type, wanted);
        }
        let ends = |payload: &ChunkPayload| matches!(payload, ChunkPayload::SubagentEnd { .. });
        let ends = chunks.iter().filter(|one| ends(&one.chunk.payload)).count();
        assert_eq!(ends, 100);
    }
}

/// proves in part: SUB-01, SES-12
#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_twenty_agents_completes() {
    for place in Place::all() {
        let runtime = place.runtime().await;
        let mut below = agent("level-20", [MockReply::text("bottom")])
            .build()
            .unwrap();
        for level in (0..20).rev() {
            let tool = format!("subagent__level-{}", level + 1);
            let replies = [
                MockReply::calls([("c", tool.as_str(), task())]),
                MockReply::text(format!("level {level}")),
            ];
            below = agent(&format!("level-{level}"), replies)
                .tools(Tool::sub_agent(&below))
                .build()
                .unwrap();
        }
        let turn = Turn::new("go").session(session("s"));
        let run = runtime.execute(&below, turn).await.unwrap();
        assert_eq!(run.output().await.unwrap(), "level 0");
        let store = &runtime.backend().store;
        let root = session("s");
        let mut at: SessionId = root.clone();
        for _ in 0..20 {
            let key = SessionKey::new(&root, &at);
            let mut children = store.extras(key).await.unwrap().children;
            assert_eq!(children.len(), 1);
            at = children.remove(0).session_id;
        }
        let deepest = store.load(SessionKey::new(&root, &at)).await.unwrap();
        assert_eq!(deepest.unwrap().state.agent_type, "level-20");
    }
}

/// A tool that waits at a gate.
pub(crate) fn waiting_tool(gate: &Arc<Gate>) -> ToolBuilder {
    let at = Arc::clone(gate);
    Tool::raw(
        "wait",
        "Waits at a gate.",
        json!({ "type": "object" }),
        move |_: Value, _: ToolCx| {
            let gate = Arc::clone(&at);
            async move {
                gate.pass().await;
                let result: ToolResult<Value> = Ok(json!("passed"));
                result
            }
        },
    )
}

/// A caller with a child whose tool waits at a gate.
fn gated_tree(gate: &Arc<Gate>) -> Agent {
    let wait = waiting_tool(gate).idempotent();
    let replies = [
        MockReply::calls([("h", "wait", json!({}))]),
        MockReply::text("Helped."),
    ];
    let helper = agent("helper", replies).tools(wait).build().unwrap();
    let replies = [
        MockReply::calls([("c", "subagent__helper", task())]),
        MockReply::text("done"),
    ];
    agent("parent", replies)
        .tools(Tool::sub_agent(&helper))
        .build()
        .unwrap()
}

/// A process that ends hands both runs over; the next one goes on with both.
///
/// proves in part: SUB-04
#[tokio::test(flavor = "multi_thread")]
async fn a_tree_is_handed_over_and_goes_on_in_another_process() {
    for place in Place::all() {
        let gate = Gate::new();
        let parent = gated_tree(&gate);
        let runtime = place.runtime().await;
        let turn = Turn::new("go").session(session("s"));
        let run = runtime.execute(&parent, turn).await.unwrap();
        gate.reached().await;
        let mut left = Box::pin(runtime.shutdown(Duration::from_secs(60)));
        assert!(futures_util::poll!(&mut left).is_pending());
        gate.open();
        let report = left.await;
        assert_eq!((report.handed_over, report.busy), (2, 0), "{report:?}");
        drop((run, runtime));

        let next = place.runtime().await;
        next.agents().register(&parent).unwrap();
        let report = next.recover().await.unwrap();
        assert!(!report.recovered.is_empty());
        let run = next.handle(&parent, session("s")).await.unwrap().unwrap();
        assert_eq!(run.output().await.unwrap(), "done");
        let query = SessionQuery::default();
        let all = next.backend().store.list(&query).await.unwrap();
        assert_eq!(all.total, 2, "no child was started again");
    }
}

/// A process is gone with its two leases: another one takes both runs over when they lapse.
///
/// proves in part: SUB-04
#[test]
fn a_tree_is_taken_over_from_a_process_that_is_gone() {
    for place in Place::all() {
        let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(1_000)));
        let gate = Gate::new();
        let parent = gated_tree(&gate);
        let process = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_time().build().unwrap()
        };
        let killed = process();
        killed.block_on(async {
            let runtime = place.builder_at(&clock).await.holder("killed").build();
            let turn = Turn::new("go").session(session("s"));
            runtime.execute(&parent, turn).await.unwrap();
            gate.reached().await;
        });
        drop(killed);

        process().block_on(async {
            let next = place.builder_at(&clock).await.holder("next").build();
            next.agents().register(&parent).unwrap();
            clock.advance(Duration::from_secs(3600));
            let report = next.recover().await.unwrap();
            // The run of the parent may take that of the child over, before the sweep comes to it.
            assert!(!report.recovered.is_empty(), "both leases have lapsed");
            gate.open();
            let run = next.handle(&parent, session("s")).await.unwrap().unwrap();
            let outcome = run.outcome().await.unwrap();
            assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
            let query = SessionQuery::default();
            let all = next.backend().store.list(&query).await.unwrap();
            assert_eq!(all.total, 2, "no child was started again");
        });
    }
}

/// Two calls wait for one run of a companion. While one of them starts it, and does not know yet that it has, the other
/// leaves it alone: two drivers of one process would perform its effects at the same time.
///
/// proves in part: PER-02, PER-03
#[tokio::test(flavor = "multi_thread")]
async fn two_calls_that_wait_for_a_companion_perform_it_once() {
    for place in Place::all() {
        let gate = Gate::new();
        let work = waiting_tool(&gate);
        let replies = [
            MockReply::calls([("w", "wait", json!({}))]),
            MockReply::text("Helped."),
        ];
        let helper = agent("helper", replies).tools(work).build().unwrap();
        let begin = json!({ "agent": "helper", "name": "anna", "initialMessage": "Begin." });
        let replies = [
            MockReply::calls([
                ("c1", "companion__spawnAgent", begin),
                ("c2", "companion__waitForResult", json!({ "name": "anna" })),
            ]),
            MockReply::text("done"),
        ];
        let parent = agent("parent", replies)
            .persistent_agents([PersistentAgent::blocking(&helper)])
            .build()
            .unwrap();
        let (backend, failures) = failing_store(place.open().await);
        let held = HeldStart::new();
        *failures.held_start.lock().unwrap() = Some(Arc::clone(&held));
        let runtime = LocalRuntime::builder(backend).build();
        let turn = Turn::new("go").session(session("s"));
        let run = runtime.execute(&parent, turn).await.unwrap();
        tokio::select! {
            () = gate.reached() => panic!("it is performed by another task than the one that starts it"),
            // Who performs it looks at it fewer times before it reaches the gate.
            () = held.looked_at(8) => {}
        }
        held.release();
        gate.reached().await;
        gate.open();
        assert_eq!(run.output().await.unwrap(), "done");
        assert_eq!(gate.entered(), 1);
    }
}
