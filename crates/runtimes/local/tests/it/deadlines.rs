//! Tests of deadlines: calls that the sweeper times out, and the runs that go on without an answer.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::agent::Agent;
use helix_agents_core::entries::Continuation;
use helix_agents_core::model::{Model, ModelReply};
use helix_agents_core::runtime::{Outcome, Runtime, RuntimeExt, Turn};
use helix_agents_core::session::SubmissionOutcome;
use helix_agents_core::stream::{ChunkPayload, Sequence};
use helix_agents_core::tool::Tool;
use helix_agents_runtime_local::{LocalRuntime, SweepReport};
use helix_agents_testkit::VirtualClock;
use serde_json::{Value, json};

use crate::kit::{Place, clock, runs, session};

const MINUTE: Duration = Duration::from_secs(60);
const MILLISECOND: Duration = Duration::from_millis(1);

/// An agent that asks the client, and then tells what it got.
fn asking() -> Agent {
    let model = Model::from_fn(|input| async move {
        let messages = format!("{:?}", input.history);
        Ok(
            match messages.contains("did not answer within the deadline") {
                true => ModelReply::text("nobody is there"),
                false => ModelReply::call("ask", json!({})),
            },
        )
    });
    let schema = json!({ "type": "object" });
    let ask = Tool::client_raw("ask", "Asks the client.", schema);
    let ask = ask.deadline(MINUTE);
    let agent = Agent::builder("asking").model(model).tools(ask);
    agent.build().unwrap()
}

/// Pauses a session of this name, whose call has a minute from now.
async fn pause(runtime: &LocalRuntime, agent: &Agent, name: &str) {
    let request = Turn::new("go").session(session(name));
    let handle = runtime.execute(agent, request).await.unwrap();
    let paused = handle.outcome().await.unwrap().suspended();
    assert_eq!(paused.unwrap().pending().len(), 1);
}

async fn process(place: &Place, time: &Arc<VirtualClock>) -> LocalRuntime {
    place.builder_at(time).await.build()
}

/// A passed deadline is written by any process, also by one that does not have the agent. A process that has
/// it, and `auto_continue`, continues the run.
///
/// proves in part: CLT-03
#[tokio::test]
async fn a_sweep_times_calls_out_at_their_deadline() {
    for place in Place::all() {
        let (agent, time) = (asking(), clock());
        let asks = process(&place, &time).await;
        pause(&asks, &agent, "s").await;
        let sweeping = process(&place, &time).await;
        time.advance(MINUTE - MILLISECOND);
        assert_eq!(sweeping.recover().await.unwrap(), SweepReport::default());
        time.advance(MILLISECOND);
        let report = sweeping.recover().await.unwrap();
        assert_eq!(report.timed_out, 1);
        assert_eq!(report.continued, []);
        assert_eq!(sweeping.recover().await.unwrap(), SweepReport::default());

        let builder = place.builder_at(&time).await.agent(&agent);
        let continuing = builder.auto_continue(true).build();
        let report = continuing.recover().await.unwrap();
        assert_eq!((report.timed_out, report.continued.len()), (0, 1));
        let handle = continuing.handle(&agent, session("s")).await;
        let outcome = handle.unwrap().unwrap().outcome().await.unwrap();
        assert_eq!(outcome, Outcome::Done("nobody is there".to_owned()));
    }
}

/// With `auto_continue` the sweep that times a call out also continues its run. An answer that comes then is
/// late.
///
/// proves in part: CLT-06
#[tokio::test]
async fn a_sweep_continues_a_run_whose_calls_timed_out() {
    for place in Place::all() {
        let (agent, time) = (asking(), clock());
        let builder = place.builder_at(&time).await.agent(&agent);
        let runtime = builder.auto_continue(true).build();
        pause(&runtime, &agent, "s").await;
        let pending = runtime.pending(&session("s")).await.unwrap();
        time.advance(MINUTE);
        let report = runtime.recover().await.unwrap();
        assert_eq!((report.timed_out, report.continued.len()), (1, 1));
        let run = &report.continued[0];
        assert!(runtime.ended(run).await.unwrap().status.is_ended());
        let late = runtime.submit(pending[0].result("here")).await.unwrap();
        assert_eq!(late.outcome, SubmissionOutcome::LateAnswerAfterTimeout);
        assert_eq!(late.continuation, Continuation::None);
    }
}

