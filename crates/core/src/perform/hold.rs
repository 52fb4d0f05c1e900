//! Whether a process still holds the run that it performs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::notify::Notify;
use crate::time::{Clock, Timestamp};

/// The lease of a run as the process that performs it knows it, by its own clock.
///
/// A lease is asked for by its length, and counts here from before it was asked for: so it ends for
/// its holder no later than for the store. While it is not known to be valid, nothing is begun and
/// nothing is written; what runs is kept. Whoever renews it says so here.
#[derive(Debug)]
pub struct Hold {
    state: Mutex<State>,
    bell: Notify,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Until(Timestamp),
    Lost,
}

impl Hold {
    /// A lease that is valid until this instant of the holder's clock.
    #[must_use]
    pub fn new(valid_until: Timestamp) -> Self {
        Self {
            state: Mutex::new(State::Until(valid_until)),
            bell: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the lease was renewed under the same fence, and is valid until this instant. Wakes
    /// everybody who waits in [`Hold::valid`]. A lease that was lost stays lost.
    pub fn renewed(&self, until: Timestamp) {
        let mut state = self.state();
        if let State::Until(valid) = &mut *state {
            *valid = until;
        }
        drop(state);
        self.bell.ring();
    }

    /// Somebody else has the run. Whoever waits is told.
    pub fn lost(&self) {
        *self.state() = State::Lost;
        self.bell.ring();
    }

    /// Whether the run is held: true at once while the lease is valid; otherwise as soon as it is
    /// known, true after a renewal and false once it is lost. Safe to drop.
    pub async fn valid(&self, clock: &dyn Clock) -> bool {
        let mut waited = false;
        loop {
            let heard = self.bell.heard();
            match *self.state() {
                State::Lost => return false,
                // A renewal that is over by now was still one: nobody had taken the run.
                State::Until(_) if waited => return true,
                State::Until(until) if clock.now() < until => return true,
                State::Until(_) => {}
            }
            heard.await;
            waited = true;
        }
    }
}
