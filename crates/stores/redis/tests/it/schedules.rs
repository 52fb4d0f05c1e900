//! Every scenario under random schedules: the store fails, delays and loses acknowledgements, processes die or only
//! seem to, effects are performed several times, and others answer, stop and write meanwhile. And two processes that
//! execute, submit, resume, take over, stop and crash in random order.
//!
//! `HELIX_SEED` is the first seed and `HELIX_SCHEDULES` how many there are on each host.

use helix_agents_test_servers::{REDIS, shared};
use helix_agents_testkit::crash::Schedules;
use helix_agents_testkit::{scenarios, schedule_tests};

use crate::crashes::backend;
use crate::stores::runtime;

/// On each host; with those of the rivals 200 in all.
const COUNT: usize = 40;
/// They do more in one schedule.
const RIVALS: usize = 10;
const TREES: usize = 6;

fn check(schedules: &Schedules, count: usize) {
    if shared(REDIS).is_none() {
        return;
    }
    // The threads of this runtime drive the connections while the schedule waits on this thread.
    let _entered = runtime().enter();
    schedules.check("Redis", count, backend);
}

schedule_tests!(|hosting| check(&Schedules::new(hosting), COUNT));

/// Two processes that do anything at any time.
mod rivals {
    use super::*;

    schedule_tests!(|hosting| check(&Schedules::new(hosting).rivals(), RIVALS));
}

/// Sessions with sub-agents.
mod trees {
    use super::*;

    schedule_tests!(|hosting| check(&Schedules::new(hosting).of(scenarios::of_children()), TREES));
}
