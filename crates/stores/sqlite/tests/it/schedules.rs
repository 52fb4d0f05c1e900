//! Every scenario under random schedules: the store fails, delays and loses acknowledgements, processes
//! die or only seem to, effects are performed several times, and others answer, stop and write meanwhile.
//! And two processes that execute, submit, resume, take over, stop and crash in random order.
//!
//! `HELIX_SEED` is the first seed and `HELIX_SCHEDULES` how many there are on each host.

use std::sync::Arc;

use helix_agents_core::runtime::Backend;
use helix_agents_store_sqlite::{SqliteConfig, SqliteStore};
use helix_agents_testkit::crash::{Hosting, Schedules};

use crate::crashes::Hasty;

const COUNT: usize = 120;

async fn store() -> Backend {
    let config = SqliteConfig::new().clock(Arc::new(Hasty::default()));
    SqliteStore::in_memory_with(config).await.unwrap().into()
}

fn check(hosting: Hosting) {
    Schedules::new(hosting).check("SQLite", COUNT, store);
}

#[test]
fn on_a_host_that_keeps_runs_in_memory() {
    check(Hosting::Plain);
}

#[test]
fn on_a_host_that_reads_everything_from_the_store() {
    check(Hosting::Amnesiac);
}

#[test]
fn on_a_host_that_performs_effects_several_times() {
    check(Hosting::Crowded);
}

#[test]
fn on_a_host_that_does_not_say_which_attempt_is_the_first() {
    check(Hosting::CrowdedUntold);
}

/// Two processes that do anything at any time.
mod rivals {
    use super::{Hosting, Schedules, store};

    /// They do more in one schedule.
    const COUNT: usize = 60;

    fn check(hosting: Hosting) {
        let schedules = Schedules::new(hosting).rivals();
        schedules.check("SQLite", COUNT, store);
    }

    #[test]
    fn on_a_host_that_keeps_runs_in_memory() {
        check(Hosting::Plain);
    }

    #[test]
    fn on_a_host_that_reads_everything_from_the_store() {
        check(Hosting::Amnesiac);
    }

    #[test]
    fn on_a_host_that_performs_effects_several_times() {
        check(Hosting::Crowded);
    }

    #[test]
    fn on_a_host_that_does_not_say_which_attempt_is_the_first() {
        check(Hosting::CrowdedUntold);
    }
}
