//! Chunks: what a reader of a session's stream is told.
//!
//! One stream per root session. A chunk says who wrote it and when, and carries one payload. The
//! part that is the same for a whole step is shared.

mod manager;
mod payload;
mod reader;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, RunId, SessionId};
use crate::time::Timestamp;

pub use manager::{StreamError, StreamInfo, StreamLimits, StreamManager, StreamWriter};
pub use payload::ChunkPayload;
pub use reader::{StreamItem, StreamReader};

/// A position in a stream: from 1, never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sequence(pub u64);

impl Sequence {
    /// Before the first chunk.
    pub const START: Self = Self(0);

    /// Whether it is before the first chunk.
    #[must_use]
    pub fn is_start(&self) -> bool {
        *self == Self::START
    }

    /// The next position.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
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

/// What a stream is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StreamStatus {
    /// More comes.
    #[default]
    Active,
    /// The run waits for somebody; more comes when it is continued.
    Paused,
    /// The turn is over.
    Ended,
    /// The turn failed.
    Failed,
}

/// A chunk at its place in a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoredChunk {
    /// Its place.
    pub sequence: Sequence,
    /// It.
    pub chunk: Chunk,
}

impl StoredChunk {
    /// A chunk at its place.
    #[must_use]
    pub fn new(sequence: Sequence, chunk: Chunk) -> Self {
        Self { sequence, chunk }
    }
}

/// Who wrote a chunk; the same for a whole step.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChunkBase {
    /// The agent instance.
    pub agent_id: AgentId,
    /// The agent.
    pub agent_type: String,
    /// The session; in a root's stream also those of its children.
    pub session_id: SessionId,
    /// The run.
    pub run_id: RunId,
    /// The step, from 1 in each turn; 0 before the first.
    pub step: u32,
}

impl ChunkBase {
    /// The base of a step's chunks.
    #[must_use]
    pub fn new(
        agent_id: AgentId,
        agent_type: impl Into<String>,
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
        }
    }
}

/// One thing that happened in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Chunk {
    /// Who wrote it.
    #[serde(flatten)]
    pub base: Arc<ChunkBase>,
    /// When.
    pub timestamp: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub payload: ChunkPayload,
}

impl Chunk {
    /// A chunk.
    #[must_use]
    pub fn new(base: Arc<ChunkBase>, timestamp: Timestamp, payload: ChunkPayload) -> Self {
        Self {
            base,
            timestamp,
            payload,
        }
    }
}
