//! The time of this machine.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use helix_agents_core::time::{Clock, Timestamp};

/// The time of this machine, which never runs backwards within the process.
///
/// It follows the wall clock forwards. When that is set back, time goes on from where it was: what
/// waits is still woken.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// What never runs backwards, but does not know the date.
static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);
/// How far the date has been ahead of it, at most.
static AHEAD: AtomicU64 = AtomicU64::new(0);

impl SystemClock {
    /// The time of this machine.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let passed = STARTED.elapsed();
        let date = SystemTime::now().duration_since(UNIX_EPOCH);
        shown(&AHEAD, millis(passed), millis(date.unwrap_or_default()))
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

/// The time that is shown when so much has passed and the wall clock says this.
///
/// Neither addend ever gets smaller, so their sum does not.
fn shown(ahead: &AtomicU64, passed: u64, date: u64) -> Timestamp {
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
    fn a_wall_clock_that_is_set_back_does_not_stop_the_time() {
        let ahead = AtomicU64::new(0);
        let at = |passed, date| shown(&ahead, passed, date).as_millis();
        assert_eq!(at(5, 1_005), 1_005);
        assert_eq!(at(6, 400), 1_006, "set back");
        assert_eq!(at(7, 401), 1_007, "and it goes on");
        assert_eq!(at(8, 5_000), 5_000, "set forward");
    }

    #[test]
    fn the_time_is_about_now() {
        let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let clock = SystemClock::new();
        let seen: Vec<_> = (0..1_000).map(|_| clock.now()).collect();
        assert!(seen.is_sorted());
        assert!(u128::from(seen[0].as_millis()) + 1 >= before.as_millis());
    }
}
