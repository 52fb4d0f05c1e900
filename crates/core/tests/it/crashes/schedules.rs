//! Plays every scenario by random schedules: the store fails, delays and loses answers,
//! processes die or only seem to, effects are performed several times, and other actors answer,
//! stop and write meanwhile.
//!
//! `HELIX_SEED` is the first seed, and `HELIX_SCHEDULES` the number of schedules on each host.

use helix_agents_testkit::crash::{Hosting, Schedules};

const COUNT: usize = 400;

fn check(hosting: Hosting) {
    Schedules::new(hosting).check("memory", COUNT, super::store);
}

#[test]
fn random_schedules_on_the_plain_host_keep_all_guarantees() {
    check(Hosting::Plain);
}

#[test]
fn random_schedules_on_a_host_without_memory_keep_all_guarantees() {
    check(Hosting::Amnesiac);
}

#[test]
fn random_schedules_on_a_host_that_repeats_effects_keep_all_guarantees() {
    check(Hosting::Crowded);
}

#[test]
fn random_schedules_on_a_host_that_hides_the_attempt_keep_all_guarantees() {
    check(Hosting::CrowdedUntold);
}
