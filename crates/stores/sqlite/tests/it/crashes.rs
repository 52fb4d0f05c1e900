//! Every scenario, killed at every point, in a file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use async_trait::async_trait;
use helix_agents_core::runtime::Backend;
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_store_sqlite::{SqliteConfig, SqliteStore, Synchronous};

use crate::folder::Folder;

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
            let config = config.clock(Arc::new(Hasty::default()));
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
