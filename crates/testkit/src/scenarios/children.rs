//! Scenarios about sub-agents.

use helix_agents_core::Agent;
use helix_agents_core::agent::AgentBuilder;
use helix_agents_core::budget::Budgets;
use helix_agents_core::tool::{PersistentAgent, Tool};
use serde_json::{Value, json};

use super::budgets::{calls as spending, priced, priced_model, text, wide};
use super::stops::charge;
use super::{agent, built, calls, client, gated, model, note, noted};
use crate::crash::{Moment, Scenario, World};

/// An agent that another one calls.
fn child(name: &str, steps: &Value) -> AgentBuilder {
    Agent::builder(name)
        .model(model(steps))
        .system_prompt("You help.")
        .initial_state(json!({ "notes": [], "count": 0, "last": null }))
}

/// A reply that gives tasks to sub-agents.
fn tasks(calls: &[(&str, &str)]) -> Value {
    let calls: Vec<_> = calls
        .iter()
        .map(|(id, name)| json!({ "id": id, "name": name, "arguments": { "message": id } }))
        .collect();
    json!({ "text": "Help me.", "tool_calls": calls })
}

/// A sub-agent that notes something and says so.
fn noting(world: &World, name: &str, call: &str) -> Agent {
    let steps = json!([calls(&[(call, "note")]), { "text": "It is noted." }]);
    built(child(name, &steps).tools(note(world, "note")))
}

/// A sub-agent that asks the client.
fn asking(name: &str, call: &str) -> Agent {
    let steps = json!([calls(&[(call, "color")]), { "text": "Nice color." }]);
    built(child(name, &steps).tools(client("color")))
}

/// Two sub-agents side by side, beside a tool. One of them fails.
#[must_use]
pub fn children_of_which_one_fails() -> Scenario {
    Scenario::new("children of which one fails", |world| {
        let bad = child("bad", &json!([calls(&[("b1", "note")])]));
        let bad = built(bad.tools(note(world, "note")).max_steps(1));
        let mut first = tasks(&[("c1", "subagent__good"), ("c2", "subagent__bad")]);
        if let Some(made) = first
            .pointer_mut("/tool_calls")
            .and_then(Value::as_array_mut)
        {
            made.push(super::call("c3", "note"));
        }
        let steps = json!([first, { "text": "Done." }]);
        built(
            agent(&steps)
                .tools(Tool::sub_agent(&noting(world, "good", "g1")))
                .tools(Tool::sub_agent(&bad))
                .tools(note(world, "note")),
        )
    })
    .says("Go")
    .leaves(noted(&["c3"], "note"))
}

/// A sub-agent of a sub-agent whose call a person approves.
#[must_use]
pub fn an_approval_inside_of_a_grandchild() -> Scenario {
    Scenario::new("an approval inside of a grandchild", |world| {
        let steps = json!([calls(&[("g1", "refund")]), { "text": "Refunded." }]);
        let grandchild = built(child("grandchild", &steps).tools(gated(world)));
        let steps = json!([tasks(&[("h1", "subagent__grandchild")]), { "text": "It is done." }]);
        let below = built(child("child", &steps).tools(Tool::sub_agent(&grandchild)));
        let steps = json!([tasks(&[("c1", "subagent__child")]), { "text": "Done." }]);
        built(agent(&steps).tools(Tool::sub_agent(&below)))
    })
    .says("Refund it")
    .answers("refund", |call| call.approve())
    .leaves(noted(&[], Value::Null))
}

/// Two sub-agents that wait for the client, beside one that does not.
#[must_use]
pub fn children_that_wait() -> Scenario {
    Scenario::new("children that wait", |world| {
        let made = [
            ("c1", "subagent__one"),
            ("c2", "subagent__other"),
            ("c3", "subagent__third"),
        ];
        let steps = json!([tasks(&made), { "text": "Done." }]);
        built(
            agent(&steps)
                .tools(Tool::sub_agent(&asking("one", "a1")))
                .tools(Tool::sub_agent(&asking("other", "b1")))
                .tools(Tool::sub_agent(&noting(world, "third", "d1"))),
        )
    })
    .says("Ask them")
    .answers("color", |call| call.result("teal"))
    .leaves(noted(&[], Value::Null))
}

/// A sub-agent that waits for the client beside a call of its caller that waits, too, for a person.
#[must_use]
pub fn a_child_that_waits_beside_an_approval() -> Scenario {
    Scenario::new("a child that waits beside an approval", |world| {
        let mut first = tasks(&[("c1", "subagent__one")]);
        if let Some(made) = first
            .pointer_mut("/tool_calls")
            .and_then(Value::as_array_mut)
        {
            made.push(super::call("c2", "refund"));
        }
        let steps = json!([first, { "text": "Done." }]);
        built(
            agent(&steps)
                .tools(Tool::sub_agent(&asking("one", "a1")))
                .tools(gated(world)),
        )
    })
    .says("Ask them")
    .answers("color", |call| call.result("teal"))
    .answers("refund", |call| call.approve())
    .leaves(noted(&["c2"], "refund"))
}

/// A run that is interrupted while a tool of its sub-agent runs, which ends then.
#[must_use]
pub fn an_interrupt_while_a_child_runs() -> Scenario {
    Scenario::new("an interrupt while a child runs", |world| {
        let steps = json!([calls(&[("h1", "charge")]), { "text": "Charged." }]);
        let below = built(child("child", &steps).tools(charge(world, true)));
        let steps = json!([tasks(&[("c1", "subagent__child")]), { "text": "Done." }]);
        built(agent(&steps).tools(Tool::sub_agent(&below)))
    })
    .says("Charge it")
    .interrupts_when(Moment::MidTool)
    .resumes()
    .leaves(noted(&[], Value::Null))
}

