//! The outbox: what commits leave for a stream that is stored elsewhere.

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{
    Chunk, Incarnation, Sequence, StreamError, StreamManager, StreamRewind, StreamStatus,
    StreamWriter,
};
use crate::id::SessionId;
use crate::store::{EffectMark, Fence, Header, Headers, Plan, StoreError};
use crate::stored::Stored;

/// What a stream must know of a session to judge who may append deltas: the fence of its run and the progress of
/// the run's effects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeltaGate {
    /// The fence of the session.
    pub fence: Fence,
    /// The effects that were committed or begun again, and the open step.
    #[serde(default, skip_serializing_if = "EffectMark::is_empty")]
    pub mark: EffectMark,
}

impl Stored for DeltaGate {
    const KIND: &'static str = "gate";
    const VERSION: u32 = 1;
}

impl DeltaGate {
    fn of(header: &Header) -> Self {
        Self {
            fence: header.fence,
            mark: EffectMark {
                failure: None,
                ..header.mark.clone()
            },
        }
    }

    /// Checks whether a writer may write, by the gates of its session and of its root, as
    /// [`StreamWriter::admit`] does by their headers.
    ///
    /// # Errors
    /// The same as for [`StreamWriter::admit`].
    pub fn admit(
        writer: &StreamWriter,
        session: Option<&Self>,
        root: Option<&Self>,
    ) -> Result<(), StreamError> {
        let missing = |session: &SessionId| StoreError::NotFound {
            session: session.clone(),
        };
        if root.is_none() {
            return Err(missing(&writer.root).into());
        }
        let gate = session.ok_or_else(|| missing(&writer.session))?;
        gate.mark.admit(gate.fence, writer)
    }
}

/// What one commit leaves in the outbox of its root.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OutboxEntry {
    /// The incarnation of the root's stream. An entry with another one than the entry before begins a new stream.
    pub incarnation: Incarnation,
    /// Whether the root is deleted, with the stream that there was.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends: bool,
    /// The chunks to remove from the end of the stream, before the others are appended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewind: Option<StreamRewind>,
    /// The chunks to append.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<Chunk>,
    /// The new status of the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StreamStatus>,
    /// The gate of each session for which it changed; `None` if the session is deleted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gates: BTreeMap<SessionId, Option<DeltaGate>>,
}

impl Stored for OutboxEntry {
    const KIND: &'static str = "outbox";
    const VERSION: u32 = 1;
}

impl OutboxEntry {
    /// Returns what a commit leaves in the outbox, if anything. `before` are the headers that the commit was
    /// planned with; `incarnation` is that of the stream of `root`, a new one if the commit deletes the root and
    /// creates it again.
    #[must_use]
    pub fn of(
        plan: &Plan,
        before: &Headers,
        root: &SessionId,
        incarnation: Incarnation,
    ) -> Option<Self> {
        let mut gates = BTreeMap::new();
        for (session, header) in plan.headers.iter() {
            let gate = header.as_deref().map(DeltaGate::of);
            let had = before.get(session).map(|header| DeltaGate::of(header));
            if gate != had {
                gates.insert(session.clone(), gate);
            }
        }
        let entry = Self {
            incarnation,
            ends: plan.deletes(root),
            rewind: plan.rewind.clone(),
            chunks: plan.chunks.clone(),
            status: plan.stream,
            gates,
        };
        let is_empty = !entry.ends && !entry.says_something() && entry.gates.is_empty();
        (!is_empty).then_some(entry)
    }

    /// Whether the stream has something to show after it.
    #[must_use]
    pub fn says_something(&self) -> bool {
        self.rewind.is_some() || !self.chunks.is_empty() || self.status.is_some()
    }
}

/// The port to what commits left for streams that are stored elsewhere.
///
/// A store with an outbox writes an [`OutboxEntry`] in each commit, instead of chunks into a stream of its own,
/// and numbers the entries: each number is used once, and grows from commit to commit of a root. The receipt of such
/// a commit has the number of the entry in place of a sequence; without an entry it has [`Sequence::START`].
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait Outbox: Send + Sync + fmt::Debug {
    /// Reads the entries of a root after this number, oldest first, at most `limit`.
    async fn entries(
        &self,
        root: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, OutboxEntry)>, StoreError>;

    /// Notes that the entries of a root up to this number are in its stream. They may be removed now or later,
    /// and may be read once more.
    async fn relayed(&self, root: &SessionId, up_to: u64) -> Result<(), StoreError>;

    /// Reads roots that have entries, those with the oldest ones first, at most `limit`.
    async fn waiting(&self, limit: usize) -> Result<Vec<SessionId>, StoreError>;
}

/// A stream manager beside a store with an outbox. It judges writers of deltas by the gates that it was told.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait StreamLog: StreamManager {
    /// Writes entries of a root's outbox into its stream, in this order. An entry whose number is not higher than
    /// that of one written before is left out. Each is written whole or not at all.
    async fn relay(
        &self,
        root: &SessionId,
        entries: &[(u64, OutboxEntry)],
    ) -> Result<(), StreamError>;

    /// Returns the end of the stream right after an entry, if that was one of the last few.
    async fn position(
        &self,
        root: &SessionId,
        number: u64,
    ) -> Result<Option<Sequence>, StreamError>;
}

/// The port that relays what a process left in an outbox when it ended.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait RelayLeftovers: Send + Sync + fmt::Debug {
    /// Relays the outboxes of up to `limit` roots. Returns their number; a result equal to `limit` means that
    /// there may be more.
    async fn relay_leftovers(&self, limit: usize) -> Result<usize, StreamError>;
}
