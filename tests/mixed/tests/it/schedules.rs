//! Every scenario under random schedules: the store fails, delays and loses acknowledgements, processes die or only
//! seem to, effects are performed several times, and others answer, stop and write meanwhile. On some hosts the streams
//! refuse every third relay. And two processes that execute, submit, resume, take over, stop and crash in random order.
//!
//! `HELIX_SEED` is the first seed and `HELIX_SCHEDULES` how many there are on each host.

use helix_agents_testkit::crash::{Hosting, Schedules};

use crate::crashes::backends;
use crate::deployment::{has_servers, runtime};

/// On each host; with those of the rivals 200 in all.
const COUNT: usize = 40;
/// They do more in one schedule.
const RIVALS: usize = 10;

fn check(schedules: &Schedules, count: usize, unsteady: bool) {
    if has_servers() {
        // The threads of this runtime drive the connections while the schedule waits on this thread.
        let _entered = runtime().enter();
        schedules.check("PostgreSQL and Redis", count, backends(unsteady));
    }
}

#[test]
fn on_a_host_that_keeps_runs_in_memory() {
    check(&Schedules::new(Hosting::Plain), COUNT, false);
}

#[test]
fn on_a_host_that_reads_everything_from_the_store() {
    check(&Schedules::new(Hosting::Amnesiac), COUNT, true);
}

#[test]
fn on_a_host_that_performs_effects_several_times() {
    check(&Schedules::new(Hosting::Crowded), COUNT, false);
}

#[test]
fn on_a_host_that_does_not_say_which_attempt_is_the_first() {
    check(&Schedules::new(Hosting::CrowdedUntold), COUNT, true);
}

/// Two processes that do anything at any time.
mod rivals {
    use super::{Hosting, RIVALS, Schedules, check};

    #[test]
    fn on_a_host_that_keeps_runs_in_memory() {
        check(&Schedules::new(Hosting::Plain).rivals(), RIVALS, true);
    }

    #[test]
    fn on_a_host_that_reads_everything_from_the_store() {
        check(&Schedules::new(Hosting::Amnesiac).rivals(), RIVALS, false);
    }

    #[test]
    fn on_a_host_that_performs_effects_several_times() {
        check(&Schedules::new(Hosting::Crowded).rivals(), RIVALS, true);
    }

    #[test]
    fn on_a_host_that_does_not_say_which_attempt_is_the_first() {
        check(
            &Schedules::new(Hosting::CrowdedUntold).rivals(),
            RIVALS,
            false,
        );
    }
}
