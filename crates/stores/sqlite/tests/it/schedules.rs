//! Every scenario under random schedules: the store fails, delays and loses acknowledgements, processes die or only
//! seem to, effects are performed several times, and others answer, stop and write meanwhile. And two processes that
//! execute, submit, resume, take over, stop and crash in random order.
//!
//! `HELIX_SEED` is the first seed and `HELIX_SCHEDULES` how many there are on each host.

use std::sync::Arc;

use helix_agents_core::runtime::Backend;
use helix_agents_store_sqlite::{SqliteConfig, SqliteStore};
use helix_agents_testkit::crash::{Hosting, Schedules};
use helix_agents_testkit::{HastyClock, scenarios, schedule_tests};

/// On each host.
const COUNT: usize = 120;
/// They do more in one schedule.
const RIVALS: usize = 60;
const TREES: usize = 30;

async fn store() -> Backend {
    let config = SqliteConfig::new().clock(Arc::new(HastyClock::default()));
    SqliteStore::in_memory_with(config).await.unwrap().into()
}

schedule_tests!(|hosting| Schedules::new(hosting).check("SQLite", COUNT, store));

/// Two processes that do anything at any time.
mod rivals {
    use super::*;

    schedule_tests!(|hosting| Schedules::new(hosting)
        .rivals()
        .check("SQLite", RIVALS, store));
}

/// Sessions with sub-agents.
mod trees {
    use super::*;

    schedule_tests!(check);

    fn check(hosting: Hosting) {
        let schedules = Schedules::new(hosting).of(scenarios::of_children());
        schedules.check("trees in SQLite", TREES, store);
    }
}
