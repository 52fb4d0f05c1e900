//! A monotonic form of the system clock.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use helix_agents_core::time::{Clock, Timestamp};

/// The system time, which never runs backwards within the process.
///
/// It follows the wall clock forwards. If the wall clock is set back, time continues from where it
/// was, so sleepers are still woken.
///
/// ```
/// use helix_agents_core::time::Clock;
/// use helix_agents_runtime_local::SystemClock;
///
/// let earlier = SystemClock.now();
/// assert!(SystemClock.now() >= earlier);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// The monotonic reference point.
static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);
/// The largest difference seen so far between the wall clock and the monotonic time, in
/// milliseconds.
static AHEAD: AtomicU64 = AtomicU64::new(0);
/// The millisecond of the monotonic time in which the wall clock was last read. A run asks for the time many
/// times in a millisecond; the wall clock is read once in each.
static READ_AT: AtomicU64 = AtomicU64::new(u64::MAX);

impl SystemClock {
    /// Creates a clock.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let passed = millis(STARTED.elapsed());
        if READ_AT.load(Ordering::Acquire) == passed {
            let ahead = AHEAD.load(Ordering::Acquire);
            return Timestamp::from_millis(passed.saturating_add(ahead));
        }
        let date = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = monotonic(&AHEAD, passed, millis(date.unwrap_or_default()));
        READ_AT.store(passed, Ordering::Release);
        now
    }

    async fn sleep_until(&self, deadline: Timestamp) {
        loop {
            let left = deadline.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

/// Returns the time for a monotonic time and a wall clock time, both in milliseconds.
///
/// Neither addend decreases, so their sum does not.
fn monotonic(ahead: &AtomicU64, passed: u64, date: u64) -> Timestamp {
    let now_ahead = date.saturating_sub(passed);
    let ahead = ahead.fetch_max(now_ahead, Ordering::AcqRel).max(now_ahead);
    Timestamp::from_millis(passed.saturating_add(ahead))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_continues_when_the_wall_clock_is_set_back() {
        let ahead = AtomicU64::new(0);
        let at = |passed, date| monotonic(&ahead, passed, date).as_millis();
        assert_eq!(at(5, 1_005), 1_005);
        assert_eq!(at(6, 400), 1_006, "set back");
        assert_eq!(at(7, 401), 1_007, "and continues");
        assert_eq!(at(8, 5_000), 5_000, "set forward");
    }

    #[test]
    fn the_clock_is_monotonic_and_not_behind_the_system_time() {
        let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let clock = SystemClock::new();
        let seen: Vec<_> = (0..1_000).map(|_| clock.now()).collect();
        assert!(seen.is_sorted());
        assert!(u128::from(seen[0].as_millis()) + 1 >= before.as_millis());
    }
}
