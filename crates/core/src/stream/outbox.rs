//! The outbox: what commits leave for a stream that is stored elsewhere.

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{
    Chunk, Incarnation, Sequence, StreamError, StreamInfo, StreamManager, StreamRewind,
    StreamStatus, StreamWriter,
};
use crate::id::SessionId;
use crate::store::{EffectMark, Fence, Header, Headers, Plan, Snapshot, StoreError};
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

    /// The gate of a session as it is stored.
    #[must_use]
    pub(super) fn of_snapshot(found: &Snapshot) -> Self {
        Self {
            fence: found.fence,
            mark: EffectMark {
                failure: None,
                ..found.mark.clone()
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
    /// The number of the entry before it; 0 for the first one since the root was created, and
    /// [`OutboxEntry::UNKNOWN`] where earlier commits left none. A stream that was told less has lost something.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub previous: u64,
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl OutboxEntry {
    /// The number that no entry has: it stands for commits that were made before there was an outbox.
    pub const UNKNOWN: u64 = 1;

    /// Returns what a commit leaves in the outbox, if anything. `before` are the headers that the commit was
    /// planned with; `incarnation` is that of the stream of `root`, a new one if the commit deletes the root and
    /// creates it again. The store says which entry was the one before.
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
            previous: 0,
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

/// The last entry of an outbox, or the last one that a stream was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboxPosition {
    /// The incarnation of the stream.
    pub incarnation: Incarnation,
    /// The number of the entry.
    pub number: u64,
}

/// What a stream is to be that has lost something, by what its store says.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StreamRepair {
    /// The last entry of the outbox.
    pub position: OutboxPosition,
    /// The status of the stream.
    pub status: StreamStatus,
    /// The gates of some sessions. Those of others are told when they are missed.
    pub gates: BTreeMap<SessionId, DeltaGate>,
}

impl StreamRepair {
    pub(super) fn new(position: OutboxPosition, status: StreamStatus) -> Self {
        Self {
            position,
            status,
            gates: BTreeMap::new(),
        }
    }
}

/// The port to what commits left for streams that are stored elsewhere.
///
/// A store with an outbox writes an [`OutboxEntry`] in each commit, instead of chunks into a stream of its own,
/// and numbers the entries: each number is used once, grows from commit to commit of a root, and is greater than
/// [`OutboxEntry::UNKNOWN`]. Nobody reads an entry before those of the same root with lower numbers. The receipt of
/// such a commit has the number of the entry in place of a sequence; without an entry it has [`Sequence::START`].
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait Outbox: Send + Sync + fmt::Debug {
    /// Reads the entries of a root after this number, oldest first, at most `limit`. Every commit that was made
    /// before the call is taken into account.
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

    /// Returns the last entry that a commit of a root left, also if it is removed; `None` if the root does not
    /// exist, or no commit left one.
    async fn head(&self, root: &SessionId) -> Result<Option<OutboxPosition>, StoreError>;
}

/// A stream manager beside a store with an outbox. It judges writers of deltas by the gates that it was told.
///
/// It may be less durable than the store. An entry that does not follow the last one it was told
/// ([`OutboxEntry::previous`]), or a [`StreamRepair`] with another position, shows that it has lost something. Then
/// the stream begins anew in the same incarnation, with sequences higher than all that it may have had
/// before: everything up to there counts as removed ([`StreamInfo::trimmed`]), and other gates are forgotten.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait StreamLog: StreamManager {
    /// Writes entries of a root's outbox into its stream, in this order. An entry whose number is not higher than
    /// that of one written before is left out. Each is written whole or not at all.
    ///
    /// Returns the end of the stream right after the last of them, if that is known. It is not where the stream has
    /// begun anew, and none of them said in which status: see [`StreamLog::seen`].
    async fn relay(
        &self,
        root: &SessionId,
        entries: &[(u64, OutboxEntry)],
    ) -> Result<Option<Sequence>, StreamError>;

    /// Returns the end of the stream right after an entry, if that was one of the last few.
    async fn position(
        &self,
        root: &SessionId,
        number: u64,
    ) -> Result<Option<Sequence>, StreamError>;

    /// Returns the last entry that was written; `None` if nothing is known of the root, or its stream has begun anew
    /// and was not told its status since.
    async fn seen(&self, root: &SessionId) -> Result<Option<OutboxPosition>, StreamError>;

    /// Makes a stream what its store says it is, or removes it without a `repair`, if the last entry that was
    /// written still is the one that was `seen`. Returns whether that was so.
    ///
    /// If the position is the same only the gates are told, and the status if the stream was not told it.
    async fn repair(
        &self,
        root: &SessionId,
        seen: Option<OutboxPosition>,
        repair: Option<&StreamRepair>,
    ) -> Result<bool, StreamError>;

    /// The same as [`StreamManager::changed`], or returns `false` when nothing has changed for a while: then the
    /// caller finds out whether something was lost. Streams that lose nothing need not do so.
    async fn changed_or_quiet(
        &self,
        root: &SessionId,
        known: Option<StreamInfo>,
    ) -> Result<bool, StreamError>;
}

/// The port that relays what a process left in an outbox when it ended.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait RelayLeftovers: Send + Sync + fmt::Debug {
    /// Relays the outboxes of up to `limit` roots. Returns their number; a result equal to `limit` means that
    /// there may be more. A root whose outbox cannot be relayed keeps no other waiting.
    ///
    /// # Errors
    /// If none could be relayed.
    async fn relay_leftovers(&self, limit: usize) -> Result<usize, StreamError>;
}
