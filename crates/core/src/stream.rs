//! Chunks: the entries of a session's stream.
//!
//! Each root session has one stream. A chunk records who wrote it and when, and carries one
//! payload. The part that is the same for a whole step is shared.

mod info;
mod limits;
mod manager;
mod outbox;
mod payload;
mod pieces;
mod reader;
mod relayed;
mod replay;
mod retention;
mod rewind;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, RunId, SessionId};
use crate::shared_str::SharedStr;
use crate::time::Timestamp;

pub use info::{Incarnation, StreamInfo};
pub use limits::StreamLimits;
// `StreamWriter::admit` judges it; stores do not read it.
#[doc(hidden)]
pub use manager::DeltaSource;
pub use manager::{StreamError, StreamManager, StreamWriter};
pub use outbox::{
    DeltaGate, Outbox, OutboxEntry, OutboxPosition, RelayLeftovers, StreamLog, StreamRepair,
};
pub use payload::ChunkPayload;
pub(crate) use pieces::split;
pub(crate) use reader::ReadOutcome;
pub(crate) use replay::reply_deltas;
// Read through `RuntimeExt::chunks` and `Handle::chunks`; the server and the command line read item by item.
#[doc(hidden)]
pub use reader::{StreamItem, StreamReader};
pub use relayed::Relayed;
pub use retention::{DELTA_WINDOW, Retention};
pub use rewind::StreamRewind;

/// A position in a stream: from 1, never used twice.
///
/// ```
/// use helix_agents::Sequence;
///
/// let last_seen = Sequence(41);
/// assert_eq!(last_seen.next(), Sequence(42));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The position before the first chunk.
    pub const START: Self = Self(0);

    /// Whether this is the position before the first chunk.
    #[must_use]
    pub fn is_start(&self) -> bool {
        *self == Self::START
    }

    /// Returns the next position.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl From<u64> for Sequence {
    fn from(sequence: u64) -> Self {
        Self(sequence)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// The status of a stream.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::{ChunkStream, StreamStatus};
///
/// async fn ends(mut chunks: ChunkStream) -> bool {
///     while chunks.next().await.is_some() {}
///     chunks.status() == Some(StreamStatus::Ended)
/// }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StreamStatus {
    /// More chunks follow.
    #[default]
    Active,
    /// The run is suspended; more chunks follow when it is continued.
    Paused,
    /// The turn has ended.
    Ended,
    /// The turn has failed.
    Failed,
}

/// A chunk with its position in a stream.
///
/// ```
/// use helix_agents::{ChunkPayload, StoredChunk};
///
/// fn text(stored: &StoredChunk) -> Option<&str> {
///     match &stored.chunk.payload {
///         ChunkPayload::TextDelta { delta } => Some(delta),
///         _ => None,
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoredChunk {
    /// The position in the stream.
    pub sequence: Sequence,
    /// The chunk at this position.
    pub chunk: Chunk,
}

impl StoredChunk {
    /// Creates a chunk at a position.
    #[must_use]
    pub fn new(sequence: Sequence, chunk: Chunk) -> Self {
        Self { sequence, chunk }
    }
}

/// The origin of a chunk, the same for a whole step.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChunkOrigin {
    /// The id of the agent instance.
    pub agent_id: AgentId,
    /// The name of the agent.
    pub agent_type: SharedStr,
    /// The session that wrote it: the root, or one of its descendants.
    pub session_id: SessionId,
    /// The id of the run.
    pub run_id: RunId,
    /// The number of the step in its turn, from 1; 0 before the first.
    pub step: u32,
    /// The number of the effect that streamed a delta; 0 for chunks of a commit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub effect: u32,
    /// The number of the attempt at that effect.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

impl ChunkOrigin {
    /// Sets the effect and the attempt of a delta.
    #[must_use]
    #[doc(hidden)]
    pub fn of_attempt(mut self, effect: u32, attempt: u32) -> Self {
        self.effect = effect;
        self.attempt = attempt;
        self
    }

    /// Whether both chunks belong to the same step of a session, streamed or committed.
    #[must_use]
    #[doc(hidden)]
    pub fn is_same_step(&self, other: &Self) -> bool {
        self.step == other.step
            && self.run_id == other.run_id
            && self.session_id == other.session_id
    }

    /// Creates the origin of a step's chunks.
    #[must_use]
    #[doc(hidden)]
    pub fn new(
        agent_id: AgentId,
        agent_type: impl Into<SharedStr>,
        session_id: SessionId,
        run_id: RunId,
        step: u32,
    ) -> Self {
        Self {
            agent_id,
            agent_type: agent_type.into(),
            session_id,
            run_id,
            step,
            effect: 0,
            attempt: 0,
        }
    }
}

/// One entry of a session's stream.
///
/// ```
/// use helix_agents::Chunk;
///
/// fn describe(chunk: &Chunk) -> String {
///     format!("step {} of run {}: {:?}", chunk.base.step, chunk.base.run_id, chunk.payload)
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Chunk {
    /// The session, run and step that wrote it.
    #[serde(flatten)]
    pub base: Arc<ChunkOrigin>,
    /// When the chunk was written.
    pub timestamp: Timestamp,
    /// The content of the chunk.
    #[serde(flatten)]
    pub payload: ChunkPayload,
}

impl Chunk {
    /// Creates a chunk with its payload.
    #[must_use]
    #[doc(hidden)]
    pub fn new(base: Arc<ChunkOrigin>, timestamp: Timestamp, payload: ChunkPayload) -> Self {
        Self {
            base,
            timestamp,
            payload,
        }
    }
}
