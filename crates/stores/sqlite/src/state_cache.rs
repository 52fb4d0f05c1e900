//! The large states that were written last, so that the next write need not read them again.

use serde_json::Value;

use crate::key::OwnerId;

/// States below this size are read as quickly as they are remembered.
const SMALL: usize = 4 * 1024;
/// What is remembered at most, in bytes of JSON.
const CAPACITY: usize = 4 * 1024 * 1024;

/// A version of a state, and how it is made up in the file.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) value: Value,
    /// The size of the whole state it starts from.
    pub(crate) whole: usize,
    /// What the writes since weigh.
    pub(crate) writes: usize,
}

impl Version {
    fn size(&self) -> usize {
        self.whole + self.writes
    }
}

/// Versions by session and number.
///
/// A version never changes and a session's number is never used twice, so what is remembered is
/// right for as long as it was written. When a transaction is rolled back, everything is forgotten.
#[derive(Debug, Default)]
pub(crate) struct StateCache {
    /// The one that was used last comes last.
    kept: Vec<(OwnerId, u64, Version)>,
}

impl StateCache {
    /// Gives a version away.
    pub(crate) fn take(&mut self, session: OwnerId, version: u64) -> Option<Version> {
        let wanted = |one: &(OwnerId, u64, Version)| one.0 == session && one.1 == version;
        let index = self.kept.iter().position(wanted)?;
        let (_, _, found) = self.kept.remove(index);
        Some(found)
    }

    /// Remembers a version, instead of an earlier one of the same session.
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

    /// Forgets everything.
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
    fn what_was_used_last_is_kept_within_the_capacity() {
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
