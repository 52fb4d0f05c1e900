//! The removal of chunks from the end of a stream.

use serde::{Deserialize, Serialize};

use super::{Sequence, StoredChunk};
use crate::id::SessionId;

/// The chunks of a root's stream to remove because a session was rewound.
///
/// A commit carries it. No sequence is used again: the chunks of the commit, and all later ones, have numbers
/// after the last one that was ever assigned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct StreamRewind {
    /// The last sequence to keep.
    pub to: Sequence,
    /// The session whose chunks are removed; `None` removes those of all sessions of the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
}

impl StreamRewind {
    /// Removes every chunk after a sequence.
    #[must_use]
    pub fn to(to: Sequence) -> Self {
        Self { to, session: None }
    }

    /// Removes only the chunks of one session.
    #[must_use]
    pub fn of_session(mut self, session: SessionId) -> Self {
        self.session = Some(session);
        self
    }

    /// Whether a chunk stays in the stream.
    #[must_use]
    pub fn keeps(&self, stored: &StoredChunk) -> bool {
        let session = self.session.as_ref();
        stored.sequence <= self.to
            || session.is_some_and(|session| *session != stored.chunk.base.session_id)
    }
}