/// Two sub-agents side by side whose steps and tokens count in the budget of the tree.
#[must_use]
pub fn children_that_share_a_budget() -> Scenario {
    Scenario::new("children that share a budget", |world| {
        let below = |name: &str, call: &str| {
            let steps = json!([spending(&[call], 100), text("It is noted.", 130)]);
            let below = child(name, &steps).model(priced_model(&steps, 0));
            built(below.tools(note(world, "note")))
        };
        let mut first = tasks(&[("c1", "subagent__one"), ("c2", "subagent__other")]);
        if let Some(first) = first.as_object_mut() {
            first.insert("usage".to_owned(), json!({ "input": 90, "output": 7 }));
        }
        let steps = json!([first, text("Done.", 200)]);
        built(
            priced(&steps, 0)
                .tools(Tool::sub_agent(&below("one", "a1")))
                .tools(Tool::sub_agent(&below("other", "b1")))
                .budget(Budgets::new().session(wide()).tree(wide())),
        )
    })
    .says("Go")
    .leaves(noted(&[], Value::Null))
}

/// A call of a companion tool.
fn companion(id: &str, tool: &str, arguments: &Value) -> Value {
    json!({ "id": id, "name": format!("companion__{tool}"), "arguments": arguments })
}

/// A call that starts an agent under the name of the call.
fn spawn(id: &str, agent: &str) -> Value {
    let arguments = json!({ "agent": agent, "name": id, "initialMessage": "Begin." });
    companion(id, "spawnAgent", &arguments)
}

/// A reply that makes these calls.
fn reply(calls: &[Value]) -> Value {
    json!({ "text": "Help me.", "tool_calls": calls })
}

/// A blocking persistent sub-agent that waits for the client.
#[must_use]
pub fn a_client_tool_inside_of_a_blocking_companion() -> Scenario {
    Scenario::new("a client tool inside of a blocking companion", |_| {
        let steps = json!([reply(&[spawn("c1", "one")]), { "text": "Done." }]);
        let one = PersistentAgent::blocking(&asking("one", "a1"));
        built(agent(&steps).persistent_agents([one]))
    })
    .says("Ask it")
    .answers("color", |call| call.result("teal"))
    .leaves(noted(&[], Value::Null))
}

/// A persistent sub-agent that nobody waits for, and that is done while its caller waits for the client.
#[must_use]
pub fn a_companion_that_ends_while_its_caller_waits() -> Scenario {
    Scenario::new("a companion that ends while its caller waits", |world| {
        let first = reply(&[spawn("c1", "one"), super::call("c2", "color")]);
        let steps = json!([first, { "text": "Done." }]);
        let one = PersistentAgent::non_blocking(&noting(world, "one", "a1"));
        let agent = agent(&steps).tools(client("color"));
        built(agent.persistent_agents([one]))
    })
    .says("Go")
    .answers("color", |call| call.result("teal"))
    .tells(1)
    .leaves(noted(&[], Value::Null))
}

/// A persistent sub-agent that is asked a second time, with what it knows.
#[must_use]
pub fn a_companion_that_is_consulted_again() -> Scenario {
    Scenario::new("a companion that is consulted again", |world| {
        let steps = json!([
            calls(&[("a1", "note")]),
            { "text": "It is noted." },
            calls(&[("a2", "note")]),
            { "text": "It is noted again." },
        ]);
        let one = built(child("one", &steps).tools(note(world, "note")));
        let again = json!({ "name": "c1", "message": "Again." });
        let steps = json!([
            reply(&[spawn("c1", "one")]),
            reply(&[companion("c2", "sendMessage", &again)]),
            { "text": "Done." },
        ]);
        built(agent(&steps).persistent_agents([PersistentAgent::blocking(&one)]))
    })
    .says("Go")
    .leaves(noted(&[], Value::Null))
}

/// A persistent sub-agent that waits for the client is ended by its caller.
#[must_use]
pub fn a_companion_that_is_ended() -> Scenario {
    Scenario::new("a companion that is ended", |_| {
        let steps = json!([calls(&[("a1", "size")]), { "text": "Never." }]);
        let one = built(child("one", &steps).tools(client("size")));
        let first = reply(&[spawn("c1", "one"), super::call("c2", "color")]);
        let end = companion("c3", "terminateChild", &json!({ "name": "c1" }));
        let steps = json!([first, reply(&[end]), { "text": "Done." }]);
        let agent = agent(&steps).tools(client("color"));
        built(agent.persistent_agents([PersistentAgent::non_blocking(&one)]))
    })
    .says("Go")
    .answers("color", |call| call.result("teal"))
    .never_answers("size")
    .leaves(noted(&[], Value::Null))
}

/// A session that is deleted while a tool of its sub-agent runs.
#[must_use]
pub fn a_session_that_is_deleted_while_a_child_runs() -> Scenario {
    Scenario::new("a session that is deleted while a child runs", |world| {
        let steps = json!([calls(&[("h1", "charge")]), { "text": "Charged." }]);
        let below = built(child("child", &steps).tools(charge(world, true)));
        let steps = json!([tasks(&[("c1", "subagent__child")]), { "text": "Done." }]);
        built(agent(&steps).tools(Tool::sub_agent(&below)))
    })
    .says("Charge it")
    .deletes()
}
