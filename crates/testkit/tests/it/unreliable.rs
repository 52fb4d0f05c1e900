//! A store that misbehaves does so as it was told, and is a store otherwise.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::SessionId;
use helix_agents_core::memory::MemoryStore;
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::SessionState;
use helix_agents_core::store::{Change, Commit, Precondition, SessionStore, StoreError};
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_testkit::{
    Dice, Faults, Scheduler, SchedulerOutcome, UnreliableStore, VirtualClock,
};

fn clock() -> Arc<VirtualClock> {
    Arc::new(VirtualClock::new(Timestamp::from_millis(0)))
}

fn calm() -> UnreliableStore {
    let inner: Backend = MemoryStore::new().into();
    let store = UnreliableStore::new(inner, clock(), Dice::new(1), Faults::some());
    store.calm_down();
    store
}

mod store {
    use helix_agents_testkit::contract::Subject;

    helix_agents_testkit::store_contract!(async || Subject::from(super::calm()).not_durable());
}

mod stream {
    helix_agents_testkit::stream_contract!(async || super::calm());
}

/// The outcomes of `count` commits in order: `.` succeeded, `x` failed, `?` was made but not
/// acknowledged.
fn fates(seed: u64, faults: Faults, count: usize) -> String {
    let clock = clock();
    let inner: Backend = MemoryStore::new().into();
    let dice = Dice::new(seed);
    let store = UnreliableStore::new(inner.clone(), Arc::clone(&clock), dice.fork(), faults);
    let mut scheduler = Scheduler::new(Arc::clone(&clock), 100_000);
    let said = Arc::new(std::sync::Mutex::new(String::new()));
    let told = Arc::clone(&said);
    scheduler.spawner().spawn(async move {
        for number in 0..count {
            let id = SessionId::new(format!("s-{number}")).unwrap();
            let state = SessionState::new(id.clone(), "x", clock.now());
            let commit = Commit::new(id.clone(), clock.now())
                .when(Precondition::Absent)
                .then(Change::Create(Box::new(state)));
            let failed = match store.commit(commit).await {
                Ok(_) => false,
                Err(StoreError::Unavailable { .. }) => true,
                Err(other) => unreachable!("{other}"),
            };
            let done = inner.store.load(id.as_root()).await.unwrap().is_some();
            told.lock().unwrap().push(match (failed, done) {
                (false, true) => '.',
                (true, false) => 'x',
                (true, true) => '?',
                (false, false) => '!',
            });
            let soon = clock.now().saturating_add(Duration::from_millis(100));
            clock.sleep_until(soon).await;
        }
    });
    assert_eq!(scheduler.run(&dice), SchedulerOutcome::Over);
    said.lock().unwrap().clone()
}

#[test]
fn calls_fail_in_bursts_that_end() {
    let mut faults = Faults::some();
    faults.outages = 0;
    let fates = fates(7, faults, 2000);
    assert!(
        fates.contains('x') && fates.contains('?') && !fates.contains('!'),
        "{fates}"
    );
    let bursts = fates.split('.').map(str::len).filter(|burst| *burst > 0);
    assert_eq!(bursts.max(), Some(faults.longest_burst), "{fates}");
    let pauses = fates.split(['x', '?']).map(str::len);
    let shortest = pauses.filter(|pause| *pause > 0).min();
    assert!(shortest >= Some(faults.quiet), "{shortest:?} in {fates}");
}

#[test]
fn an_outage_ends_by_the_clock() {
    let mut faults = Faults::some();
    (faults.bursts, faults.sleeps) = (0, 0);
    let fates = fates(7, faults, 3000);
    assert!(!fates.contains('?'), "nothing is done in an outage");
    // A call every 100 ms, and 20 s at most.
    let longest = fates.split('.').map(str::len).max().unwrap();
    assert!((20..=200).contains(&longest), "{longest} in {fates}");
}

#[test]
fn the_seed_decides_which_calls_fail() {
    assert_eq!(fates(3, Faults::some(), 300), fates(3, Faults::some(), 300));
    assert_ne!(fates(3, Faults::some(), 300), fates(4, Faults::some(), 300));
    assert!(!fates(3, Faults::none(), 300).contains(['x', '?']));
}
