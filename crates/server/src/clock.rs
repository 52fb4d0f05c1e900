//! The time of this machine, for what the server writes itself.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use helix_agents_core::time::{Clock, Timestamp};

/// The date at the start, and what has passed since then: it never runs backwards.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemClock {
    at_start: Timestamp,
    started: Instant,
}

impl SystemClock {
    pub(crate) fn new() -> Self {
        let date = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            at_start: Timestamp::default().saturating_add(date.unwrap_or_default()),
            started: Instant::now(),
        }
    }
}

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.at_start.saturating_add(self.started.elapsed())
    }

    async fn sleep_until(&self, deadline: Timestamp) {
        tokio::time::sleep(deadline.since(self.now())).await;
    }
}
