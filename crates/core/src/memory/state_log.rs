//! The versions of a state: the present one, and enough to make any earlier one.

use std::sync::Arc;

use serde_json::Value;

use crate::state::{StepWrites, apply_writes};

/// After so many versions by writes a whole state is kept.
const SNAPSHOT_EVERY: usize = 64;

/// The versions of a state, from 1.
///
/// Most versions are kept as the writes that made them; now and then a whole state is kept, so that
/// no version is far from one.
#[derive(Debug)]
pub struct StateLog {
    current: Arc<Value>,
    versions: Vec<Version>,
    since_whole: usize,
}

#[derive(Debug)]
enum Version {
    Whole(Arc<Value>),
    Writes(StepWrites),
}

impl Default for StateLog {
    fn default() -> Self {
        Self {
            current: Arc::new(Value::Object(serde_json::Map::new())),
            versions: Vec::new(),
            since_whole: 0,
        }
    }
}

impl StateLog {
    /// The present version.
    #[must_use]
    pub fn current(&self) -> &Arc<Value> {
        &self.current
    }

    /// The next version is this value.
    pub fn set(&mut self, value: Arc<Value>) {
        self.current = Arc::clone(&value);
        self.versions.push(Version::Whole(value));
        self.since_whole = 0;
    }

    /// The next version comes from the present one by these writes, which must apply.
    pub fn write(&mut self, writes: StepWrites) {
        if self.since_whole == SNAPSHOT_EVERY {
            // The version before this one becomes the whole state that later ones start from.
            if let Some(last) = self.versions.last_mut() {
                *last = Version::Whole(Arc::clone(&self.current));
            }
            self.since_whole = 0;
        }
        // In place unless somebody still holds the state.
        if let Err(error) = apply_writes(Arc::make_mut(&mut self.current), &writes) {
            tracing::error!(event = "state.writes_not_applicable", %error);
        }
        self.versions.push(Version::Writes(writes));
        self.since_whole += 1;
    }

    /// The next version is an earlier one again.
    pub fn rewind(&mut self, to: u64) {
        if let Some(value) = self.at(to) {
            self.set(value);
        }
    }

    /// The state at a version; `None` when there is no such version.
    #[must_use]
    pub fn at(&self, version: u64) -> Option<Arc<Value>> {
        let version = usize::try_from(version).ok()?;
        if version == self.versions.len() {
            return Some(Arc::clone(&self.current));
        }
        let until = self.versions.get(..version)?;
        let whole = until
            .iter()
            .rposition(|one| matches!(one, Version::Whole(_)))?;
        let mut parts = until.get(whole..)?.iter();
        let Some(Version::Whole(value)) = parts.next() else {
            return None;
        };
        let mut value = Arc::clone(value);
        for part in parts {
            if let Version::Writes(writes) = part {
                apply_writes(Arc::make_mut(&mut value), writes).ok()?;
            }
        }
        Some(value)
    }
}
