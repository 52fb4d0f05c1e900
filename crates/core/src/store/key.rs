//! The key by which a store finds a session.

use std::fmt;

use crate::id::SessionId;
use crate::session::SessionState;

/// The key of a session: its root and its own id.
///
/// A store may keep each root separately, with all the sessions under it, so it must know the root
/// to find a session. Callers that know only an id use
/// [`SessionStore::find`](super::SessionStore::find).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionKey<'a> {
    /// The root of the session.
    pub root: &'a SessionId,
    /// The session: the root itself, or one under it.
    pub session: &'a SessionId,
}

impl<'a> SessionKey<'a> {
    /// Creates the key of a session under a root.
    #[must_use]
    pub fn new(root: &'a SessionId, session: &'a SessionId) -> Self {
        Self { root, session }
    }

    /// Returns the key of another session under the same root.
    #[must_use]
    pub fn beside<'b>(self, session: &'b SessionId) -> SessionKey<'b>
    where
        'a: 'b,
    {
        SessionKey::new(self.root, session)
    }

    /// Whether the session is its own root.
    #[must_use]
    pub fn is_root(self) -> bool {
        self.root == self.session
    }

    /// Whether this is the key of the session with these fields.
    #[must_use]
    pub fn names(self, session: &SessionState) -> bool {
        self == session.key()
    }
}

impl fmt::Debug for SessionKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SessionKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_root() {
            true => write!(f, "{}", self.session),
            false => write!(f, "{} under {}", self.session, self.root),
        }
    }
}

impl SessionId {
    /// Returns the key of the root session with this id. For a session under another
    /// root it finds nothing.
    #[must_use]
    pub fn as_root(&self) -> SessionKey<'_> {
        SessionKey::new(self, self)
    }
}

impl SessionState {
    /// Returns the key of this session.
    #[must_use]
    pub fn key(&self) -> SessionKey<'_> {
        SessionKey::new(self.root(), &self.session_id)
    }
}
