//! The scenarios that every host and every store must pass, killed at every point.

mod budgets;
mod children;
mod contexts;
mod deadlines;
mod people;
mod replies;
mod returns;
mod stops;
mod texts;
mod tools;

use std::sync::Arc;

use helix_agents_core::agent::AgentBuilder;
use helix_agents_core::model::Model;
use helix_agents_core::tool::{Tool, ToolBuilder, ToolCx};
use helix_agents_core::usage::CustomUsage;
use helix_agents_core::{Agent, ToolResult};
use helix_agents_models::{Script, ScriptedModel};
use serde_json::{Value, json};

use crate::crash::{Scenario, World};

pub use budgets::{
    a_budget_of_steps_that_is_raised, a_budget_of_tokens_that_is_raised,
    a_model_that_fails_under_a_budget, tool_calls_beyond_a_budget,
};
pub use children::{
    a_child_that_waits_beside_an_approval, a_client_tool_inside_of_a_blocking_companion,
    a_companion_that_ends_while_its_caller_waits, a_companion_that_is_consulted_again,
    a_companion_that_is_ended, a_session_that_is_deleted_while_a_child_runs,
    an_approval_inside_of_a_grandchild, an_interrupt_while_a_child_runs,
    children_of_which_one_fails, children_that_share_a_budget, children_that_wait,
};
pub use contexts::{turns_that_are_left_out, turns_that_are_summarized};
pub use deadlines::{
    a_deadline_that_passes, a_late_answer_after_the_turn,
    a_late_answer_before_the_timeout_is_taken, a_late_answer_to_a_run_in_progress,
};
pub use people::{
    a_client_tool, a_mixed_batch, an_answer_while_siblings_run, an_approval_that_is_denied,
    an_approval_that_is_given, two_pauses_in_one_turn,
};
pub use replies::{
    a_model_that_fails_first, a_slow_reply, finish_beside_other_calls, forced_completion,
    plain_text, several_turns, structured_output,
};
pub use returns::{
    a_branch_while_the_source_runs, a_retry_after_a_failure, a_retry_after_an_interrupt,
    a_return_over_a_pause,
};
pub use stops::{
    an_abort_mid_reply, an_abort_mid_tool, an_abort_while_suspended, an_interrupt_mid_reply,
    an_interrupt_mid_tool, an_interrupt_that_a_tool_ignores, an_interrupt_while_suspended,
    two_interrupts_in_one_turn,
};
pub use texts::{
    a_message_that_interrupts_a_reply, a_message_that_interrupts_a_tool, a_message_that_is_refused,
    a_message_that_takes_the_turn_back, a_message_that_waits,
};
pub use tools::{
    a_call_that_is_not_idempotent, a_finishing_tool, a_tool_that_ends_the_run, a_tool_that_fails,
    three_tools_in_parallel,
};

