//! Sessions that a caller has read before it makes an entry.

use crate::id::SessionId;
use crate::store::{SessionStore, Snapshot, StoreError};

/// A session as the caller of an entry has read it.
///
/// An entry plans on it instead of reading the session again. Its commit is refused if the session has
/// changed since, and then the entry reads it.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum AsRead {
    /// The caller has not read the session.
    #[default]
    Unread,
    /// The session did not exist.
    Absent,
    /// The session as it was.
    Found(Box<Snapshot>),
}

impl From<Option<Snapshot>> for AsRead {
    fn from(found: Option<Snapshot>) -> Self {
        found.map_or(Self::Absent, |found| Self::Found(Box::new(found)))
    }
}

/// The session of an entry: its id, and the session itself where the caller has read it.
///
/// Made from an id, or from a [`Snapshot`], which saves the entry a read.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownSession {
    pub(super) id: SessionId,
    pub(super) read: AsRead,
}

impl KnownSession {
    /// Returns the id of the session.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Returns the session, read from the store unless the caller has read it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], and the errors of the store.
    pub async fn load(self, store: &dyn SessionStore) -> Result<Snapshot, StoreError> {
        match self.read {
            AsRead::Found(found) => Ok(*found),
            AsRead::Absent => Err(StoreError::NotFound { session: self.id }),
            AsRead::Unread => {
                let found = store.find(&self.id).await?;
                found.ok_or(StoreError::NotFound { session: self.id })
            }
        }
    }
}

impl From<&SessionId> for KnownSession {
    fn from(id: &SessionId) -> Self {
        Self {
            id: id.clone(),
            read: AsRead::Unread,
        }
    }
}

impl From<Snapshot> for KnownSession {
    fn from(found: Snapshot) -> Self {
        Self {
            id: found.state.session_id.clone(),
            read: AsRead::Found(Box::new(found)),
        }
    }
}
