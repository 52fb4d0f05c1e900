//! Every scenario, killed at some of its points; at every point with `HELIX_EVERY_POINT`. `HELIX_SEED` decides which.

use std::sync::Arc;

use helix_agents_core::runtime::Backend;
use helix_agents_test_servers::REDIS;
use helix_agents_testkit::HastyClock;

use crate::stores::{open, prefix, quick};

/// A backend with keys of its own.
pub(crate) async fn backend() -> Backend {
    let url = std::env::var(REDIS).unwrap();
    let config = quick(&prefix()).shards(4);
    open(&url, config.clock(Arc::new(HastyClock::default())))
        .await
        .into()
}

/// On a host that keeps a run in memory.
mod plain {
    use helix_agents_testkit::PlainHost;

    helix_agents_testkit::crash_tests!(
        PlainHost,
        super::backend,
        block_on = crate::stores::crash_test,
        sampled = 2,
    );
}

/// On a host that reads everything from the store. It is the loop that differs, and that is tested with every scenario
/// in memory.
mod amnesiac {
    use helix_agents_testkit::AmnesiacHost;

    helix_agents_testkit::crash_tests!(
        AmnesiacHost,
        super::backend,
        block_on = crate::stores::crash_test,
        sampled = 2,
        only = [
            three_tools_in_parallel,
            structured_output,
            a_mixed_batch,
            an_answer_while_siblings_run,
            a_call_that_is_not_idempotent,
            an_interrupt_mid_tool,
            an_abort_while_suspended,
            a_late_answer_after_the_turn,
            a_message_that_takes_the_turn_back,
            a_retry_after_a_failure,
            a_budget_of_tokens_that_is_raised,
            turns_that_are_summarized,
        ],
    );
}
