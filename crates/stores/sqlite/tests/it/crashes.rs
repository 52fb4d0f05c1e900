//! Every scenario, killed at every point, in a file.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use helix_agents_core::runtime::Backend;
use helix_agents_store_sqlite::{SqliteConfig, SqliteStore, Synchronous};
use helix_agents_testkit::HastyClock;

use crate::folder::Folder;

/// Makes a backend in a new file for every play.
fn files() -> impl Fn() -> std::pin::Pin<Box<dyn Future<Output = Backend>>> {
    let folder = Folder::new();
    let count = AtomicUsize::new(0);
    move || {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let path = folder.file(&format!("{number}.db"));
        Box::pin(async move {
            // The process does not really die, so nothing has to reach the disk.
            let config = SqliteConfig::new().synchronous(Synchronous::Normal);
            let config = config.clock(Arc::new(HastyClock::default()));
            let store = SqliteStore::open_with(path, config).await.unwrap();
            store.into()
        })
    }
}

/// On a host that keeps a run in memory.
mod plain {
    use helix_agents_testkit::PlainHost;

    helix_agents_testkit::crash_tests!(PlainHost, super::files());
}

/// On a host that reads everything from the store. It is the loop that differs, and that is tested with every
/// scenario in memory.
mod amnesiac {
    use helix_agents_testkit::AmnesiacHost;

    helix_agents_testkit::crash_tests!(
        AmnesiacHost,
        super::files(),
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
