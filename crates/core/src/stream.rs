//! Chunks: what a reader of a session's stream is told.
//!
//! One stream per root session. A chunk says who wrote it and when, and carries one payload. The
//! part that is the same for a whole step is shared.

mod info;
mod limits;
mod manager;
mod payload;
mod reader;
mod retention;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, RunId, SessionId};
use crate::time::Timestamp;

pub use info::{Incarnation, StreamInfo};
pub use limits::StreamLimits;
pub use manager::{DeltasOf, StreamError, StreamManager, StreamWriter};
pub use payload::ChunkPayload;
pub(crate) use reader::Step;
pub use reader::{StreamItem, StreamReader};
pub use retention::Retention;

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
    /// The number of the effect that streamed it, for deltas; 0 for what came with a commit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub effect: u32,
    /// Which attempt at that effect it was.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

impl ChunkBase {
    /// The base of the deltas of an attempt at an effect.
    #[must_use]
    pub fn of_attempt(mut self, effect: u32, attempt: u32) -> Self {
        self.effect = effect;
        self.attempt = attempt;
        self
    }

    /// Whether both were written by one step of a session, streamed or with its commit.
    #[must_use]
    pub fn is_same_step(&self, other: &Self) -> bool {
        self.step == other.step
            && self.run_id == other.run_id
            && self.session_id == other.session_id
    }

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
            effect: 0,
            attempt: 0,
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
