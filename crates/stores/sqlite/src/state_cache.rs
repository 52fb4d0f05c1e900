//! A cache of the large states that were written last.

use serde_json::Value;

use crate::key::OwnerId;

/// The size in bytes below which a state is not cached: reading it is as fast.
const SMALL: usize = 4 * 1024;
/// The capacity of the cache, in bytes of JSON.
const CAPACITY: usize = 4 * 1024 * 1024;

/// A version of a state, and the sizes of the rows from which it is read.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) value: Value,
    /// The size of the last whole version before it.
    pub(crate) whole: usize,
    /// The weight of the writes since then.
    pub(crate) writes: usize,
}

impl Version {
    fn size(&self) -> usize {
        self.whole + self.writes
    }
}

/// Versions of states, by session and version number.
///
/// A version never changes and the number of a session is never reused, so an entry stays valid once it
/// was written. The cache is emptied when a transaction is rolled back.
#[derive(Debug, Default)]
pub(crate) struct StateCache {
    /// The entry that was used last comes last.
    kept: Vec<(OwnerId, u64, Version)>,
}

impl StateCache {
    /// Removes and returns a version.
    pub(crate) fn take(&mut self, session: OwnerId, version: u64) -> Option<Version> {
        let wanted = |one: &(OwnerId, u64, Version)| one.0 == session && one.1 == version;
        let index = self.kept.iter().position(wanted)?;
        let (_, _, found) = self.kept.remove(index);
        Some(found)
    }

    /// Adds a version, in the place of an earlier one of the same session.
    pub(crate) fn put(&mut self, session: OwnerId, number: u64, version: Version) {
        self.kept.retain(|one| one.0 != session);
        if !(SMALL..=CAPACITY).contains(&version.size()) {
            return;
        }
        self.kept.push((session, number, version));
        let mut size = 0;
        let fits = |(_, _, version): &&(OwnerId, u64, Version)| {
            size += version.size();
            size <= CAPACITY
        };
        let fitting = self.kept.iter().rev().take_while(fits).count();
        self.kept.drain(..self.kept.len() - fitting);
    }

    /// Removes every entry.
    pub(crate) fn clear(&mut self) {
        self.kept.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(size: usize) -> Version {
        Version {
            value: Value::Null,
            whole: size,
            writes: 0,
        }
    }

    #[test]
    fn the_entries_used_last_are_kept_within_the_capacity() {
        let mut cache = StateCache::default();
        for session in 0..5 {
            cache.put(OwnerId(session), 1, version(CAPACITY / 3));
        }
        assert!(cache.take(OwnerId(1), 1).is_none());
        assert!(cache.take(OwnerId(2), 2).is_none(), "another version");
        assert!(cache.take(OwnerId(2), 1).is_some());
        assert!(cache.take(OwnerId(2), 1).is_none(), "it was given away");
        cache.put(OwnerId(3), 2, version(SMALL));
        assert!(cache.take(OwnerId(3), 1).is_none(), "it was replaced");
        cache.put(OwnerId(6), 1, version(SMALL - 1));
        cache.put(OwnerId(7), 1, version(CAPACITY + 1));
        assert_eq!(cache.kept.len(), 2);
        cache.clear();
        assert!(cache.take(OwnerId(4), 1).is_none());
    }
}
