//! Tests of callers of sub-agents: children that are answered, taken over or stopped beside them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use helix_agents_core::runtime::{Runtime, RuntimeExt, StartedRun, Turn};
use helix_agents_core::session::RunStatus;
use helix_agents_core::store::{SessionKey, Sessions};
use helix_agents_core::stream::StreamStatus;
use helix_agents_core::time::Timestamp;
use helix_agents_core::tool::{PersistentAgent, Tool};
use helix_agents_runtime_local::{LocalRuntime, SweepReport, SystemClock};
use helix_agents_testkit::{MockReply, VirtualClock};
use serde_json::json;

use crate::children::{agent, saying, task, waiting_tool};
use crate::counted_streams::counted_streams;
use crate::failing_store::{HeldStart, failing_store};
use crate::kit::{Gate, LEASE, Place, clock, session, timed};

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

/// A companion works on when the turn of its caller is over. Another process that takes it over does not open the
/// stream of that turn again: nobody would close it.
///
/// proves in part: PER-03, STR-04
#[test]
fn a_companion_that_is_taken_over_leaves_the_stream_ended() {
    for place in Place::all() {
        let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(1_000)));
        let gate = Gate::new();
        let replies = [
            MockReply::calls([("w", "wait", json!({}))]),
            MockReply::text("Helped."),
        ];
        let helper = agent("helper", replies)
            .tools(waiting_tool(&gate).idempotent())
            .build()
            .unwrap();
        let begin = json!({ "agent": "helper", "name": "anna", "initialMessage": "Begin." });
        let replies = [
            MockReply::calls([("c", "companion__spawnAgent", begin)]),
            MockReply::text("done"),
        ];
        let parent = agent("parent", replies)
            .persistent_agents([PersistentAgent::non_blocking(&helper)])
            .build()
            .unwrap();
        let process = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_time().build().unwrap()
        };
        let killed = process();
        killed.block_on(async {
            let runtime = place.builder_at(&clock).await.holder("killed").build();
            let turn = Turn::new("go").session(session("s"));
            let run = runtime.execute(&parent, turn).await.unwrap();
            gate.reached().await;
            assert_eq!(run.output().await.unwrap(), "done");
        });
        drop(killed);

        process().block_on(async {
            let next = place.builder_at(&clock).await.holder("next").build();
            next.agents().register(&parent).unwrap();
            clock.advance(Duration::from_secs(3600));
            let report = next.recover().await.unwrap();
            assert_eq!(report.recovered.len(), 1, "{report:?}");
            gate.open();
            let backend = next.backend();
            let root = session("s");
            let key = root.as_root();
            let link = backend.store.extras(key).await.unwrap().children.remove(0);
            let child = SessionKey::new(&root, &link.session_id);
            let child = backend.store.load(child).await.unwrap().unwrap();
            let run = StartedRun::new(child.state.key(), child.run.unwrap().id);
            assert_eq!(next.ended(&run).await.unwrap().status, RunStatus::Completed);
            let info = backend.streams.info(&root).await.unwrap().unwrap();
            assert_eq!(info.status, StreamStatus::Ended);
        });
    }
}

/// Sub-agents stream no patches of their caller's state, so its step is settled without reading the stream, which has
/// everything that they said.
///
/// proves in part: SUB-01
#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_sub_agents_is_settled_without_reading_the_stream() {
    for place in Place::all() {
        let helper = saying("helper", "Helped.").build().unwrap();
        let replies = [
            MockReply::calls([
                ("c1", "subagent__helper", task()),
                ("c2", "subagent__helper", task()),
            ]),
            MockReply::text("done"),
        ];
        let parent = agent("parent", replies)
            .tools(Tool::sub_agent(&helper))
            .build()
            .unwrap();
        let (backend, reads) = counted_streams(place.open().await);
        let runtime = LocalRuntime::builder(backend).recovery(false).build();
        let turn = Turn::new("go").session(session("s"));
        let run = runtime.execute(&parent, turn).await.unwrap();
        assert_eq!(run.output().await.unwrap(), "done");
        assert_eq!(reads.load(Ordering::SeqCst), 0);
    }
}

/// A process that has the agent of a child and not that of its caller leaves the child alone: it could not call the hooks
/// of the caller, and take-overs without progress would end the run.
///
/// proves in part: SUB-04
#[tokio::test]
async fn a_child_is_left_to_processes_that_have_the_agents_above_it() {
    for place in Place::all() {
        let gate = Gate::new();
        let replies = [
            MockReply::calls([("h", "wait", json!({}))]),
            MockReply::text("Helped."),
        ];
        let wait = waiting_tool(&gate).idempotent();
        let helper = agent("helper", replies).tools(wait).build().unwrap();
        let replies = [
            MockReply::calls([("c", "subagent__helper", task())]),
            MockReply::text("done"),
        ];
        let parent = agent("parent", replies)
            .tools(Tool::sub_agent(&helper))
            .build()
            .unwrap();
        let time = clock();
        let first = timed(&place, "first", &time).await;
        let turn = Turn::new("go").session(session("s"));
        first.execute(&parent, turn).await.unwrap();
        gate.reached().await;
        let shutdown = first.shutdown(LEASE);
        gate.open();
        assert_eq!(shutdown.await.handed_over, 2);

        let without = timed(&place, "without", &time).await;
        without.agents().register(&helper).unwrap();
        let backend = without.backend();
        let root = session("s");
        let links = backend.store.extras(root.as_root()).await.unwrap().children;
        let child = SessionKey::new(&root, &links[0].session_id);
        let before = backend.store.load(child).await.unwrap();
        assert_eq!(without.recover().await.unwrap(), SweepReport::default());
        assert_eq!(backend.store.load(child).await.unwrap(), before);

        let with = timed(&place, "with", &time).await;
        with.agents().register(&parent).unwrap();
        with.recover().await.unwrap();
        let run = with.handle(&parent, root).await.unwrap().unwrap();
        assert_eq!(run.output().await.unwrap(), "done");
    }
}

/// A child is deleted while its caller is about to note that it waits. The caller goes on with an error for the call.
///
/// proves in part: SUB-03
#[tokio::test]
async fn a_child_that_is_deleted_beside_the_pause_is_an_error() {
    for place in Place::all() {
        let replies = [MockReply::calls([("h1", "ask", json!({}))])];
        let ask = Tool::client_raw("ask", "Asks the client.", json!({ "type": "object" }));
        let helper = agent("helper", replies).tools(ask).build().unwrap();
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
        let runtime = LocalRuntime::builder(backend).recovery(false).build();
        let turn = Turn::new("go").session(session("s"));
        let run = runtime.execute(&parent, turn).await.unwrap();
        notes.reached().await;
        let question = runtime.pending(&session("s")).await.unwrap().remove(0);
        let clock = SystemClock;
        let sessions = Sessions::new(runtime.backend().store.as_ref(), &clock);
        let deleted = sessions.delete_session(&question.session_id).await;
        assert!(deleted.unwrap());
        notes.open();
        assert_eq!(run.output().await.unwrap(), "done");
    }
}
