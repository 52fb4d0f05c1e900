//! The contract suites of stores and streams, and every scenario killed at every point.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use custom_store::JsonStore;
use helix_agents_testkit::contract::Subject;

/// A fresh store in memory; the cases about durability open one in a file.
async fn fresh() -> Subject {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sessions.json");
    Subject::from(JsonStore::new())
        .reopened_by(async move || JsonStore::open(&file).unwrap())
        .keeping(folder)
}

mod contract {
    helix_agents_testkit::store_contract!(super::fresh);
    helix_agents_testkit::stream_contract!(super::fresh);
}

mod crashes {
    use helix_agents_testkit::PlainHost;

    use super::JsonStore;

    helix_agents_testkit::crash_tests!(PlainHost, || async { JsonStore::new().into() });
}
