//! A clock under which every lease has lapsed.

use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use helix_agents_core::time::{Clock, Timestamp};

/// A clock that is an hour later each time it is read.
///
/// It is for a store in crash tests and schedules: there a process asks for the lease of another one only when that
/// one is dead, and does not wait until the lease has lapsed.
///
/// ```
/// use helix_agents_core::time::Clock;
/// use helix_agents_testkit::HastyClock;
///
/// let clock = HastyClock::default();
/// assert!(clock.now() < clock.now());
/// ```
#[derive(Debug, Default)]
pub struct HastyClock(AtomicU64);

#[async_trait]
impl Clock for HastyClock {
    fn now(&self) -> Timestamp {
        const HOUR: u64 = 3_600_000;
        Timestamp::from_millis(self.0.fetch_add(HOUR, Ordering::Relaxed))
    }

    async fn sleep_until(&self, _: Timestamp) {}
}
