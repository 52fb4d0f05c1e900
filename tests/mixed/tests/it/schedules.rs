//! Every scenario under random schedules: the store fails, delays and loses acknowledgements, processes die or only
//! seem to, effects are performed several times, and others answer, stop and write meanwhile. On some hosts the streams
//! refuse every third relay. And two processes that execute, submit, resume, take over, stop and crash in random order.
//!
//! `HELIX_SEED` is the first seed and `HELIX_SCHEDULES` how many there are on each host.

use helix_agents_testkit::crash::{Hosting, Schedules};
use helix_agents_testkit::{scenarios, schedule_tests};

use crate::crashes::backends;
use crate::deployment::{has_servers, runtime};

/// On each host; with those of the rivals 200 in all.
const COUNT: usize = 40;
/// They do more in one schedule.
const RIVALS: usize = 10;
const TREES: usize = 6;

fn check(schedules: &Schedules, count: usize, unsteady: bool) {
    if has_servers() {
        // The threads of this runtime drive the connections while the schedule waits on this thread.
        let _entered = runtime().enter();
        schedules.check("PostgreSQL and Redis", count, backends(unsteady));
    }
}

fn reads_everything(hosting: Hosting) -> bool {
    matches!(hosting, Hosting::Amnesiac | Hosting::CrowdedUntold)
}

schedule_tests!(|hosting| check(&Schedules::new(hosting), COUNT, reads_everything(hosting)));

/// Two processes that do anything at any time.
mod rivals {
    use super::*;

    schedule_tests!(|hosting| {
        let schedules = Schedules::new(hosting).rivals();
        check(&schedules, RIVALS, !reads_everything(hosting));
    });
}

/// Sessions with sub-agents.
mod trees {
    use super::*;

    schedule_tests!(|hosting| {
        let schedules = Schedules::new(hosting).of(scenarios::of_children());
        check(&schedules, TREES, reads_everything(hosting));
    });
}
