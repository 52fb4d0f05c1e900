//! Stops that reach a model call or a tool while it goes on.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::{StreamExt, stream};
use helix_agents_core::ToolResult;
use helix_agents_core::agent::Agent;
use helix_agents_core::error::ErrorCode;
use helix_agents_core::message::{Message, ResultStatus};
use helix_agents_core::model::{EventStream, Model, ModelEvent, ModelRequest};
use helix_agents_core::perform::{Attempt, perform};
use helix_agents_core::session::{RunStatus, StopKind};
use helix_agents_core::store::Change;
use helix_agents_core::stream::ChunkPayload;
use helix_agents_core::tool::{Tool, ToolCx};
use serde_json::{Value, json};

use super::super::Subject;
use super::super::runner::in_time;
use super::super::runtime::agents::{calling, of_model};
use super::run_driver::{RunDriver, session_id, stop, under_way};
use super::stopping::before;
use crate::{MockModel, MockReply};

/// A model that says these things, and then nothing more.
#[derive(Debug)]
pub(super) struct Hanging(pub(super) Vec<ModelEvent>);

impl Model for Hanging {
    fn name(&self) -> &'static str {
        "test/hanging"
    }

    fn stream<'a>(&'a self, _: ModelRequest<'a>) -> EventStream<'a> {
        let said = stream::iter(self.0.iter().cloned().map(Ok));
        Box::pin(said.chain(stream::pending()))
    }
}

/// Stops a run whose model has said this and hangs, and lets it end.
pub(super) async fn cut_off(on: &Subject, said: Vec<ModelEvent>, kind: StopKind) -> RunDriver {
    let model = Arc::new(Hanging(said));
    let agent = Agent::builder("agent").model(model as Arc<dyn Model>);
    let mut driver = RunDriver::new(on, agent.build().unwrap()).await;
    let effects = driver.begin();
    let ports = driver.ports.clone();
    let mut asking = Box::pin(perform(&effects[0], Attempt::First, &ports));
    under_way(&mut asking);
    stop(on, kind).await;
    let event = in_time("a stop ends a model call", asking).await.unwrap();
    let effects = driver.feed(event);
    driver.through(effects).await;
    driver
}

pub(super) fn half_a_reply() -> Vec<ModelEvent> {
    vec![
        ModelEvent::Thinking("Hm. ".to_owned()),
        ModelEvent::ThinkingEnd {
            signature: None,
            redacted: None,
            provider_metadata: None,
        },
        ModelEvent::Text("I will ".to_owned()),
        ModelEvent::CallStart {
            id: Some("c1".to_owned()),
            name: "charge".into(),
        },
        ModelEvent::CallArguments {
            call: 0,
            delta: r#"{"cents""#.to_owned(),
        },
    ]
}

/// An interrupt ends a model call at once: the text that readers saw is kept, and the calls that have begun
/// are not executed.
pub async fn an_interrupted_reply_is_kept(on: &Subject) {
    let driver = cut_off(on, half_a_reply(), StopKind::Interrupt).await;
    assert_eq!(driver.run().await.status, RunStatus::Interrupted);
    let messages = driver.messages().await;
    let [_, Message::Assistant(reply), Message::Tool(result)] = messages.as_slice() else {
        panic!("the reply and its call: {messages:?}");
    };
    assert_eq!(reply.content().as_deref(), Some("I will "));
    assert_eq!(
        reply.thinking().count(),
        0,
        "a cut block cannot be sent back"
    );
    let stop = &reply.metadata["helixInterrupted"];
    assert_eq!(*stop, json!({ "stop": "interrupt" }));
    assert_eq!(result.status, ResultStatus::NotExecuted);
    assert_eq!(driver.text().await, "I will ");
    let told = driver.streamed().await;
    let is_error = |payload: &ChunkPayload| matches!(payload, ChunkPayload::Error { .. });
    assert!(!told.iter().any(is_error), "a stop is no error: {told:?}");
    let interrupted =
        |payload: &ChunkPayload| matches!(payload, ChunkPayload::RunInterrupted { .. });
    assert!(told.iter().any(interrupted));
    let found = driver.found().await;
    assert_eq!((found.open_step, found.state.step_count), (None, 1));
}

/// An interrupt before the model has said anything keeps nothing of the call.
pub async fn an_interrupted_reply_without_text_leaves_nothing(on: &Subject) {
    let thinks = half_a_reply().into_iter().take(1).collect();
    for said in [Vec::new(), thinks] {
        let driver = cut_off(on, said, StopKind::Interrupt).await;
        assert_eq!(driver.run().await.status, RunStatus::Interrupted);
        assert_eq!(driver.messages().await.len(), 1);
        let sessions = driver.on.sessions();
        sessions.delete_session(&session_id()).await.unwrap();
    }
}

/// An abort ends a model call at once, and keeps nothing of it.
pub async fn an_aborted_reply_is_discarded(on: &Subject) {
    let driver = cut_off(on, half_a_reply(), StopKind::Abort).await;
    let run = driver.run().await;
    assert_eq!(run.status, RunStatus::Failed);
    let code = run.error.map(|error| error.code);
    assert_eq!(code, Some(ErrorCode::FrameworkCancelled));
    assert_eq!(driver.messages().await.len(), 1);
    assert_eq!(driver.text().await, "");
}

