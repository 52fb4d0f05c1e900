//! Wakes the tasks of this process that wait for a session to change.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helix_agents_core::SessionId;
use helix_agents_core::notify::{Heard, Notify};

/// A 64-bit hash of a session id. Two sessions may rarely share one: a listener of either is then woken
/// by changes of both, and looks in vain.
///
/// Other processes compare it with theirs, so its computation never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SessionHash(u64);

impl SessionHash {
    pub(crate) fn of(session: &SessionId) -> Self {
        // FNV-1a.
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        let bytes = session.as_str().as_bytes().iter();
        Self(bytes.fold(0xcbf2_9ce4_8422_2325, mix))
    }

    /// The hash under which stops and the deletion of a session are told.
    pub(crate) fn of_stops(session: &SessionId) -> Self {
        Self(Self::of(session).0.rotate_left(32))
    }

    pub(crate) fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(u64::from_be_bytes(bytes.try_into().ok()?)))
    }
}

/// The listeners of every session that has some. A session without listeners costs nothing.
#[derive(Debug, Default)]
pub(crate) struct ChangeNotifier {
    state: Mutex<State>,
    /// Signalled when a listener is added, and when the notifier is closed.
    state_changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<SessionHash, Listeners>,
    is_closed: bool,
}

/// The listeners of one session: a shared signal, and how many they are.
#[derive(Debug, Default)]
struct Listeners {
    notify: Notify,
    count: usize,
}

impl ChangeNotifier {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a listener for changes of a session. It is removed when the result is dropped.
    pub(crate) fn listen(self: &Arc<Self>, session: SessionHash) -> ChangeListener {
        let mut state = self.lock();
        let listeners = state.sessions.entry(session).or_default();
        listeners.count += 1;
        let notify = listeners.notify.clone();
        drop(state);
        self.state_changed.notify_all();
        ChangeListener {
            notifier: Arc::clone(self),
            session,
            notify,
        }
    }

    /// Wakes the listeners of these sessions.
    pub(crate) fn notify(&self, sessions: &[SessionHash]) {
        let state = self.lock();
        let listeners = sessions.iter().filter_map(|one| state.sessions.get(one));
        let woken: Vec<Notify> = listeners.map(|one| one.notify.clone()).collect();
        drop(state);
        woken.iter().for_each(Notify::ring);
    }

    /// Wakes every listener.
    pub(crate) fn notify_all(&self) {
        let state = self.lock();
        let listeners = state.sessions.values();
        let woken: Vec<Notify> = listeners.map(|one| one.notify.clone()).collect();
        drop(state);
        woken.iter().for_each(Notify::ring);
    }

    /// Whether there is a listener of any session.
    pub(crate) fn has_listeners(&self) -> bool {
        !self.lock().sessions.is_empty()
    }

    /// Blocks until there is a listener, and then for `pause`. Returns false once the notifier is
    /// closed.
    pub(crate) fn wait_for_listeners(&self, pause: Duration) -> bool {
        let mut state = self.lock();
        while state.sessions.is_empty() && !state.is_closed {
            state = self
                .state_changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let waited = self
            .state_changed
            .wait_timeout_while(state, pause, |state| !state.is_closed);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !state.is_closed
    }

    /// Ends [`ChangeNotifier::wait_for_listeners`] for good. Called when the store is dropped.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.state_changed.notify_all();
    }
}

/// A listener for the changes of one session.
#[derive(Debug)]
pub(crate) struct ChangeListener {
    notifier: Arc<ChangeNotifier>,
    session: SessionHash,
    notify: Notify,
}

impl ChangeListener {
    /// Resolves at the first change after this call. Call it before reading the session and await it
    /// after: a change in between is not missed.
    pub(crate) fn changed(&self) -> Heard {
        self.notify.heard()
    }
}

impl Drop for ChangeListener {
    fn drop(&mut self) {
        let mut state = self.notifier.lock();
        if let Some(listeners) = state.sessions.get_mut(&self.session) {
            listeners.count -= 1;
            if listeners.count == 0 {
                state.sessions.remove(&self.session);
            }
        }
    }
}
