//! A store whose streams are elsewhere, and now and then cannot be reached.

use helix_agents_core::memory::{MemoryLog, MemoryStore};
use helix_agents_core::runtime::Backend;
use helix_agents_testkit::UnsteadyLog;
use helix_agents_testkit::crash::{Hosting, Schedules};

async fn store() -> Backend {
    let store = MemoryStore::new().with_outbox();
    Backend::from(store.clone()).streaming_to(store, UnsteadyLog::new(MemoryLog::new()))
}

mod amnesiac {
    use helix_agents_testkit::AmnesiacHost;

    helix_agents_testkit::crash_tests!(AmnesiacHost, super::store);
}

/// proves in part: STR-05
#[test]
fn random_schedules_keep_all_guarantees() {
    for hosting in [Hosting::Amnesiac, Hosting::CrowdedUntold] {
        Schedules::new(hosting).check("memory and streams elsewhere", 100, store);
    }
}
