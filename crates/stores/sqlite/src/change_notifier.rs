//! Who waits for a session to change.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helix_agents_core::SessionId;
use helix_agents_core::notify::{Heard, Notify};

/// What a session is known by where its name would be too long. Two may have the same one, rarely:
/// then those who wait for one of them look in vain when the other changes.
///
/// Other processes compare it with theirs, so it is computed in the same way for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Mark(u64);

impl Mark {
    pub(crate) fn of(session: &SessionId) -> Self {
        // FNV-1a.
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        let bytes = session.as_str().as_bytes().iter();
        Self(bytes.fold(0xcbf2_9ce4_8422_2325, mix))
    }

    pub(crate) fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(u64::from_be_bytes(bytes.try_into().ok()?)))
    }
}

/// A bell for each session that somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    state: Mutex<State>,
    /// Told when the first waiter comes, and at the end.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bells: HashMap<Mark, Bell>,
    closed: bool,
}

#[derive(Debug, Default)]
struct Bell {
    notify: Notify,
    waiting: usize,
}

impl Bells {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to listen for changes of a session.
    pub(crate) fn listen(self: &Arc<Self>, session: &SessionId) -> Listening {
        let session = Mark::of(session);
        let mut state = self.lock();
        let bell = state.bells.entry(session).or_default();
        bell.waiting += 1;
        let notify = bell.notify.clone();
        drop(state);
        self.changed.notify_all();
        Listening {
            bells: Arc::clone(self),
            session,
            notify,
        }
    }

    /// Tells those who wait for these sessions.
    pub(crate) fn ring(&self, sessions: &[Mark]) {
        let state = self.lock();
        let bells = sessions.iter().filter_map(|one| state.bells.get(one));
        let ringing: Vec<Notify> = bells.map(|bell| bell.notify.clone()).collect();
        drop(state);
        ringing.iter().for_each(Notify::ring);
    }

    /// Tells everybody.
    pub(crate) fn ring_all(&self) {
        let state = self.lock();
        let ringing: Vec<Notify> = state.bells.values().map(|one| one.notify.clone()).collect();
        drop(state);
        ringing.iter().for_each(Notify::ring);
    }

    /// Whether somebody waits.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.lock().bells.is_empty()
    }

    /// Sleeps until somebody waits, and then as long as `pause`. False: it is over.
    pub(crate) fn pause(&self, pause: Duration) -> bool {
        let mut state = self.lock();
        while state.bells.is_empty() && !state.closed {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let waited = self
            .changed
            .wait_timeout_while(state, pause, |state| !state.closed);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !state.closed
    }

    /// Nobody will wait any more.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}

/// Hears the changes of one session.
#[derive(Debug)]
pub(crate) struct Listening {
    bells: Arc<Bells>,
    session: Mark,
    notify: Notify,
}

impl Listening {
    /// Resolves at the next change. Take it before looking, await it after.
    pub(crate) fn heard(&self) -> Heard {
        self.notify.heard()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut state = self.bells.lock();
        if let Some(bell) = state.bells.get_mut(&self.session) {
            bell.waiting -= 1;
            if bell.waiting == 0 {
                state.bells.remove(&self.session);
            }
        }
    }
}
