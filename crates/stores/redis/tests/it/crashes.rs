//! Every scenario, killed at some of its points; at every point with `HELIX_EVERY_POINT`. `HELIX_SEED` decides which.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use helix_agents_core::runtime::Backend;
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_test_servers::REDIS;

use crate::stores::{open, prefix, quick};

/// A clock that has passed every earlier lease each time it is read, since the holder of a lease is dead when another
/// process of a play asks for it.
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

/// A backend with keys of its own.
pub(crate) async fn backend() -> Backend {
    let url = std::env::var(REDIS).unwrap();
    let config = quick(&prefix()).shards(4);
    open(&url, config.clock(Arc::new(Hasty::default())))
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
