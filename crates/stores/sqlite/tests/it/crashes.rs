//! Every scenario, killed at every point, in a file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use async_trait::async_trait;
use helix_agents_core::runtime::Backend;
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_store_sqlite::{SqliteConfig, SqliteStore, Synchronous};

use crate::folder::Folder;

/// Whoever held a lease in a play is dead when somebody else asks for it: each look at this clock is
/// past every lease that was given before.
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

/// Gives a new file for every play.
fn files() -> impl Fn() -> std::pin::Pin<Box<dyn Future<Output = Backend>>> {
    let folder = Folder::new();
    let count = AtomicUsize::new(0);
    move || {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let path = folder.file(&format!("{number}.db"));
        Box::pin(async move {
            // Death is played here, and what is played keeps what was written without the disk.
            let config = SqliteConfig::new().synchronous(Synchronous::Normal);
            let config = config.clock(Arc::new(Hasty::default()));
            let store = SqliteStore::open_with(path, config).await.unwrap();
            store.into()
        })
    }
}

/// On the plainest host.
mod plain {
    use helix_agents_testkit::PlainHost;

    helix_agents_testkit::crash_tests!(PlainHost, super::files());
}

/// On a host that keeps nothing.
mod amnesiac {
    use helix_agents_testkit::AmnesiacHost;

    helix_agents_testkit::crash_tests!(AmnesiacHost, super::files());
}