/// Makes one test per scenario: `$store` makes a new, empty backend, `$host` is the host. For a
/// store that needs an async runtime, `block_on` is a function that runs a future on it, as in
/// `store_contract!`; it may return an `Option` of its result, `None` for a test that is skipped. `sampled = 3` kills it at three points of each scenario and not at every one
/// ([`CrashTest::some_points`](crate::crash::CrashTest::some_points)). `only = [..]` chooses some
/// scenarios by their names.
#[macro_export]
macro_rules! crash_tests {
    ($host:expr, $store:expr $(,)?) => {
        $crate::crash_tests!($host, $store, block_on = $crate::block_on);
    };
    ($host:expr, $store:expr, only = [$($name:ident),+ $(,)?] $(,)?) => {
        $crate::crash_tests!(@ $host, $store, $crate::block_on, [], $($name)+);
    };
    (
        $host:expr, $store:expr, block_on = $block_on:path $(, sampled = $count:literal)?,
        only = [$($name:ident),+ $(,)?] $(,)?
    ) => {
        $crate::crash_tests!(@ $host, $store, $block_on, [$($count)?], $($name)+);
    };
    ($host:expr, $store:expr, block_on = $block_on:path $(, sampled = $count:literal)? $(,)?) => {
        $crate::crash_tests!(@ $host, $store, $block_on, [$($count)?],
            plain_text three_tools_in_parallel a_tool_that_fails structured_output
            forced_completion finish_beside_other_calls a_client_tool an_approval_that_is_given
            an_approval_that_is_denied a_mixed_batch two_pauses_in_one_turn
            an_answer_while_siblings_run a_call_that_is_not_idempotent a_finishing_tool
            a_model_that_fails_first a_tool_that_ends_the_run several_turns a_slow_reply
            an_interrupt_mid_reply an_interrupt_mid_tool an_interrupt_that_a_tool_ignores
            an_interrupt_while_suspended an_abort_mid_reply an_abort_mid_tool
            an_abort_while_suspended two_interrupts_in_one_turn
            a_deadline_that_passes a_late_answer_before_the_timeout_is_taken
            a_late_answer_to_a_run_in_progress a_late_answer_after_the_turn
            a_message_that_interrupts_a_reply a_message_that_interrupts_a_tool
            a_message_that_waits a_message_that_is_refused
            a_message_that_takes_the_turn_back a_retry_after_a_failure
            a_retry_after_an_interrupt a_return_over_a_pause
            a_branch_while_the_source_runs a_budget_of_steps_that_is_raised
            a_budget_of_tokens_that_is_raised tool_calls_beyond_a_budget
            a_model_that_fails_under_a_budget turns_that_are_left_out turns_that_are_summarized
            children_of_which_one_fails an_approval_inside_of_a_grandchild children_that_wait
            a_child_that_waits_beside_an_approval an_interrupt_while_a_child_runs
            children_that_share_a_budget a_client_tool_inside_of_a_blocking_companion
            a_companion_that_ends_while_its_caller_waits a_companion_that_is_consulted_again
            a_companion_that_is_ended a_session_that_is_deleted_while_a_child_runs
        );
    };
    (@ $host:expr, $store:expr, $block_on:path, $points:tt, $($name:ident)*) => {$(
        #[test]
        fn $name() {
            let scenario = $crate::scenarios::$name();
            let test = $crate::crash::CrashTest::new(scenario).on($host);
            let report = $block_on($crate::crash_tests!(@play test, $store, $points));
            if let Some(report) = Option::<$crate::crash::CrashReport>::from(report) {
                assert!(report.points >= 6, "{report:?}");
                report.check();
            }
        }
    )*};
    (@play $test:ident, $store:expr, []) => {
        $test.every_point($store)
    };
    (@play $test:ident, $store:expr, [$count:literal]) => {
        $test.some_points($store, $count)
    };
}

/// Makes one test per [`Hosting`](crate::crash::Hosting), which calls the function with it.
///
/// ```
/// use helix_agents_core::memory::MemoryStore;
/// use helix_agents_testkit::crash::{Hosting, Schedules};
///
/// fn check(hosting: Hosting) {
///     let store = || async { MemoryStore::new().into() };
///     Schedules::new(hosting).check("memory", 3, store);
/// }
///
/// helix_agents_testkit::schedule_tests!(check);
/// ```
#[macro_export]
macro_rules! schedule_tests {
    ($check:expr) => {
        #[test]
        fn on_a_host_that_keeps_runs_in_memory() {
            ($check)($crate::crash::Hosting::Plain);
        }

        #[test]
        fn on_a_host_that_reads_everything_from_the_store() {
            ($check)($crate::crash::Hosting::Amnesiac);
        }

        #[test]
        fn on_a_host_that_performs_effects_several_times() {
            ($check)($crate::crash::Hosting::Crowded);
        }

        #[test]
        fn on_a_host_that_does_not_say_which_attempt_is_the_first() {
            ($check)($crate::crash::Hosting::CrowdedUntold);
        }
    };
}

/// The scenarios with sub-agents that random schedules and orders play.
#[must_use]
pub fn of_children() -> Vec<Scenario> {
    vec![
        children_of_which_one_fails(),
        an_approval_inside_of_a_grandchild(),
        children_that_wait(),
        a_child_that_waits_beside_an_approval(),
        a_client_tool_inside_of_a_blocking_companion(),
        a_companion_that_is_consulted_again(),
    ]
}

