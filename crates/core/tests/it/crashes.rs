//! Every scenario, killed at every point, in memory.

/// Hosts that do what a host must not do.
mod bad_hosts;
/// Random interleavings.
mod interleavings;
/// Every order of what two executors, a submitter and a stopper do.
mod orders;
/// A host whose engine delivers every effect twice.
mod repeating;
/// Random schedules on a store that misbehaves.
mod schedules;

use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::Backend;

async fn store() -> Backend {
    MemoryStore::new().into()
}

/// On the plainest host.
mod plain {
    use helix_agents_testkit::PlainHost;

    helix_agents_testkit::crash_tests!(PlainHost, super::store);
}

/// On a host that keeps nothing.
mod amnesiac {
    use helix_agents_testkit::AmnesiacHost;

    helix_agents_testkit::crash_tests!(AmnesiacHost, super::store);
}
