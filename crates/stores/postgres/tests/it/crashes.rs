//! Every scenario, killed at some of its points; at every point with `HELIX_EVERY_POINT`. `HELIX_SEED` decides which.

use std::sync::Arc;

use helix_agents_core::runtime::Backend;
use helix_agents_testkit::crash::CrashReport;
use helix_agents_testkit::{HastyClock, block_on};

use crate::server::{config, open, runtime, schema, send, url};

/// Makes backends one after another, each with the schema to itself. What the one before has left is removed.
pub(crate) fn backends() -> impl Fn() -> std::pin::Pin<Box<dyn Future<Output = Backend>>> {
    let name = schema();
    move || {
        let name = name.clone();
        Box::pin(async move {
            let config = config(&name).connections(2).notifications(false);
            let store = open(config.clock(Arc::new(HastyClock::default()))).await;
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

/// Plays a crash test, or skips it. The threads of the runtime drive the connections meanwhile.
pub(crate) fn play<F: Future<Output = CrashReport>>(test: F) -> Option<CrashReport> {
    url().map(|_| block_on(test))
}

/// On a host that keeps a run in memory.
mod plain {
    use helix_agents_testkit::PlainHost;

    helix_agents_testkit::crash_tests!(
        PlainHost,
        super::backends(),
        block_on = super::play,
        sampled = 2,
    );
}

/// On a host that reads everything from the store. It is the loop that differs, and that is tested with every scenario
/// in memory.
mod amnesiac {
    use helix_agents_testkit::AmnesiacHost;

    helix_agents_testkit::crash_tests!(
        AmnesiacHost,
        super::backends(),
        block_on = super::play,
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
