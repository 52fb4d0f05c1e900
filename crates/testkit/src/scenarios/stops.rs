//! Scenarios in which somebody stops a run.

use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::select;
use helix_agents_core::agent::AgentBuilder;
use helix_agents_core::model::{EventStream, Model, ModelEvent, ModelRequest};
use helix_agents_core::tool::{Tool, ToolBuilder, ToolCx};
use helix_agents_core::{Agent, ToolResult};
use serde_json::{Value, json};

use super::{agent, built, calls, client, gated, model, note, noted};
use crate::crash::{Moment, Scenario, World};

/// The deltas of text before a person acts: more than a reply with calls has.
pub(super) const DELTAS: usize = 2;

/// A model that lets people act in the middle of a long reply.
#[derive(Debug)]
struct Halting {
    model: Arc<dyn Model>,
    world: World,
}

impl Model for Halting {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        let mut said = 0;
        let events = self.model.stream(request);
        Box::pin(events.then(move |event| {
            said += usize::from(matches!(event, Ok(ModelEvent::Text(_))));
            let is_moment = said == DELTAS + 1;
            async move {
                if is_moment && self.world.arrives(Moment::MidReply).await {
                    self.world.waits_for_the_stop().await;
                }
                event
            }
        }))
    }
}

/// A reply that comes slowly, so that its first deltas are durable before the last comes. It is the same
/// whether the part that was cut off is kept or not.
pub(super) fn long_reply() -> Value {
    json!({ "text": "It takes its time to say this.", "delay_ms": 20 })
}

pub(super) fn halting(world: &World, steps: &Value) -> AgentBuilder {
    let model = Halting {
        model: model(steps),
        world: world.clone(),
    };
    agent(steps).model(Arc::new(model) as Arc<dyn Model>)
}

/// A tool that must not be run twice, and during which people act. When its run is asked to stop, it ends
/// or goes on.
pub(super) fn charge(world: &World, heeds: bool) -> ToolBuilder {
    let world = world.clone();
    Tool::raw(
        "charge",
        "Charges a card.",
        json!({ "type": "object" }),
        move |_: Value, cx: ToolCx| {
            let world = world.clone();
            async move {
                world.switch.pass("inside of charge, before the card").await;
                if world.arrives(Moment::MidTool).await {
                    let wait = pin!(world.waits_for_the_stop());
                    if heeds {
                        select(pin!(cx.abort_signal().aborted()), wait).await;
                    } else {
                        wait.await;
                    }
                }
                world.switch.pass("inside of charge, after the card").await;
                let result: ToolResult<Value> = Ok(json!({ "charged": true }));
                result
            }
        },
    )
}

/// An agent that charges a card and notes it.
fn charging(world: &World, heeds: bool) -> Agent {
    let steps = json!([calls(&[("c1", "charge"), ("c2", "note")]), { "text": "Charged." }]);
    built(agent(&steps).tools([charge(world, heeds), note(world, "note")]))
}

/// An interruption in the middle of a reply, which is then given again.
#[must_use]
pub fn an_interrupt_mid_reply() -> Scenario {
    Scenario::new("an interrupt mid-reply", |world| {
        let steps = json!([calls(&[("c1", "note")]), long_reply(), long_reply()]);
        built(halting(world, &steps).tools(note(world, "note")))
    })
    .says("Go")
    .interrupts_when(Moment::MidReply)
    .resumes()
    .leaves(noted(&["c1"], "note"))
}

/// An interruption of a tool that ends when it is told to, beside another one.
#[must_use]
pub fn an_interrupt_mid_tool() -> Scenario {
    Scenario::new("an interrupt mid-tool", |world| charging(world, true))
        .says("Charge it")
        .interrupts_when(Moment::MidTool)
        .resumes()
        .leaves(noted(&["c2"], "note"))
}

/// An interruption of a tool that does not end: it is left behind, and its outcome is unknown.
#[must_use]
pub fn an_interrupt_that_a_tool_ignores() -> Scenario {
    Scenario::new("an interrupt that a tool ignores", |world| {
        charging(world, false)
    })
    .says("Charge it")
    .interrupts_when(Moment::MidTool)
    .resumes()
    .leaves(noted(&["c2"], "note"))
}

/// An interruption of a run that waits for a client; then another message.
#[must_use]
pub fn an_interrupt_while_suspended() -> Scenario {
    Scenario::new("an interrupt while suspended", |world| {
        built(
            agent(&json!([calls(&[("c1", "color"), ("c2", "note")]), { "text": "Nice color." }]))
                .tools([client("color"), note(world, "note")]),
        )
    })
    .says("Pick one")
    .interrupts_when(Moment::Suspended)
    .says("Pick another")
    .answers("color", |call| call.result("teal"))
    .leaves(noted(&["c2", "c2"], "note"))
}

/// An abort in the middle of a reply; then another message.
#[must_use]
pub fn an_abort_mid_reply() -> Scenario {
    Scenario::new("an abort mid-reply", |world| {
        let steps = json!([calls(&[("c1", "note")]), long_reply()]);
        built(halting(world, &steps).tools(note(world, "note")))
    })
    .says("Go")
    .aborts_when(Moment::MidReply)
    .says("Again")
    .leaves(noted(&["c1", "c1"], "note"))
}

/// An abort of a tool that ends when it is told to; then another message.
#[must_use]
pub fn an_abort_mid_tool() -> Scenario {
    Scenario::new("an abort mid-tool", |world| charging(world, true))
        .says("Charge it")
        .aborts_when(Moment::MidTool)
        .says("Charge it again")
        .leaves(noted(&["c2", "c2"], "note"))
}

/// An abort of a run that waits for an approval: the call is dropped, and its approval comes too late.
#[must_use]
pub fn an_abort_while_suspended() -> Scenario {
    Scenario::new("an abort while suspended", |world| {
        built(
            agent(&json!([calls(&[("c1", "refund"), ("c2", "note")]), { "text": "Refunded." }]))
                .tools([gated(world), note(world, "note")]),
        )
    })
    .says("Refund it")
    .aborts_when(Moment::Suspended)
    .says("Refund it after all")
    .approves()
    .leaves(noted(&["c2", "c2", "c1"], "refund"))
}

/// Two interruptions of one turn: of a tool, and of the reply after it.
#[must_use]
pub fn two_interrupts_in_one_turn() -> Scenario {
    Scenario::new("two interrupts in one turn", |world| {
        let steps = json!([calls(&[("c1", "charge")]), long_reply(), long_reply()]);
        built(halting(world, &steps).tools(charge(world, true)))
    })
    .says("Charge it")
    .interrupts_when(Moment::MidTool)
    .interrupts_when(Moment::MidReply)
    .resumes()
}
