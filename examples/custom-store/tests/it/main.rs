//! The contract suites of stores and streams, and some scenarios killed at every point.

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

    // A store that is meant for production leaves `only` out.
    helix_agents_testkit::crash_tests!(
        PlainHost,
        || async { JsonStore::new().into() },
        only = [
            plain_text,
            three_tools_in_parallel,
            a_mixed_batch,
            an_interrupt_mid_tool,
            a_message_that_takes_the_turn_back,
            a_return_over_a_pause,
            a_budget_of_tokens_that_is_raised,
            turns_that_are_summarized,
        ],
    );
}
