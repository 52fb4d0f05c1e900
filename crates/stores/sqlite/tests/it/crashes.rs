//! Every scenario, killed at every point, in a file.

use std::sync::atomic::{AtomicUsize, Ordering};

use helix_agents_core::runtime::Backend;
use helix_agents_store_sqlite::{SqliteConfig, SqliteStore, Synchronous};

use crate::folder::Folder;

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
