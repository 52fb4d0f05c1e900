//! Two processes that execute, submit, resume, take over, interrupt, abort and crash in random order, on a
//! store that fails and loses acknowledgements.
//!
//! `HELIX_SEED` is the first seed, and `HELIX_SCHEDULES` the number of schedules on each host.

use helix_agents_testkit::crash::{Hosting, Schedules};

const COUNT: usize = 400;

fn check(hosting: Hosting) {
    let schedules = Schedules::new(hosting).rivals();
    schedules.check("memory", COUNT, super::store);
}

#[test]
fn two_processes_on_the_plain_host_keep_all_guarantees() {
    check(Hosting::Plain);
}

#[test]
fn two_processes_on_a_host_without_memory_keep_all_guarantees() {
    check(Hosting::Amnesiac);
}

#[test]
fn two_processes_on_a_host_that_repeats_effects_keep_all_guarantees() {
    check(Hosting::Crowded);
}

#[test]
fn two_processes_on_a_host_that_hides_the_attempt_keep_all_guarantees() {
    check(Hosting::CrowdedUntold);
}