/// Every scenario that random schedules play, in a fixed order: seeds refer to positions in it. Those in which
/// deadlines pass, messages are sent during a run, turns are begun again, limits are raised, or sub-agents work are
/// left to the crash tests.
#[must_use]
pub fn all() -> Vec<Scenario> {
    vec![
        plain_text(),
        three_tools_in_parallel(),
        a_tool_that_fails(),
        structured_output(),
        forced_completion(),
        finish_beside_other_calls(),
        a_client_tool(),
        an_approval_that_is_given(),
        an_approval_that_is_denied(),
        a_mixed_batch(),
        two_pauses_in_one_turn(),
        an_answer_while_siblings_run(),
        a_call_that_is_not_idempotent(),
        a_finishing_tool(),
        a_model_that_fails_first(),
        a_tool_that_ends_the_run(),
        several_turns(),
        a_slow_reply(),
        an_interrupt_mid_reply(),
        an_interrupt_mid_tool(),
        an_interrupt_that_a_tool_ignores(),
        an_interrupt_while_suspended(),
        an_abort_mid_reply(),
        an_abort_mid_tool(),
        an_abort_while_suspended(),
        two_interrupts_in_one_turn(),
        turns_that_are_left_out(),
        turns_that_are_summarized(),
    ]
}

/// The scenarios whose agents rivals use besides those of [`all`].
pub(crate) fn of_rivals() -> Vec<Scenario> {
    vec![
        a_deadline_that_passes(),
        a_late_answer_after_the_turn(),
        a_late_answer_to_a_run_in_progress(),
        a_retry_after_a_failure(),
        a_message_that_takes_the_turn_back(),
        a_return_over_a_pause(),
    ]
}

/// A model that gives these replies step by step, whatever the request.
fn model(steps: &Value) -> Arc<dyn Model> {
    let script = json!({ "default": steps }).to_string();
    match Script::parse(&script) {
        Ok(script) => Arc::new(ScriptedModel::new(script)),
        Err(error) => unreachable!("a scenario's script is wrong: {error}"),
    }
}

/// An agent with a small initial state.
fn agent(steps: &Value) -> AgentBuilder {
    Agent::builder("worker")
        .model(model(steps))
        .system_prompt("You work.")
        .initial_state(json!({ "notes": [], "count": 0, "last": null }))
}

fn built<Out>(agent: AgentBuilder<Out>) -> Agent<Out> {
    match agent.build() {
        Ok(agent) => agent,
        Err(error) => unreachable!("a scenario's agent is wrong: {error}"),
    }
}

fn with_output(agent: AgentBuilder) -> AgentBuilder<Value> {
    agent.output_schema(json!({
        "type": "object",
        "required": ["summary"],
        "properties": { "summary": { "type": "string" } },
    }))
}

/// A tool that records its arguments in the state and in the stream, and has a kill point.
fn note(world: &World, name: &str) -> ToolBuilder {
    let switch = world.switch.clone();
    let name = name.to_owned();
    let inside = name.clone();
    Tool::raw(
        name,
        "Notes something.",
        json!({ "type": "object", "properties": { "text": { "type": "string" } } }),
        move |arguments: Value, cx: ToolCx| {
            let switch = switch.clone();
            let name = inside.clone();
            async move {
                let text = arguments.get("text").cloned().unwrap_or_default();
                cx.edit_state(|draft| {
                    draft.push("/notes", text.clone())?;
                    draft.increment("/count", 1)?;
                    draft.set("/last", name.as_str())
                })?;
                switch.pass(&format!("inside of {name}")).await;
                cx.emit("noted", &text)?;
                cx.record_usage(CustomUsage::new("ink", 1.0))?;
                let result: ToolResult<Value> = Ok(json!({ "noted": text }));
                result
            }
        },
    )
    .idempotent()
}

/// A call of a tool, for a script.
fn call(id: &str, name: &str) -> Value {
    json!({ "id": id, "name": name, "arguments": { "text": id } })
}

fn calls(calls: &[(&str, &str)]) -> Value {
    let calls: Vec<_> = calls.iter().map(|(id, name)| call(id, name)).collect();
    json!({ "text": "Let me see.", "tool_calls": calls })
}

/// The state after these notes, the last of them by this tool.
fn noted(notes: &[&str], last: impl Into<Value>) -> Value {
    json!({ "notes": notes, "count": notes.len(), "last": last.into() })
}

fn client(name: &str) -> ToolBuilder {
    Tool::client_raw(name, "Asks the browser.", json!({ "type": "object" }))
}

fn gated(world: &World) -> ToolBuilder {
    note(world, "refund").approval()
}
