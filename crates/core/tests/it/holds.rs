//! Leases as the process that holds them knows them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use helix_agents_core::perform::Hold;
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_testkit::VirtualClock;

const TEN: Duration = Duration::from_secs(10);

fn held() -> (Arc<VirtualClock>, Hold) {
    let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(1_000)));
    let hold = Hold::new(clock.now().saturating_add(TEN));
    (clock, hold)
}

#[test]
fn a_hold_is_valid_until_it_lapses() {
    let (clock, hold) = held();
    clock.advance(TEN - Duration::from_millis(1));
    assert_eq!(hold.valid(&*clock).now_or_never(), Some(true));
    clock.advance(Duration::from_millis(1));
    assert_eq!(hold.valid(&*clock).now_or_never(), None);
}

#[test]
fn a_renewal_wakes_waiting_tasks() {
    let (clock, hold) = held();
    clock.advance(TEN);
    let mut waiting = Box::pin(hold.valid(&*clock));
    assert_eq!(waiting.as_mut().now_or_never(), None);
    hold.renewed(clock.now().saturating_add(TEN));
    assert_eq!(waiting.now_or_never(), Some(true));
    assert_eq!(hold.valid(&*clock).now_or_never(), Some(true));
}

#[test]
fn a_lost_lease_stays_lost() {
    let (clock, hold) = held();
    clock.advance(TEN);
    let mut waiting = Box::pin(hold.valid(&*clock));
    assert_eq!(waiting.as_mut().now_or_never(), None);
    hold.lost();
    assert_eq!(waiting.now_or_never(), Some(false));
    hold.renewed(clock.now().saturating_add(TEN));
    assert_eq!(hold.valid(&*clock).now_or_never(), Some(false));
}
