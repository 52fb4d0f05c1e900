//! Counted ids.

use helix_agents_core::id::{IdSource, IdSourceExt};
use helix_agents_testkit::SequentialIds;

#[test]
fn every_prefix_counts_for_itself() {
    let ids = SequentialIds::new();
    let given = ["run", "run", "step", "run", "step"].map(|prefix| ids.next(prefix));
    assert_eq!(given, ["run-1", "run-2", "step-1", "run-3", "step-2"]);
}

#[test]
fn two_sources_give_the_same_ids() {
    let (one, two) = (SequentialIds::new(), SequentialIds::new());
    assert_eq!(one.run_id(), two.run_id());
    assert_eq!(one.call_id(), two.call_id());
    assert_eq!(one.call_id().unwrap().as_str(), "call-2");
}
