//! How a session is named to a store.

use std::fmt;

use crate::id::SessionId;
use crate::session::SessionState;

/// Names a session to a store: by its root and its own id.
///
/// A store may keep each root by itself, with all the sessions under it, so that it has to be told
/// where to look. Who knows only an id asks [`SessionStore::find`](super::SessionStore::find).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionKey<'a> {
    /// The root.
    pub root: &'a SessionId,
    /// The session: the root itself, or one under it.
    pub session: &'a SessionId,
}

impl<'a> SessionKey<'a> {
    /// A session under a root.
    #[must_use]
    pub fn new(root: &'a SessionId, session: &'a SessionId) -> Self {
        Self { root, session }
    }

    /// Another session under the same root.
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

    /// Whether this names the session that has these fields.
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
    /// The key of the session of this id that is its own root. For one under another root it names
    /// nothing.
    #[must_use]
    pub fn as_root(&self) -> SessionKey<'_> {
        SessionKey::new(self, self)
    }
}

impl SessionState {
    /// How the session is named to a store.
    #[must_use]
    pub fn key(&self) -> SessionKey<'_> {
        SessionKey::new(self.root(), &self.session_id)
    }
}
