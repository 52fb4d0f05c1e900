//! A map by session, for commits: most of them name one session.

use std::borrow::Borrow;
use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::ops::Index;

use crate::id::SessionId;

/// A map by session. The first one needs no allocation.
///
/// ```
/// use helix_agents::core::SessionId;
/// use helix_agents::core::store::PerSession;
///
/// let mut versions = PerSession::new();
/// versions.insert(SessionId::new("chat-7")?, 3);
/// assert_eq!(versions["chat-7"], 3);
/// # Ok::<(), helix_agents::IdError>(())
/// ```
#[derive(Clone)]
pub struct PerSession<V> {
    first: Option<(SessionId, V)>,
    /// The others; there are none without a first one.
    more: BTreeMap<SessionId, V>,
}

impl<V> PerSession<V> {
    /// Creates an empty map.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            first: None,
            more: BTreeMap::new(),
        }
    }

    /// Returns the number of sessions.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.more.len()
    }

    /// Whether there are no sessions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Returns the value of a session.
    pub fn get<Q>(&self, session: &Q) -> Option<&V>
    where
        SessionId: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        match &self.first {
            Some((first, value)) if first.borrow() == session => Some(value),
            _ => self.more.get(session),
        }
    }

    /// Returns the value of a session, to be changed.
    pub fn get_mut<Q>(&mut self, session: &Q) -> Option<&mut V>
    where
        SessionId: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        match &mut self.first {
            Some((first, value)) if (*first).borrow() == session => Some(value),
            _ => self.more.get_mut(session),
        }
    }

    /// Whether a session has a value.
    pub fn contains_key<Q>(&self, session: &Q) -> bool
    where
        SessionId: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.get(session).is_some()
    }

    /// Returns the value of a session, which is made if there is none.
    pub fn get_or_insert_with(&mut self, session: &SessionId, make: impl FnOnce() -> V) -> &mut V {
        let first = self.first.as_ref();
        if first.is_none_or(|(first, _)| first == session) {
            let first = || (session.clone(), make());
            return &mut self.first.get_or_insert_with(first).1;
        }
        self.more.entry(session.clone()).or_insert_with(make)
    }

    /// Sets the value of a session, and returns the one before.
    pub fn insert(&mut self, session: SessionId, value: V) -> Option<V> {
        match &mut self.first {
            Some((first, have)) if *first == session => Some(std::mem::replace(have, value)),
            Some(_) => self.more.insert(session, value),
            none => {
                *none = Some((session, value));
                None
            }
        }
    }

    /// Removes a session, and returns its value.
    pub fn remove<Q>(&mut self, session: &Q) -> Option<V>
    where
        SessionId: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        if !matches!(&self.first, Some((first, _)) if first.borrow() == session) {
            return self.more.remove(session);
        }
        let next = self.more.pop_first();
        let (_, value) = std::mem::replace(&mut self.first, next)?;
        Some(value)
    }

    /// Iterates over the sessions and their values.
    pub fn iter(&self) -> impl Iterator<Item = (&SessionId, &V)> {
        let first = self.first.iter().map(|(session, value)| (session, value));
        first.chain(&self.more)
    }

    /// Iterates over the sessions and their values, which may be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&SessionId, &mut V)> {
        let first = self.first.iter_mut();
        let first = first.map(|(session, value)| (&*session, value));
        first.chain(&mut self.more)
    }
}

impl<V> Default for PerSession<V> {
    fn default() -> Self {
        Self::new()
    }
}

/// Maps are equal when they have the same sessions with the same values, in whatever order they came.
impl<V: PartialEq> PartialEq for PerSession<V> {
    fn eq(&self, other: &Self) -> bool {
        let has = |(session, value): (&SessionId, &V)| other.get(session) == Some(value);
        self.len() == other.len() && self.iter().all(has)
    }
}

impl<V: fmt::Debug> fmt::Debug for PerSession<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[expect(
    clippy::expect_used,
    reason = "an index that is not there panics, as that of every map"
)]
impl<V, Q> Index<&Q> for PerSession<V>
where
    SessionId: Borrow<Q>,
    Q: Ord + ?Sized,
{
    type Output = V;

    fn index(&self, session: &Q) -> &V {
        self.get(session).expect("no value for this session")
    }
}

impl<V> Extend<(SessionId, V)> for PerSession<V> {
    fn extend<I: IntoIterator<Item = (SessionId, V)>>(&mut self, all: I) {
        for (session, value) in all {
            self.insert(session, value);
        }
    }
}

impl<V> FromIterator<(SessionId, V)> for PerSession<V> {
    fn from_iter<I: IntoIterator<Item = (SessionId, V)>>(all: I) -> Self {
        let mut map = Self::new();
        map.extend(all);
        map
    }
}

impl<V> IntoIterator for PerSession<V> {
    type Item = (SessionId, V);
    type IntoIter =
        std::iter::Chain<std::option::IntoIter<(SessionId, V)>, btree_map::IntoIter<SessionId, V>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> SessionId {
        SessionId::new(text).unwrap()
    }

    #[test]
    fn it_is_a_map_whatever_comes_first() {
        let mut map = PerSession::new();
        for (at, session) in ["b", "c", "a"].into_iter().enumerate() {
            assert_eq!(map.insert(id(session), 0), None);
            assert_eq!(map.insert(id(session), at), Some(0));
            assert_eq!(map.len(), at + 1);
            assert_eq!(*map.get_or_insert_with(&id(session), || 9), at);
        }
        for (_, value) in map.iter_mut() {
            *value += 1;
        }
        assert_eq!((map["a"], map["b"], map["c"]), (3, 1, 2));
        assert_eq!(map.remove("b"), Some(1));
        assert_eq!(
            (map.remove("b"), map.len(), map.is_empty()),
            (None, 2, false)
        );
        assert_eq!((map["a"], map.get_mut("c")), (3, Some(&mut 2)));
        assert!(!map.contains_key("b"));
        assert_eq!(*map.get_or_insert_with(&id("b"), || 5), 5);
        let all: BTreeMap<_, _> = map.clone().into_iter().collect();
        assert_eq!(
            all,
            BTreeMap::from([(id("a"), 3), (id("b"), 5), (id("c"), 2)])
        );
        for session in ["c", "b", "a"] {
            assert!(map.remove(session).is_some());
        }
        assert!(map.is_empty());
    }

    #[test]
    fn equal_maps_may_have_grown_in_another_order() {
        let of = |sessions: &[&str]| -> PerSession<()> {
            sessions.iter().map(|session| (id(session), ())).collect()
        };
        assert_eq!(of(&["a", "b", "c"]), of(&["c", "a", "b"]));
        assert_ne!(of(&["a", "b"]), of(&["a", "c"]));
        assert_ne!(of(&["a", "b"]), of(&["a"]));
        assert_eq!(of(&[]), PerSession::new());
    }
}
