//! Finds the points to which a session can be rewound.

use super::rewind::RewindPoint;
use super::{Entries, EntryError};
use crate::error::ErrorCode;
use crate::id::{CallId, CheckpointId, RunId};
use crate::message::Message;
use crate::session::{Checkpoint, RunRecord, SessionStatus, TurnStart};
use crate::store::{Lookup, Page, Snapshot};
use crate::stream::{ChunkPayload, Sequence};

/// The number of messages, checkpoints or chunks that are read at once.
const BATCH: usize = 256;

/// A point to go back to, and the turn that continues from there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReturnPoint {
    pub(super) point: RewindPoint,
    /// The number of the turn.
    pub(super) turn: u32,
    /// The number of steps of the turn at the point.
    pub(super) steps: u32,
    /// The session before the turn.
    pub(super) turn_start: Option<TurnStart>,
    /// Whether the last checkpoint that is kept is a checkpoint of this very point.
    pub(super) is_checkpoint: bool,
    /// Whether the stream that is kept tells of that checkpoint.
    pub(super) is_told: bool,
    /// The calls of the messages after the point.
    pub(super) cut: Vec<CallId>,
}

impl Entries {
    /// Finds the point from which the last turn is retried: its last good checkpoint, or right after its user
    /// messages.
    ///
    /// A turn that failed because its step budget was used up lacks nothing, so everything is kept. So it is if
    /// the start of the turn is not recorded, because an earlier version of the library started it.
    pub(super) async fn retry_point(
        &self,
        found: &Snapshot,
        last: &RunRecord,
    ) -> Result<ReturnPoint, EntryError> {
        let error = last.error.as_ref();
        let is_whole = error.is_some_and(|error| error.code == ErrorCode::MaxSteps);
        let Some(start) = last.turn_start.filter(|_| !is_whole) else {
            return self.current_point(found, last).await;
        };
        if let Some((good, run)) = self.last_good_checkpoint(found, last, start).await? {
            return self.checkpoint_point(found, good, Some(run)).await;
        }
        let mut point = self.turn_start_point(found, start).await?;
        let sent = usize::try_from(start.user_messages).unwrap_or(usize::MAX);
        point.messages = point.messages.saturating_add(sent);
        point.state_version = start.state_after;
        Ok(ReturnPoint {
            turn: last.turn,
            steps: 0,
            turn_start: Some(start),
            is_checkpoint: false,
            is_told: false,
            cut: self.calls_after(found, point.messages).await?,
            point,
        })
    }

    /// Finds the point of the checkpoint with this id.
    pub(super) async fn point_of(
        &self,
        found: &Snapshot,
        id: &CheckpointId,
    ) -> Result<ReturnPoint, EntryError> {
        let lookup = Lookup::One(id.clone());
        let checkpoints = self.store.checkpoints(found.state.key(), lookup).await?;
        let checkpoint = checkpoints.items.into_iter().next();
        // A checkpoint outlives a truncation by hand, but not its point.
        let Some(checkpoint) = checkpoint.filter(|one| one.message_count <= found.message_count)
        else {
            return Err(EntryError::UnknownCheckpoint {
                session: found.state.session_id.clone(),
                checkpoint: id.clone(),
            });
        };
        let run = self.run_of(found, &checkpoint.run_id).await?;
        self.checkpoint_point(found, checkpoint, run).await
    }

    /// Returns the point before the user messages of a turn.
    pub(super) async fn turn_start_point(
        &self,
        found: &Snapshot,
        start: TurnStart,
    ) -> Result<RewindPoint, EntryError> {
        let is_before = |one: &Checkpoint| one.message_count <= start.messages;
        Ok(RewindPoint {
            messages: start.messages,
            state_version: start.state_version,
            sequence: Some(Sequence(start.sequence)),
            checkpoint: self.latest_checkpoint(found, is_before).await?,
        })
    }

    /// Lists the calls of the messages from a position on.
    pub(super) async fn calls_after(
        &self,
        found: &Snapshot,
        messages: usize,
    ) -> Result<Vec<CallId>, EntryError> {
        let mut calls = Vec::new();
        let note = |message| {
            if let Message::Assistant(reply) = message {
                calls.extend(reply.tool_calls().map(|call| call.id.clone()));
            }
        };
        self.each_message_after(found, messages, note).await?;
        Ok(calls)
    }

    /// Reads the messages from a position on, in bounded parts. The cost grows with their number.
    pub(super) async fn each_message_after(
        &self,
        found: &Snapshot,
        messages: usize,
        mut note: impl FnMut(Message),
    ) -> Result<(), EntryError> {
        let mut page = Page::new(messages, BATCH);
        while page.offset < found.message_count {
            let read = self.store.messages(found.state.key(), page).await?.items;
            if read.is_empty() {
                break;
            }
            page.offset += read.len();
            read.into_iter().for_each(&mut note);
        }
        Ok(())
    }

