//! What a store remembers of the sessions that it read or wrote last.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helix_agents_core::SessionId;
use helix_agents_core::store::{Fence, Header};
use serde_json::Value;

/// The most bytes of states that are remembered, as JSON.
const STATE_BYTES: usize = 8 * 1024 * 1024;

/// A session as it was when this process saw it last.
#[derive(Debug)]
pub(crate) struct Known {
    /// The number of the session. Together with the version in the header it names one writing of the header.
    pub(crate) key: i64,
    pub(crate) header: Arc<Header>,
    /// The state that was written last, if it was written here.
    pub(crate) state: Option<KnownState>,
}

/// A version of a state, and the sizes of the rows from which it is read.
#[derive(Debug)]
pub(crate) struct KnownState {
    pub(crate) version: u64,
    pub(crate) value: Arc<Value>,
    /// The size of the last whole version before it.
    pub(crate) whole: usize,
    /// The weight of the writes since then.
    pub(crate) writes: usize,
}

impl KnownState {
    fn size(&self) -> usize {
        self.whole + self.writes
    }
}

/// Remembered sessions. An entry that is out of date costs a second round trip: the database compares it.
#[derive(Debug)]
pub(crate) struct Remembered {
    most: usize,
    floor: AtomicU64,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    by_session: HashMap<SessionId, (u64, Known)>,
    by_use: BTreeMap<u64, SessionId>,
    uses: u64,
    state_bytes: usize,
}

impl Remembered {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            floor: AtomicU64::new(0),
            entries: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fence at which sessions begin, as it was seen last.
    pub(crate) fn floor(&self) -> Fence {
        Fence(self.floor.load(Ordering::Relaxed))
    }

    /// Notes the fence at which sessions begin. It never falls.
    pub(crate) fn floor_is(&self, floor: Fence) {
        self.floor.fetch_max(floor.0, Ordering::Relaxed);
    }

    /// Takes a session out. Whoever has changed it puts it back.
    pub(crate) fn take(&self, session: &SessionId) -> Option<Known> {
        self.lock().remove(session)
    }

    /// The number and the header of a session.
    pub(crate) fn header(&self, session: &SessionId) -> Option<(i64, Arc<Header>)> {
        let mut entries = self.lock();
        let known = entries.remove(session)?;
        let found = (known.key, Arc::clone(&known.header));
        entries.insert(session.clone(), known);
        Some(found)
    }

    /// Puts a session in, unless a later version of it is there.
    pub(crate) fn put(&self, session: SessionId, known: Known) {
        let mut entries = self.lock();
        if let Some(there) = entries.remove(&session)
            && there.key == known.key
            && there.header.session.version > known.header.session.version
        {
            entries.insert(session, there);
            return;
        }
        entries.insert(session, known);
        while entries.by_session.len() > self.most || entries.state_bytes > STATE_BYTES {
            let Some((_, oldest)) = entries.by_use.pop_first() else {
                break;
            };
            entries.remove(&oldest);
        }
    }
}

impl Entries {
    fn remove(&mut self, session: &SessionId) -> Option<Known> {
        let (used, known) = self.by_session.remove(session)?;
        self.by_use.remove(&used);
        self.state_bytes -= known.state.as_ref().map_or(0, KnownState::size);
        Some(known)
    }

    fn insert(&mut self, session: SessionId, mut known: Known) {
        // One state alone must not push out all others.
        let is_small = |state: &KnownState| state.size() <= STATE_BYTES / 2;
        known.state = known.state.filter(is_small);
        self.uses += 1;
        self.state_bytes += known.state.as_ref().map_or(0, KnownState::size);
        self.by_use.insert(self.uses, session.clone());
        self.by_session.insert(session, (self.uses, known));
    }
}
