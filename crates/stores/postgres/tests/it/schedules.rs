//! Every scenario under random schedules: the store fails, delays and loses acknowledgements, processes die or only
//! seem to, effects are performed several times, and others answer, stop and write meanwhile. And two processes that
//! execute, submit, resume, take over, stop and crash in random order.
//!
//! `HELIX_SEED` is the first seed and `HELIX_SCHEDULES` how many there are on each host.

use helix_agents_testkit::crash::Schedules;
use helix_agents_testkit::{scenarios, schedule_tests};

use crate::crashes::backends;
use crate::server::url;

/// On each host; with those of the rivals 200 in all.
const COUNT: usize = 40;
/// They do more in one schedule.
const RIVALS: usize = 10;
const TREES: usize = 6;

fn check(schedules: &Schedules, count: usize) {
    if url().is_some() {
        schedules.check("PostgreSQL", count, backends());
    }
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
