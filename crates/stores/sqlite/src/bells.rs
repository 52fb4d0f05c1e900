//! Who waits for a session to change.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helix_agents_core::SessionId;
use helix_agents_core::notify::{Heard, Notify};

/// A bell for each session that somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    state: Mutex<State>,
    /// Told when the first waiter comes, and at the end.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bells: HashMap<SessionId, Bell>,
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
        let mut state = self.lock();
        let bell = state.bells.entry(session.clone()).or_default();
        bell.waiting += 1;
        let notify = bell.notify.clone();
        drop(state);
        self.changed.notify_all();
        Listening {
            bells: Arc::clone(self),
            session: session.clone(),
            notify,
        }
    }

    /// Tells those who wait for these sessions.
    pub(crate) fn ring(&self, sessions: &[SessionId]) {
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
    session: SessionId,
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
