//! Random schedules notice a store that is broken on purpose.

use helix_agents_core::runtime::Backend;
use helix_agents_testkit::crash::{Hosting, Schedules};

use crate::broken::{Broken, Defect};

#[test]
fn a_store_that_loses_preconditions_is_noticed() {
    let store = || async { Backend::new(Broken::new(Some(Defect::LostPrecondition))) };
    let report = Schedules::new(Hosting::Crowded).play(1..=60, store);
    assert_eq!(report.played, 60);
    assert!(report.kills > 5 && report.accepted > 10, "{report:?}");
    assert!(!report.violations.is_empty());
}
