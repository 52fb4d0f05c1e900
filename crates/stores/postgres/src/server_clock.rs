//! The clock of the database, as this process knows it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use helix_agents_core::time::Timestamp;

use crate::convert;

/// How long a better measurement is preferred to a newer one.
const PREFERRED: Duration = Duration::from_secs(5);
/// A measurement that took longer than this says too little.
const WIDEST: Duration = Duration::from_secs(1);
/// How long a measurement is used.
const USED: Duration = Duration::from_secs(30);

/// An instant of the database, and when this process asked for it and had it.
#[derive(Debug, Clone, Copy)]
struct Measurement {
    server: Timestamp,
    asked: Instant,
    had: Instant,
}

impl Measurement {
    fn width(&self) -> Duration {
        self.had.duration_since(self.asked)
    }
}

/// The clock of the database. Each answer that carries its time is a measurement.
#[derive(Debug, Default)]
pub(crate) struct ServerClock(Mutex<Option<Measurement>>);

impl ServerClock {
    fn lock(&self) -> MutexGuard<'_, Option<Measurement>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a measurement: the answer to a question of this instant carried this time.
    pub(crate) fn measured(&self, asked: Instant, server: i64) {
        let had = Instant::now();
        let server = convert::time(server);
        let new = Measurement { server, asked, had };
        if new.width() > WIDEST {
            return;
        }
        let mut known = self.lock();
        let is_kept =
            |known: &Measurement| known.width() < new.width() && known.had.elapsed() < PREFERRED;
        if !known.as_ref().is_some_and(is_kept) {
            *known = Some(new);
        }
    }

    /// The time of the database, if it was measured not long ago. It is not before the real one, and after it by at
    /// most the time that the measurement took: a lease that begins at it lasts at least as long as its holder
    /// believes. Whether a lease has lapsed is judged by a time that is read for that purpose.
    pub(crate) fn now(&self) -> Option<Timestamp> {
        let known = (*self.lock())?;
        let since = known.asked.elapsed();
        (since < USED).then(|| known.server.saturating_add(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_goes_on_from_the_best_measurement() {
        let clock = ServerClock::default();
        assert_eq!(clock.now(), None);
        let asked = Instant::now();
        clock.measured(asked, 1_000_000);
        let long_ago = asked
            .checked_sub(Duration::from_millis(900))
            .unwrap_or(asked);
        clock.measured(long_ago, 5_000_000);
        let now = clock.now().unwrap_or_default();
        assert!(now >= Timestamp::from_millis(1_000_000), "{now:?}");
        assert!(now < Timestamp::from_millis(1_060_000), "{now:?}");
    }
}
