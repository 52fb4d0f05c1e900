//! A small model checker: orders of the store calls that two executors, a submitter and a stopper
//! make on one session.
//!
//! `HELIX_SEED` is the first seed of the random orders, and `HELIX_ORDERS` their
//! number for each scenario.

use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::StopKind;
use helix_agents_testkit::crash::{InterleavingReport, Interleavings, Scenario};
use helix_agents_testkit::scenarios;

fn store() -> Backend {
    MemoryStore::new().into()
}

/// Scenarios, and how much deeper their orders can be explored than those of the longest.
fn small() -> [(Scenario, usize); 4] {
    let soak = usize::from(number("HELIX_ORDERS", 0) >= 1000);
    [
        (scenarios::a_client_tool(), 1 + soak),
        (scenarios::an_approval_that_is_given(), 1 + soak),
        (scenarios::a_call_that_is_not_idempotent(), soak),
        (scenarios::two_pauses_in_one_turn(), soak),
    ]
}

/// Reads a number from an environment variable.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[expect(clippy::print_stderr, reason = "a test says what it tried")]
fn check(scenario: &Scenario, report: &InterleavingReport, least: usize) {
    let InterleavingReport {
        orders, violations, ..
    } = report;
    eprintln!("{}: {orders} orders", scenario.name());
    assert!(*orders >= least, "only {orders} orders");
    let shown: Vec<_> = violations.iter().take(20).collect();
    let (name, count) = (scenario.name(), violations.len());
    assert!(
        violations.is_empty(),
        "{name}: {count} violations in {orders} orders: {shown:#?}"
    );
}

#[test]
fn every_order_of_an_executor_and_a_take_over_keeps_all_guarantees() {
    for (scenario, more) in small() {
        let orders = Interleavings::new(scenario.clone()).takes_over();
        let orders = orders.every_order(2 + more / 2, store);
        check(&scenario, &orders, 100);
    }
}

#[test]
fn every_order_of_an_executor_and_a_submitter_keeps_all_guarantees() {
    for (scenario, more) in small() {
        let orders = Interleavings::new(scenario.clone()).answers();
        check(&scenario, &orders.every_order(2 + more, store), 30);
    }
}

#[test]
fn every_order_of_an_executor_and_a_stopper_keeps_all_guarantees() {
    for (scenario, more) in small() {
        for kind in [StopKind::Interrupt, StopKind::Abort] {
            let orders = Interleavings::new(scenario.clone()).stops(kind);
            check(&scenario, &orders.every_order(2 + more, store), 30);
        }
    }
}

#[test]
fn every_order_of_an_executor_a_submitter_and_a_stopper_keeps_all_guarantees() {
    for (scenario, more) in small() {
        for kind in [StopKind::Interrupt, StopKind::Abort] {
            let orders = Interleavings::new(scenario.clone()).answers().stops(kind);
            check(&scenario, &orders.every_order(1 + more, store), 50);
        }
    }
}

#[test]
fn random_orders_of_all_actors_keep_all_guarantees() {
    let seed = number("HELIX_SEED", 1);
    let count = number("HELIX_ORDERS", 90);
    eprintln!("HELIX_SEED={seed} HELIX_ORDERS={count}");
    for scenario in scenarios::all() {
        for kind in [None, Some(StopKind::Interrupt), Some(StopKind::Abort)] {
            let orders = Interleavings::new(scenario.clone()).takes_over().answers();
            let orders = match kind {
                Some(kind) => orders.stops(kind),
                None => orders,
            };
            let seeds = seed..seed.saturating_add(count / 3);
            check(&scenario, &orders.random_orders(seeds, store), 1);
        }
    }
}