/// A model call of a run that was asked to stop is not made again by whoever takes the run over: nobody wants
/// its reply.
pub async fn a_stopped_model_call_is_not_made_again(on: &Subject) {
    for kind in [StopKind::Interrupt, StopKind::Abort] {
        let model = Arc::new(MockModel::replies([MockReply::text("hello")]));
        let agent = Agent::builder("agent").model(Arc::clone(&model));
        let mut driver = RunDriver::new(on, agent.build().unwrap()).await;
        let effects = driver.begin();
        stop(on, kind).await;
        let ports = driver.ports.clone();
        let event = perform(&effects[0], Attempt::Repeat, &ports).await.unwrap();
        let effects = driver.feed(event);
        driver.through(effects).await;
        assert!(driver.run().await.status.is_ended(), "{kind:?}");
        assert_eq!(model.replies_left(), 1, "{kind:?}: nobody asked the model");
        let sessions = driver.on.sessions();
        sessions.delete_session(&session_id()).await.unwrap();
    }
}

fn interrupts(change: &Change) -> bool {
    matches!(change, Change::Run(run) if run.status == RunStatus::Interrupted)
}

/// An abort is accepted while a run ends because of an interrupt: the run fails, whether it was cut off
/// in a reply or has nothing to keep.
pub async fn an_abort_beside_the_end_of_an_interrupted_run_fails_it(on: &Subject) {
    for said in [half_a_reply(), Vec::new()] {
        let model = Arc::new(Hanging(said));
        let agent = Agent::builder("agent").model(model as Arc<dyn Model>);
        let (store, acted) = before(on, interrupts, {
            let on = on.clone();
            move || {
                let on = on.clone();
                Box::pin(async move { stop(&on, StopKind::Abort).await })
            }
        });
        let mut driver = RunDriver::on(store, on, agent.build().unwrap(), Vec::new()).await;
        driver.ports.stops = Some(Arc::clone(&on.stops));
        let effects = driver.begin();
        let ports = driver.ports.clone();
        let mut asking = Box::pin(perform(&effects[0], Attempt::First, &ports));
        under_way(&mut asking);
        stop(on, StopKind::Interrupt).await;
        let event = in_time("a stop ends a model call", asking).await.unwrap();
        let effects = driver.feed(event);
        driver.through(effects).await;
        assert!(acted.load(Ordering::SeqCst), "the abort came beside it");
        let code = driver.run().await.error.map(|error| error.code);
        assert_eq!(code, Some(ErrorCode::FrameworkCancelled));
        assert_eq!(driver.text().await, "", "nothing of the reply is kept");
        let sessions = driver.on.sessions();
        sessions.delete_session(&session_id()).await.unwrap();
    }
}

/// A model is not asked once the run is asked to stop, whichever attempt it is.
pub async fn a_model_is_not_asked_after_a_stop(on: &Subject) {
    for attempt in [Attempt::First, Attempt::Repeat, Attempt::Untold] {
        let model = Arc::new(MockModel::replies([MockReply::text("too late")]));
        let mut driver = RunDriver::new(on, of_model(&model).build().unwrap()).await;
        let effects = driver.begin();
        stop(on, StopKind::Abort).await;
        let asking = perform(&effects[0], attempt, &driver.ports);
        let event = in_time("a stop ends a model call", asking).await.unwrap();
        let effects = driver.feed(event);
        driver.through(effects).await;
        assert_eq!(model.seen().len(), 0, "{attempt:?}");
        assert_eq!(driver.run().await.status, RunStatus::Failed);
        let sessions = driver.on.sessions();
        sessions.delete_session(&session_id()).await.unwrap();
    }
}

/// A stop is told to a running tool. One that ends then has its result; one that does not is left behind,
/// and its outcome is unknown.
///
/// proves: AGT-03
pub async fn a_stop_reaches_a_running_tool(on: &Subject) {
    for heeds in [true, false] {
        let wait = Tool::raw(
            "wait",
            "Waits.",
            json!({ "type": "object" }),
            move |_: Value, cx: ToolCx| async move {
                cx.abort_signal().aborted().await;
                if !heeds {
                    std::future::pending::<()>().await;
                }
                let result: ToolResult<Value> = Ok(json!("told"));
                result
            },
        );
        let model = Arc::new(MockModel::replies([calling([("w1", "wait")])]));
        let agent = of_model(&model).tools(wait).build().unwrap();
        let mut driver = RunDriver::new(on, agent).await;
        let effects = driver.begin();
        let effects = driver.next(&effects).await;
        let ports = driver.ports.clone();
        let mut running = Box::pin(perform(&effects[0], Attempt::First, &ports));
        under_way(&mut running);
        let before = ports.clock.now();
        stop(on, StopKind::Interrupt).await;
        let event = in_time("a stop ends a tool", running).await.unwrap();
        let waited = ports.clock.now().since(before);
        assert_eq!(waited < ports.stop_grace, heeds, "{waited:?}");
        let effects = driver.feed(event);
        driver.through(effects).await;
        assert_eq!(driver.run().await.status, RunStatus::Interrupted);
        let wanted = match heeds {
            true => ResultStatus::Success,
            false => ResultStatus::Unknown,
        };
        assert_eq!(driver.results().await[0].status, wanted);
        let sessions = driver.on.sessions();
        sessions.delete_session(&session_id()).await.unwrap();
    }
}
