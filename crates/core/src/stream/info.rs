//! The status and bounds of a stream.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Sequence, StreamStatus};

/// Distinguishes the streams that have ever had the same name.
///
/// Deleting a session deletes its stream; a session created again under the same id has another
/// stream, whose sequences begin at 1 again. A store assigns the incarnation when a stream begins,
/// and never assigns the same one to another stream of that name. A sequence is meaningful only
/// together with the incarnation in which it was read.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Incarnation(pub u64);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The status and bounds of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamInfo {
    /// The incarnation of the stream.
    pub incarnation: Incarnation,
    /// The status of the stream.
    pub status: StreamStatus,
    /// The last sequence that was assigned.
    pub last: Sequence,
    /// The last sequence that retention removed; a reader before it gets a notice.
    pub trimmed: Sequence,
    /// The end of the condensed part: deltas up to this sequence whose content is in the messages count as
    /// removed, even if a store still has them. A reader makes them from the messages.
    pub condensed: Sequence,
}

impl StreamInfo {
    /// Whether a stream differs from an earlier description, so that there is something to read:
    /// the condition on which [`StreamManager::changed`](super::StreamManager::changed) returns.
    #[must_use]
    pub fn differs(now: Option<Self>, known: Option<Self>) -> bool {
        // A reader at the end does not miss the chunks that retention removes.
        let what = |info: Self| (info.incarnation, info.status, info.last);
        now.map(what) != known.map(what)
    }
}
