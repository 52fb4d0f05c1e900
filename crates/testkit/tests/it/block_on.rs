//! Running a future without a runtime.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_testkit::{VirtualClock, block_on};

#[test]
fn a_future_that_wakes_itself_is_polled_again() {
    let mut polls = 0;
    let future = poll_fn(|context| {
        polls += 1;
        if polls < 3 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(polls)
    });
    assert_eq!(block_on(future), 3);
}

#[test]
fn another_thread_can_wake_the_future() {
    let clock = Arc::new(VirtualClock::new(Timestamp::from_millis(0)));
    let waker = {
        let clock = Arc::clone(&clock);
        thread::spawn(move || {
            while clock.sleepers() == 0 {
                thread::yield_now();
            }
            clock.advance(Duration::from_millis(10));
        })
    };
    block_on(clock.sleep_until(Timestamp::from_millis(10)));
    assert_eq!(clock.now(), Timestamp::from_millis(10));
    waker.join().unwrap();
}
