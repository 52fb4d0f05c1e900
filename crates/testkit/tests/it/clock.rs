//! Virtual time.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_testkit::{VirtualClock, block_on};

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Notes its name when it is woken.
struct Note {
    name: &'static str,
    woken: Arc<Mutex<Vec<&'static str>>>,
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.woken.lock().unwrap().push(self.name);
    }
}

type Sleep<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Polls a sleep whose waker notes `name`; says whether it is over.
fn poll(sleep: &mut Sleep<'_>, name: &'static str, woken: &Arc<Mutex<Vec<&'static str>>>) -> bool {
    let woken = Arc::clone(woken);
    let waker = Waker::from(Arc::new(Note { name, woken }));
    sleep
        .as_mut()
        .poll(&mut Context::from_waker(&waker))
        .is_ready()
}

#[test]
fn time_stands_still_until_it_is_advanced() {
    let clock = VirtualClock::new(at(100));
    assert_eq!(clock.now(), at(100));
    assert_eq!(clock.now(), at(100));
    clock.advance(ms(5));
    assert_eq!(clock.now(), at(105));
    clock.advance(Duration::MAX);
    assert_eq!(clock.now(), at(u64::MAX));
}

#[test]
fn sleepers_wake_in_the_order_of_their_deadlines() {
    let clock = VirtualClock::new(at(0));
    let woken = Arc::default();
    let mut sleeps = [("c", 30), ("a", 10), ("b2", 20), ("b1", 20), ("far", 31)]
        .map(|(name, deadline)| (name, clock.sleep_until(at(deadline))));
    // b1 comes before b2, which was made first: a sleep begins when it is polled.
    for name in ["c", "a", "b1", "b2", "far"] {
        let (_, sleep) = sleeps.iter_mut().find(|(other, _)| *other == name).unwrap();
        assert!(!poll(sleep, name, &woken));
    }
    assert_eq!((clock.sleepers(), clock.next_deadline()), (5, Some(at(10))));

    clock.advance(ms(30));
    assert_eq!(*woken.lock().unwrap(), ["a", "b1", "b2", "c"]);
    assert_eq!((clock.sleepers(), clock.next_deadline()), (1, Some(at(31))));
    let over = sleeps
        .each_mut()
        .map(|(name, sleep)| poll(sleep, name, &woken));
    assert_eq!(over, [true, true, true, true, false]);
}

#[test]
fn a_sleeper_is_woken_once_by_the_waker_of_its_last_poll() {
    let clock = VirtualClock::new(at(0));
    let woken = Arc::default();
    let mut sleep = clock.sleep_until(at(10));
    assert!(!poll(&mut sleep, "old", &woken));
    assert!(!poll(&mut sleep, "new", &woken));
    assert_eq!(clock.sleepers(), 1);
    clock.advance(ms(10));
    clock.advance(ms(10));
    assert_eq!(*woken.lock().unwrap(), ["new"]);
}

#[test]
fn a_sleep_that_is_dropped_is_forgotten() {
    let clock = VirtualClock::new(at(0));
    let woken = Arc::default();
    let mut sleep = clock.sleep_until(at(10));
    assert!(!poll(&mut sleep, "dropped", &woken));
    drop(sleep);
    assert_eq!((clock.sleepers(), clock.next_deadline()), (0, None));
    clock.advance(ms(10));
    assert_eq!(*woken.lock().unwrap(), [""; 0]);
}

#[test]
fn a_deadline_that_has_passed_is_no_sleep() {
    let clock = VirtualClock::new(at(10));
    let woken = Arc::default();
    assert!(poll(&mut clock.sleep_until(at(10)), "now", &woken));
    assert!(poll(&mut clock.sleep_until(at(0)), "long ago", &woken));
    assert_eq!(clock.now(), at(10));
}

#[test]
fn the_end_of_time_can_be_reached() {
    let clock = VirtualClock::new(at(u64::MAX - 1));
    let woken = Arc::default();
    let mut sleep = clock.sleep_until(at(u64::MAX));
    assert!(!poll(&mut sleep, "last", &woken));
    clock.advance(ms(1));
    assert_eq!(*woken.lock().unwrap(), ["last"]);
    assert!(poll(&mut sleep, "last", &woken));
}

#[test]
fn a_clock_that_advances_by_itself_never_waits() {
    let clock = VirtualClock::new(at(0)).auto_advance();
    block_on(async {
        clock.sleep_until(at(50)).await;
        clock.sleep_until(at(20)).await;
        clock.sleep_until(clock.now().saturating_add(ms(5))).await;
    });
    assert_eq!((clock.now(), clock.sleepers()), (at(55), 0));
}

#[test]
fn held_time_does_not_pass_by_itself() {
    let clock = VirtualClock::new(at(0)).auto_advance();
    let held = clock.hold();
    let woken = Arc::default();
    let mut sleep: Sleep<'_> = clock.sleep_until(at(40));
    assert!(!poll(&mut sleep, "a", &woken));
    let also_held = clock.hold();
    drop(held);
    assert!(!poll(&mut sleep, "a", &woken));
    assert_eq!(clock.now(), at(0));
    drop(also_held);
    assert_eq!(*woken.lock().unwrap(), ["a"]);
    assert!(poll(&mut sleep, "a", &woken));
    assert_eq!(clock.now(), at(40));
}

#[test]
fn held_time_does_not_pass_in_order() {
    let clock = VirtualClock::new(at(0)).in_order();
    let held = clock.hold();
    let woken = Arc::default();
    let mut sleep: Sleep<'_> = clock.sleep_until(at(40));
    for _ in 0..3 {
        assert!(!poll(&mut sleep, "a", &woken));
    }
    drop(held);
    assert!(poll(&mut sleep, "a", &woken));
    assert_eq!(clock.now(), at(40));
}
