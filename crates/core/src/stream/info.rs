//! What is known of a stream.

use std::fmt;

use super::{Sequence, StreamStatus};

/// Which stream it is, of all that ever had its name.
///
/// A session that is deleted takes its stream with it; one that is made again under the same id has
/// another stream, whose sequences begin at 1 again. A store gives a stream its incarnation when the
/// stream begins, and never gives the same one to another stream of that name. A sequence means
/// something only together with the incarnation in which it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What is known of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamInfo {
    /// Which stream of that name it is.
    pub incarnation: Incarnation,
    /// What it is.
    pub status: StreamStatus,
    /// The last sequence that was given out.
    pub last: Sequence,
    /// Everything up to here was removed by retention; a reader that wants it is told.
    pub trimmed: Sequence,
}

impl StreamInfo {
    /// What is known of a stream.
    #[must_use]
    pub fn new(
        incarnation: Incarnation,
        status: StreamStatus,
        last: Sequence,
        trimmed: Sequence,
    ) -> Self {
        Self {
            incarnation,
            status,
            last,
            trimmed,
        }
    }

    /// Whether a stream differs from what somebody knows of it, so that there is something to read
    /// or to be told: what [`StreamManager::changed`](super::StreamManager::changed) waits for.
    #[must_use]
    pub fn differs(now: Option<Self>, known: Option<Self>) -> bool {
        // Who has read up to the end does not miss what retention removes.
        let what = |info: Self| (info.incarnation, info.status, info.last);
        now.map(what) != known.map(what)
    }
}
