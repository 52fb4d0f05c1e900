//! Random schedules, rivals and orders over sessions with sub-agents.
//!
//! `HELIX_SEED` and `HELIX_SCHEDULES` are as for the other schedules.

use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::Backend;
use helix_agents_testkit::crash::{Hosting, Interleavings, Schedules};
use helix_agents_testkit::scenarios;

/// The schedules of the everyday run, on each host.
const COUNT: usize = 120;

fn check(hosting: Hosting) {
    let schedules = Schedules::new(hosting).of(scenarios::of_children());
    schedules.check("trees in memory", COUNT, super::store);
}

#[test]
fn random_schedules_on_the_plain_host_keep_all_guarantees() {
    check(Hosting::Plain);
}

#[test]
fn random_schedules_on_the_amnesiac_host_keep_all_guarantees() {
    check(Hosting::Amnesiac);
}

#[test]
fn random_schedules_on_the_crowded_host_keep_all_guarantees() {
    check(Hosting::Crowded);
}

#[test]
fn random_schedules_on_the_untold_crowded_host_keep_all_guarantees() {
    check(Hosting::CrowdedUntold);
}

#[test]
fn rivals_keep_all_guarantees() {
    let schedules = Schedules::new(Hosting::Plain).of(scenarios::of_children());
    schedules
        .rivals()
        .check("trees in memory", COUNT, super::store);
}

#[test]
fn random_orders_of_all_actors_keep_all_guarantees() {
    let store = || -> Backend { MemoryStore::new().into() };
    for scenario in scenarios::of_children() {
        let orders = Interleavings::new(scenario.clone()).takes_over().answers();
        let report = orders.random_orders(1..41, store);
        let name = scenario.name();
        assert_eq!(report.violations, Vec::<String>::new(), "{name}");
    }
}