/// More sessions than one sweep continues fall due at once: the sweeper goes on without a rest.
#[tokio::test]
async fn the_sweeper_does_not_rest_while_more_is_due() {
    for place in Place::all() {
        let (agent, time) = (asking(), clock());
        let asks = process(&place, &time).await;
        let names: Vec<_> = (0..300).map(|n| format!("s{n}")).collect();
        for name in &names {
            pause(&asks, &agent, name).await;
        }
        time.advance(MINUTE);
        let builder = place.builder_at(&time).await.agent(&agent);
        let sweeping = builder.auto_continue(true).sweep_every(MINUTE).build();
        sweeping.start_recovery().unwrap();
        // Nobody moves the clock: a sweeper that rests never continues the rest.
        for name in &names {
            while runs(asks.backend(), &session(name)).await.len() == 1 {
                tokio::task::yield_now().await;
            }
            let handle = asks.handle(&agent, session(name)).await;
            assert!(handle.unwrap().unwrap().outcome().await.is_ok());
        }
        sweeping.shutdown(MINUTE).await;
    }
}

/// The warnings in the stream of a session.
async fn warnings(runtime: &LocalRuntime, name: &str) -> Vec<Value> {
    let streams = &runtime.backend().streams;
    let chunks = streams.read(&session(name), Sequence::START, 1_000).await;
    let payloads = chunks
        .unwrap()
        .into_iter()
        .map(|stored| stored.chunk.payload);
    let warnings = payloads.filter_map(|payload| match payload {
        ChunkPayload::Custom { event_name, data } if event_name == "expiring_soon" => Some(data),
        _ => None,
    });
    warnings.collect()
}

/// A runtime that warns tells readers once when a tenth of the time is left; one that does not tells them
/// nothing, and no sweep does anything then.
#[tokio::test]
async fn readers_are_warned_once_of_a_deadline() {
    for place in Place::all() {
        let (agent, time) = (asking(), clock());
        let quiet = process(&place, &time).await;
        pause(&quiet, &agent, "quiet").await;
        let warning = place.builder_at(&time).await.warn_of_deadlines(true);
        let warning = warning.build();
        pause(&warning, &agent, "warned").await;
        let pending = warning.pending(&session("warned")).await.unwrap();

        time.advance(Duration::from_secs(54) - MILLISECOND);
        assert_eq!(quiet.recover().await.unwrap(), SweepReport::default());
        time.advance(MILLISECOND);
        // Two processes look at the same time.
        let other = process(&place, &time).await;
        let (one, two) = tokio::join!(quiet.recover(), other.recover());
        assert_eq!(one.unwrap().warned + two.unwrap().warned, 1);
        assert_eq!(quiet.recover().await.unwrap(), SweepReport::default());
        let expected = json!({
            "toolCallId": pending[0].tool_call_id,
            "toolName": "ask",
            "deadline": pending[0].deadline,
        });
        assert_eq!(warnings(&quiet, "warned").await, [expected]);
        assert_eq!(warnings(&quiet, "quiet").await, [json!(null); 0]);

        time.advance(Duration::from_secs(6));
        let report = quiet.recover().await.unwrap();
        assert_eq!((report.timed_out, report.warned), (2, 0));
    }
}

/// Nobody is warned of a call that is answered or has timed out.
#[tokio::test]
async fn nobody_is_warned_of_a_call_that_is_over() {
    for place in Place::all() {
        let (agent, time) = (asking(), clock());
        let builder = place.builder_at(&time).await.warn_of_deadlines(true);
        let runtime = builder.build();
        pause(&runtime, &agent, "answered").await;
        pause(&runtime, &agent, "over").await;
        let pending = runtime.pending(&session("answered")).await.unwrap();
        runtime.submit(pending[0].result("here")).await.unwrap();
        time.advance(MINUTE);
        let report = runtime.recover().await.unwrap();
        assert_eq!((report.timed_out, report.warned), (1, 0));
        assert_eq!(runtime.recover().await.unwrap(), SweepReport::default());
    }
}
