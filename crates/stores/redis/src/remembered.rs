//! The headers and states that are remembered between operations. A transaction compares their generations, so what
//! is remembered may be old, and is never believed.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use helix_agents_core::SessionId;
use serde_json::Value;

use crate::head::Place;
use crate::keys::Shard;

/// The state of a session at a version.
#[derive(Debug, Clone)]
pub(crate) struct KnownState {
    pub(crate) version: u64,
    pub(crate) value: Value,
    /// About how many bytes it has.
    pub(crate) bytes: usize,
}

type Name = (Shard, SessionId);

#[derive(Debug)]
struct Known {
    place: Place,
    state: Option<KnownState>,
    bytes: usize,
    used: u64,
}

#[derive(Debug, Default)]
struct Memory {
    all: HashMap<Name, Known>,
    /// The least recently used first.
    by_use: BTreeMap<u64, Name>,
    bytes: usize,
    now: u64,
}

/// What is remembered of sessions, with bounds for their number and size.
#[derive(Debug)]
pub(crate) struct Remembered {
    sessions: usize,
    bytes: usize,
    memory: Mutex<Memory>,
}

impl Memory {
    fn remove(&mut self, name: &Name) -> Option<Known> {
        let known = self.all.remove(name)?;
        self.by_use.remove(&known.used);
        self.bytes -= known.bytes;
        Some(known)
    }

    fn insert(&mut self, name: Name, place: Place, state: Option<KnownState>) {
        self.now += 1;
        // A header is rarely larger than this; what can be large is the state.
        let bytes = 2048 + state.as_ref().map_or(0, |state| state.bytes);
        self.bytes += bytes;
        self.by_use.insert(self.now, name.clone());
        let used = self.now;
        let known = Known {
            place,
            state,
            bytes,
            used,
        };
        self.all.insert(name, known);
    }
}

impl Remembered {
    pub(crate) fn new(sessions: usize, bytes: usize) -> Self {
        Self {
            sessions,
            bytes,
            memory: Mutex::default(),
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The place of a session, if it is remembered.
    pub(crate) fn place(&self, shard: Shard, session: &SessionId) -> Option<Place> {
        let name = (shard, session.clone());
        let mut memory = self.memory();
        let known = memory.remove(&name)?;
        memory.insert(name, known.place.clone(), known.state);
        Some(known.place)
    }

    /// Takes the state of a session out, to be changed in place, if it is remembered at this generation.
    pub(crate) fn take_state(
        &self,
        shard: Shard,
        session: &SessionId,
        generation: &str,
    ) -> Option<KnownState> {
        let name = (shard, session.clone());
        let mut memory = self.memory();
        if memory.all.get(&name)?.place.generation != generation {
            return None;
        }
        let known = memory.remove(&name)?;
        memory.insert(name, known.place, None);
        known.state
    }

    /// Remembers a session as it is stored. Without a state, that of the same generation is kept.
    pub(crate) fn put(
        &self,
        shard: Shard,
        session: &SessionId,
        place: Place,
        state: Option<KnownState>,
    ) {
        let name = (shard, session.clone());
        let mut memory = self.memory();
        let before = memory.remove(&name);
        if place.head.is_none() {
            return;
        }
        let same = before.filter(|known| known.place.generation == place.generation);
        let state = state.or_else(|| same.and_then(|known| known.state));
        memory.insert(name, place, state);
        while memory.all.len() > self.sessions || memory.bytes > self.bytes {
            let Some((_, oldest)) = memory.by_use.pop_first() else {
                return;
            };
            if let Some(known) = memory.all.remove(&oldest) {
                memory.bytes -= known.bytes;
            }
        }
    }

    /// Forgets a session.
    pub(crate) fn forget(&self, shard: Shard, session: &SessionId) {
        self.memory().remove(&(shard, session.clone()));
    }
}
