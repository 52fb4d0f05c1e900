//! Every scenario under random schedules: the store fails, delays and loses acknowledgements, processes die or only
//! seem to, effects are performed several times, and others answer, stop and write meanwhile. And two processes that
//! execute, submit, resume, take over, stop and crash in random order.
//!
//! `HELIX_SEED` is the first seed and `HELIX_SCHEDULES` how many there are on each host.

use helix_agents_test_servers::{REDIS, shared};
use helix_agents_testkit::crash::{Hosting, Schedules};

use crate::crashes::backend;
use crate::stores::runtime;

const COUNT: usize = 50;

fn check(schedules: &Schedules, count: usize) {
    if shared(REDIS).is_none() {
        return;
    }
    // The threads of this runtime drive the connections while the schedule waits on this thread.
    let _entered = runtime().enter();
    schedules.check("Redis", count, backend);
}

#[test]
fn on_a_host_that_keeps_runs_in_memory() {
    check(&Schedules::new(Hosting::Plain), COUNT);
}

#[test]
fn on_a_host_that_reads_everything_from_the_store() {
    check(&Schedules::new(Hosting::Amnesiac), COUNT);
}

#[test]
fn on_a_host_that_performs_effects_several_times() {
    check(&Schedules::new(Hosting::Crowded), COUNT);
}

#[test]
fn on_a_host_that_does_not_say_which_attempt_is_the_first() {
    check(&Schedules::new(Hosting::CrowdedUntold), COUNT);
}

/// Two processes that do anything at any time.
mod rivals {
    use super::{Hosting, Schedules, check};

    /// They do more in one schedule.
    const COUNT: usize = 25;

    #[test]
    fn on_a_host_that_keeps_runs_in_memory() {
        check(&Schedules::new(Hosting::Plain).rivals(), COUNT);
    }

    #[test]
    fn on_a_host_that_reads_everything_from_the_store() {
        check(&Schedules::new(Hosting::Amnesiac).rivals(), COUNT);
    }

    #[test]
    fn on_a_host_that_performs_effects_several_times() {
        check(&Schedules::new(Hosting::Crowded).rivals(), COUNT);
    }

    #[test]
    fn on_a_host_that_does_not_say_which_attempt_is_the_first() {
        check(&Schedules::new(Hosting::CrowdedUntold).rivals(), COUNT);
    }
}
