//! Plays every scenario in memory and crashes at every point.

/// Hosts that violate their contract.
mod bad_hosts;
/// Random interleavings.
mod interleavings;
/// Every order of the store calls of two executors, a submitter and a stopper.
mod orders;
/// Streams in another place than the store.
mod relayed;
/// A host whose engine delivers every effect twice.
mod repeating;
/// Two processes that do anything at any time.
mod rivals;
/// Random schedules on a store that misbehaves.
mod schedules;
mod trees;

use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::Backend;

async fn store() -> Backend {
    MemoryStore::new().into()
}

/// On the simplest host.
mod plain {
    use helix_agents_testkit::PlainHost;

    helix_agents_testkit::crash_tests!(PlainHost, super::store);
}

/// On a host that keeps nothing in memory.
mod amnesiac {
    use helix_agents_testkit::AmnesiacHost;

    helix_agents_testkit::crash_tests!(AmnesiacHost, super::store);
}
