//! The clock of the server, as this process knows it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use helix_agents_core::time::Timestamp;

/// The time of the server, kept up between its answers by the monotonic clock of this process.
///
/// It is behind the server by at most the time that an answer takes. So a lease never begins or lapses too early.
#[derive(Debug)]
pub(crate) struct ServerClock(Mutex<(Instant, Timestamp)>);

impl ServerClock {
    /// Starts with the answer of a server.
    pub(crate) fn new(told: Timestamp) -> Self {
        Self(Mutex::new((Instant::now(), told)))
    }

    pub(crate) fn now(&self) -> Timestamp {
        let (heard, told) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.saturating_add(heard.elapsed())
    }

    /// Takes the time from an answer that has just come.
    pub(crate) fn hear(&self, told: Timestamp) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (heard, before) = *known;
        let expected = before.saturating_add(heard.elapsed());
        // An answer that came late says less than the ones before; one far behind tells of a clock that was set.
        if told > expected || expected.since(told) > Duration::from_secs(1) {
            *known = (Instant::now(), told);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_the_server_and_forgives_slow_answers() {
        let at = Timestamp::from_millis;
        let clock = ServerClock::new(at(1_000_000));
        clock.hear(at(1_000_000 - 500));
        assert!(clock.now() >= at(1_000_000));
        clock.hear(at(1_060_000));
        assert!(clock.now() >= at(1_060_000));
        clock.hear(at(500_000));
        assert!(clock.now() < at(900_000), "the clock of the server was set");
    }
}
