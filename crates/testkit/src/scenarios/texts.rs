//! Scenarios in which a message is sent while a run is in progress.

use helix_agents_core::entries::DoubleTexting;
use serde_json::json;

use super::stops::{charge, halting, long_reply};
use super::{agent, built, calls, client, note, noted};
use crate::crash::{Moment, Scenario};

/// A message that interrupts a reply.
#[must_use]
pub fn a_message_that_interrupts_a_reply() -> Scenario {
    Scenario::new("a message that interrupts a reply", |world| {
        let steps = json!([calls(&[("c1", "note")]), long_reply()]);
        built(halting(world, &steps).tools(note(world, "note")))
    })
    .says("Go")
    .texts_when(Moment::MidReply, DoubleTexting::Interrupt, "Not that")
    .leaves(noted(&["c1", "c1"], "note"))
}

/// A message that interrupts a tool that must not be run twice.
#[must_use]
pub fn a_message_that_interrupts_a_tool() -> Scenario {
    charging("a message that interrupts a tool").texts_when(
        Moment::MidTool,
        DoubleTexting::Interrupt,
        "Not that",
    )
}

/// A message that is refused while a tool is running. The turn goes on.
#[must_use]
pub fn a_message_that_is_refused() -> Scenario {
    charging("a message that is refused").texts_when(
        Moment::MidTool,
        DoubleTexting::Reject,
        "Not that",
    )
}

/// A message that is sent while a tool is running, and waits for a turn that is suspended meanwhile.
#[must_use]
pub fn a_message_that_waits() -> Scenario {
    Scenario::new("a message that waits", |world| {
        let steps = json!([calls(&[("c1", "charge"), ("c2", "color")]), { "text": "Charged." }]);
        built(agent(&steps).tools([charge(world, true), client("color")]))
    })
    .says("Charge it")
    .texts_when(Moment::MidTool, DoubleTexting::Queue, "And that")
    .answers("color", |call| call.result("teal"))
}

/// A message that takes the turn back while a tool is running. The model is told what may have happened.
#[must_use]
pub fn a_message_that_takes_the_turn_back() -> Scenario {
    charging("a message that takes the turn back")
        .texts_when(Moment::MidTool, DoubleTexting::Rollback, "Not that")
        .leaves(noted(&["c1", "c3"], "note"))
        .tells(1)
}

/// A turn that notes something, and charges a card in its second step.
fn charging(name: &str) -> Scenario {
    Scenario::new(name, |world| {
        let second = calls(&[("c2", "charge"), ("c3", "note")]);
        let steps = json!([calls(&[("c1", "note")]), second, { "text": "Charged." }]);
        built(agent(&steps).tools([charge(world, true), note(world, "note")]))
    })
    .says("Charge it")
}