    /// Returns the point at which the session is now, for a turn that goes on with all it has.
    async fn current_point(
        &self,
        found: &Snapshot,
        last: &RunRecord,
    ) -> Result<ReturnPoint, EntryError> {
        let checkpoint = self.latest_checkpoint(found, |_| true).await?;
        let is_here = |one: &Checkpoint| {
            one.message_count == found.message_count && one.state_version == found.state_version
        };
        Ok(ReturnPoint {
            turn: last.turn,
            steps: last.step_count,
            turn_start: last.turn_start,
            is_checkpoint: checkpoint.as_ref().is_some_and(is_here),
            is_told: true,
            cut: Vec::new(),
            point: RewindPoint {
                messages: found.message_count,
                state_version: found.state_version,
                sequence: None,
                checkpoint,
            },
        })
    }

    /// Returns the point of a checkpoint that a run wrote. One that was written at a pause is the session before
    /// the step of the pause.
    async fn checkpoint_point(
        &self,
        found: &Snapshot,
        checkpoint: Checkpoint,
        run: Option<RunRecord>,
    ) -> Result<ReturnPoint, EntryError> {
        let paused = checkpoint.open_step.as_ref();
        let before = paused.and_then(|_| run.as_ref()?.suspended.as_ref()?.before);
        let told = match (before, &run) {
            (None, Some(run)) => self.sequence_of(found, &checkpoint, run).await?,
            _ => None,
        };
        let run_start = run.as_ref().map(|run| Sequence(run.start_sequence));
        let (state_version, sequence) = match before {
            Some(before) => (before.state_version, Some(Sequence(before.sequence))),
            None => (checkpoint.state_version, told.or(run_start)),
        };
        let messages = checkpoint.message_count;
        let turn_of = |run: &RunRecord| run.turn;
        let turn = run.as_ref().or(found.run.as_ref()).map_or(1, turn_of);
        Ok(ReturnPoint {
            turn,
            steps: checkpoint.step_count,
            turn_start: run.and_then(|run| run.turn_start),
            is_checkpoint: true,
            is_told: told.is_some(),
            cut: self.calls_after(found, messages).await?,
            point: RewindPoint {
                messages,
                state_version,
                sequence,
                checkpoint: Some(checkpoint),
            },
        })
    }

    /// Finds the last checkpoint of a turn at which the turn was going on and no step was open, with the run that
    /// wrote it.
    async fn last_good_checkpoint(
        &self,
        found: &Snapshot,
        last: &RunRecord,
        start: TurnStart,
    ) -> Result<Option<(Checkpoint, RunRecord)>, EntryError> {
        let is_good = |one: &Checkpoint| {
            let is_going_on = one.status == SessionStatus::Active && one.open_step.is_none();
            is_going_on && one.message_count <= found.message_count
        };
        // Checkpoints of earlier turns come after those of this one: they end the search.
        let is_wanted = |one: &Checkpoint| is_good(one) || one.message_count <= start.messages;
        let Some(checkpoint) = self.latest_checkpoint(found, is_wanted).await? else {
            return Ok(None);
        };
        let run = self.run_of(found, &checkpoint.run_id).await?;
        let run = run.filter(|run| (run.turn, run.turn_start) == (last.turn, Some(start)));
        Ok(run.map(|run| (checkpoint, run)))
    }

    /// Finds the most recently written checkpoint that satisfies a condition.
    async fn latest_checkpoint(
        &self,
        found: &Snapshot,
        is_wanted: impl Fn(&Checkpoint) -> bool,
    ) -> Result<Option<Checkpoint>, EntryError> {
        let mut page = Page::first(BATCH);
        loop {
            let lookup = Lookup::Page(page);
            let listed = self.store.checkpoints(found.state.key(), lookup).await?;
            page.offset += listed.items.len();
            let is_last = listed.items.is_empty() || !listed.has_more;
            let wanted = listed.items.into_iter().find(&is_wanted);
            if wanted.is_some() || is_last {
                return Ok(wanted);
            }
        }
    }

    async fn run_of(&self, found: &Snapshot, run: &RunId) -> Result<Option<RunRecord>, EntryError> {
        let lookup = Lookup::One(run.clone());
        let runs = self.store.runs(found.state.key(), lookup).await?;
        Ok(runs.items.into_iter().next())
    }

    /// Finds the last chunk that tells of a checkpoint, among those that were written since its run began. The
    /// stream is searched from its end on, so that the cost grows with what is cut.
    async fn sequence_of(
        &self,
        found: &Snapshot,
        checkpoint: &Checkpoint,
        run: &RunRecord,
    ) -> Result<Option<Sequence>, EntryError> {
        let root = found.state.root();
        let info = self.streams.info(root).await?;
        let mut end = info.map_or(Sequence::START, |info| info.last);
        let window = u64::try_from(BATCH).unwrap_or(u64::MAX);
        while end.0 > run.start_sequence {
            let after = Sequence(end.0.saturating_sub(window));
            let chunks = self.streams.read(root, after, BATCH).await?;
            let told = chunks.iter().rev().find(|stored| {
                matches!(&stored.chunk.payload, ChunkPayload::CheckpointCreated { checkpoint_id }
                    if *checkpoint_id == checkpoint.id)
                    && stored.chunk.base.session_id == found.state.session_id
            });
            if told.is_some() {
                return Ok(told.map(|told| told.sequence));
            }
            end = after;
        }
        Ok(None)
    }
}
