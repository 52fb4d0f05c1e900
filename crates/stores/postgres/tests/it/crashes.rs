//! Every scenario, killed at some of its points; at every point with `HELIX_EVERY_POINT`. `HELIX_SEED` decides which.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use helix_agents_core::runtime::Backend;
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_testkit::block_on;
use helix_agents_testkit::crash::{CrashTest, Disturbance, Scenario};

use crate::server::{config, open, runtime, schema, send, url};

/// How many points of a scenario are tried by default.
const SAMPLED: usize = 3;

/// A clock that has passed every earlier lease each time it is read, since the holder of a lease is dead
/// when another process of a play asks for it.
#[derive(Debug, Default)]
pub(crate) struct Hasty(AtomicU64);

#[async_trait]
impl Clock for Hasty {
    fn now(&self) -> Timestamp {
        const HOUR: u64 = 3_600_000;
        Timestamp::from_millis(self.0.fetch_add(HOUR, Ordering::Relaxed))
    }

    async fn sleep_until(&self, _: Timestamp) {}
}

/// Makes backends one after another, each with the schema to itself. What the one before has left is removed.
pub(crate) fn backends() -> impl Fn() -> std::pin::Pin<Box<dyn Future<Output = Backend>>> {
    let name = schema();
    move || {
        let name = name.clone();
        Box::pin(async move {
            let config = config(&name).connections(2).notifications(false);
            let store = open(config.clock(Arc::new(Hasty::default()))).await;
            runtime().spawn(empty(name)).await.unwrap();
            store.into()
        })
    }
}

/// Removes everything from the tables of a schema.
async fn empty(schema: String) {
    let tables = "session label message usage state run checkpoint child staged retired_call pending \
                  answered due stream chunk ended_turn lock";
    let tables = tables.split_whitespace();
    let deletions = tables.map(|table| format!("DELETE FROM {schema}.{table};"));
    let mut batch: String = deletions.collect();
    batch.push_str(&format!("UPDATE {schema}.floor SET fence = 0;"));
    send(&url().unwrap(), &batch).await;
}

/// Plays a scenario, killed at some points or at all of them.
fn check(test: &CrashTest) {
    if url().is_none() {
        return;
    }
    let backends = backends();
    if std::env::var_os("HELIX_EVERY_POINT").is_some() {
        let report = block_on(test.every_point(backends));
        assert!(report.points >= 6, "{report:?}");
        report.check();
        return;
    }
    let seed = std::env::var("HELIX_SEED").ok();
    let seed: usize = seed.and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let calm = block_on(test.disturbed(&backends, &Disturbance::default()));
    calm.check();
    assert!(calm.points >= 6, "{calm:?}");
    for sample in 0..SAMPLED {
        // Spread over the scenario, and other ones with each seed.
        let point = (seed * 7 + sample * calm.points / SAMPLED) % calm.points + 1;
        eprintln!(
            "HELIX_SEED={seed}: killed at point {point} of {}",
            calm.points
        );
        let disturbance = Disturbance {
            kills: vec![point],
            ..Disturbance::default()
        };
        block_on(test.disturbed(&backends, &disturbance)).check();
    }
}

macro_rules! crash_tests {
    ($host:expr, $($name:ident)+) => {$(
        #[test]
        fn $name() {
            let scenario: super::Scenario = helix_agents_testkit::scenarios::$name();
            super::check(&super::CrashTest::new(scenario).on($host));
        }
    )+};
}

/// On a host that keeps a run in memory.
mod plain {
    use helix_agents_testkit::PlainHost;

    crash_tests!(
        PlainHost,
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
}

/// On a host that reads everything from the store. It is the loop that differs, and that is tested with every
/// scenario in memory.
mod amnesiac {
    use helix_agents_testkit::AmnesiacHost;

    crash_tests!(
        AmnesiacHost,
        three_tools_in_parallel structured_output a_mixed_batch an_answer_while_siblings_run
        a_call_that_is_not_idempotent an_interrupt_mid_tool an_abort_while_suspended
        a_late_answer_after_the_turn a_message_that_takes_the_turn_back a_retry_after_a_failure
        a_budget_of_tokens_that_is_raised turns_that_are_summarized
    );
}
