//! Scenarios in which a turn is begun again, or a session is branched.

use std::sync::Arc;

use futures_util::StreamExt;
use helix_agents_core::model::{
    EventStream, Model, ModelError, ModelErrorKind, ModelEvent, ModelRequest,
};
use helix_agents_core::session::RunTrigger;
use helix_agents_core::store::{Lookup, Page, Sessions, StoreError};
use helix_agents_core::tool::{Tool, ToolBuilder, ToolCx};
use helix_agents_core::{SessionId, ToolResult};
use serde_json::{Value, json};

use super::stops::{DELTAS, halting, long_reply};
use super::{agent, built, calls, client, model, note, noted};
use crate::crash::{Moment, Scenario, World};

/// A model that fails in the middle of a long reply until the turn is retried.
#[derive(Debug)]
struct Failing {
    model: Arc<dyn Model>,
    world: World,
}

impl Failing {
    async fn is_retried(&self) -> bool {
        let root = self.world.session.as_root();
        let runs = self.world.backend.store.runs(root, Lookup::Page(Page::ALL));
        let runs = runs.await.map(|runs| runs.items).unwrap_or_default();
        runs.last()
            .is_some_and(|run| run.trigger == RunTrigger::Retry)
    }
}

impl Model for Failing {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        let mut said = 0;
        let events = self.model.stream(request);
        Box::pin(events.then(move |event| {
            said += usize::from(matches!(event, Ok(ModelEvent::Text(_))));
            let is_moment = said > DELTAS;
            async move {
                if is_moment && !self.is_retried().await {
                    let kind = ModelErrorKind::Invalid;
                    return Err(ModelError::new(kind, "it cannot go on"));
                }
                event
            }
        }))
    }
}

/// A retry after the model has failed in the second step: the first is kept.
#[must_use]
pub fn a_retry_after_a_failure() -> Scenario {
    Scenario::new("a retry after a failure", |world| {
        let steps = json!([calls(&[("c1", "note")]), long_reply()]);
        let failing = Failing {
            model: model(&steps),
            world: world.clone(),
        };
        let agent = agent(&steps).model(Arc::new(failing) as Arc<dyn Model>);
        built(agent.tools(note(world, "note")))
    })
    .says("Go")
    .retries()
    .leaves(noted(&["c1"], "note"))
}

/// A retry after an interruption in the middle of a reply, whose part is removed.
#[must_use]
pub fn a_retry_after_an_interrupt() -> Scenario {
    Scenario::new("a retry after an interrupt", |world| {
        let steps = json!([calls(&[("c1", "note")]), long_reply()]);
        built(halting(world, &steps).tools(note(world, "note")))
    })
    .says("Go")
    .interrupts_when(Moment::MidReply)
    .retries()
    .leaves(noted(&["c1"], "note"))
}

/// A return to a checkpoint before a pause: the question is asked again, and the old answer is refused.
#[must_use]
pub fn a_return_over_a_pause() -> Scenario {
    Scenario::new("a return over a pause", |world| {
        let second = calls(&[("c2", "color"), ("c3", "note")]);
        let steps = json!([calls(&[("c1", "note")]), second, { "text": "Nice color." }]);
        built(agent(&steps).tools([client("color"), note(world, "note")]))
    })
    .says("Pick one")
    .goes_back()
    .answers("color", |call| call.result("teal"))
    .leaves(noted(&["c1", "c3"], "note"))
}

/// A tool that branches its session while the run is in progress, and tells what the branch has.
fn fork(world: &World) -> ToolBuilder {
    let (backend, clock) = (world.backend.clone(), Arc::clone(&world.clock));
    let session = world.session.clone();
    let tool = Tool::raw(
        "fork",
        "Branches the session.",
        json!({ "type": "object" }),
        move |_: Value, _: ToolCx| {
            let (backend, clock) = (backend.clone(), Arc::clone(&clock));
            let session = session.clone();
            async move {
                let copy = SessionId::new("copy")?;
                let sessions = Sessions::new(backend.store.as_ref(), clock.as_ref());
                match sessions.clone_session(&session, &copy).await {
                    // A process that is gone may have made it.
                    Ok(_) | Err(StoreError::AlreadyExists { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
                let key = copy.as_root();
                let messages = backend.store.messages(key, Page::ALL).await?.items;
                let found = backend.store.load(key).await?;
                let state = found.map(|found| found.state.custom_state);
                let result: ToolResult<Value> =
                    Ok(json!({ "messages": messages.len(), "state": state }));
                result
            }
        },
    );
    tool.idempotent()
}

/// A branch while the source runs has what is committed, and changes nothing of the source.
#[must_use]
pub fn a_branch_while_the_source_runs() -> Scenario {
    Scenario::new("a branch while the source runs", |world| {
        let steps = json!([
            calls(&[("c1", "note")]),
            calls(&[("c2", "fork"), ("c3", "note")]),
            { "text": "Branched: {{tool_result:c2}}" },
        ]);
        built(agent(&steps).tools([fork(world), note(world, "note")]))
    })
    .says("Go")
    .leaves(noted(&["c1", "c3"], "note"))
}
