//! Takes a turn back before the next one starts.

use super::rewind::RewindPoint;
use super::{Entries, EntryError};
use crate::id::{CallId, MessageId};
use crate::message::{Message, ResultStatus, ToolMessage, UserMessage};
use crate::session::{RunStatus, TurnStart};
use crate::store::{InboxRow, Lookup, Page, Snapshot, WorkingChild};

/// The number of messages or runs that are read at once.
const BATCH: usize = 256;
/// The maximum number of calls that the model is told of by name.
const MAX_NAMED: usize = 32;

/// A turn to take back: the session before it, and what remains of it outside.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rollback {
    /// The session before the user messages of the turn.
    pub(super) point: RewindPoint,
    /// The number of the turn.
    pub(super) turn: u32,
    /// The calls of the turn.
    pub(super) cut: Vec<CallId>,
    /// The children that still work for those calls.
    pub(super) left: Vec<WorkingChild>,
    /// The message that tells the model which calls may have taken effect, if any may have.
    pub(super) note: Option<UserMessage>,
}

/// Why something is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// A message was sent in the place of the last one.
    Withdrawn,
    /// A message was edited, or is to be answered once more.
    Edited,
}

impl Entries {
    /// Returns what is taken back before the next turn starts: the turn that messages in the inbox replace, once its
    /// run has ended, or everything from a message on that is edited.
    ///
    /// # Errors
    /// [`EntryError::Stale`] if the session does not have the message that the caller edits. What a message that has
    /// waited wants to edit may be gone by now.
    pub(super) async fn rollback(
        &self,
        found: &Snapshot,
        edits: Option<&MessageId>,
    ) -> Result<Option<Rollback>, EntryError> {
        let run = found.run.as_ref();
        let waiting = |row: &InboxRow| row.replaces.is_some() || row.edits.is_some();
        if edits.is_none() && !found.inbox.iter().any(waiting)
            || run.is_some_and(|run| run.status == RunStatus::Running)
        {
            return Ok(None);
        }
        // Boxed: every entry holds this future, and few take a turn back.
        Box::pin(self.take_back(found, edits)).await
    }

    async fn take_back(
        &self,
        found: &Snapshot,
        edits: Option<&MessageId>,
    ) -> Result<Option<Rollback>, EntryError> {
        let mut first: Option<(u32, TurnStart, Why)> = None;
        let mut note = |turn: u32, start: TurnStart, why: Why| {
            let is_earlier = |known: &(u32, TurnStart, Why)| start.messages < known.1.messages;
            if first.as_ref().is_none_or(is_earlier) {
                first = Some((turn, start, why));
            }
        };
        if let Some(run) = found.run.as_ref().filter(|run| run.status.is_ended()) {
            let mut rows = found.inbox.iter();
            let is_replaced = rows.any(|row| row.replaces.as_ref() == Some(&run.id));
            // A turn that an earlier version of the library started cannot be taken back.
            if let Some(start) = run.turn_start.filter(|_| is_replaced) {
                note(run.turn, start, Why::Withdrawn);
            }
        }
        for message in found.inbox.iter().filter_map(|row| row.edits.as_ref()) {
            if let Some((turn, start)) = self.turn_of(found, message).await? {
                note(turn, start, Why::Edited);
            }
        }
        if let Some(message) = edits {
            let waiting = found.inbox.iter().flat_map(|row| &row.messages);
            let waits = |one: &UserMessage| one.id.as_ref() == Some(message);
            match self.turn_of(found, message).await? {
                Some((turn, start)) => note(turn, start, Why::Edited),
                None if waiting.clone().any(waits) => {}
                None => {
                    return Err(EntryError::Stale {
                        session: found.state.session_id.clone(),
                        why: "it does not have the message that is to be edited; read its messages again",
                    });
                }
            }
        }
        match first {
            Some((turn, start, why)) => self.turn_back(found, turn, start, why).await.map(Some),
            None => Ok(None),
        }
    }

    /// Finds the turn that a user message began: its number, and the session before it.
    async fn turn_of(
        &self,
        found: &Snapshot,
        message: &MessageId,
    ) -> Result<Option<(u32, TurnStart)>, EntryError> {
        let Some(position) = self.position_of(found, message).await? else {
            return Ok(None);
        };
        let session = found.state.key();
        let count = self.store.runs(session, Lookup::Page(Page::first(0)));
        let mut end = count.await?.total;
        let mut earliest: Option<TurnStart> = None;
        // Of two runs that began at the same place the later one counts: the other was taken back.
        while end > 0 {
            let start = end.saturating_sub(BATCH);
            let page = Lookup::Page(Page::new(start, end - start));
            for run in self
                .store
                .runs(session, page)
                .await?
                .items
                .into_iter()
                .rev()
            {
                let Some(turn_start) = run.turn_start else {
                    continue;
                };
                let sent = usize::try_from(turn_start.user_messages).unwrap_or(usize::MAX);
                let after = turn_start.messages.saturating_add(sent);
                if (turn_start.messages..after).contains(&position) {
                    return Ok(Some((run.turn, turn_start)));
                }
                earliest = Some(turn_start);
            }
            end = start;
        }
        // The message came with a branch: the session began with the state before its first turn.
        let mut start = earliest.unwrap_or(TurnStart {
            state_version: found.state_version,
            ..TurnStart::default()
        });
        start.messages = position;
        Ok(Some((1, start)))
    }

    /// Finds the position of a user message, from the end of the history on: the cost grows with what is cut.
    async fn position_of(
        &self,
        found: &Snapshot,
        message: &MessageId,
    ) -> Result<Option<usize>, EntryError> {
        let mut end = found.message_count;
        while end > 0 {
            let start = end.saturating_sub(BATCH);
            let mut page = Page::new(start, end - start);
            let mut last = None;
            while page.offset < end {
                page.limit = end - page.offset;
                let read = self.store.messages(found.state.key(), page).await?.items;
                if read.is_empty() {
                    break;
                }
                for (index, one) in read.iter().enumerate() {
                    if matches!(one, Message::User(user) if user.id.as_ref() == Some(message)) {
                        last = Some(page.offset + index);
                    }
                }
                page.offset += read.len();
            }
            if last.is_some() {
                return Ok(last);
            }
            end = start;
        }
        Ok(None)
    }

    async fn turn_back(
        &self,
        found: &Snapshot,
        turn: u32,
        start: TurnStart,
        why: Why,
    ) -> Result<Rollback, EntryError> {
        let point = self.turn_start_point(found, start).await?;
        let mut cut = Vec::new();
        let mut effective = Vec::new();
        let note_message = |message| match message {
            Message::Assistant(reply) => {
                cut.extend(reply.tool_calls().map(|call| call.id.clone()));
            }
            Message::Tool(result) if may_have_taken_effect(&result) => {
                effective.push(format!("{} ({})", result.tool_name, result.tool_call_id));
            }
            _ => {}
        };
        self.each_message_after(found, point.messages, note_message)
            .await?;
        Ok(Rollback {
            point,
            turn,
            left: self.working_for(found, &cut).await?,
            cut,
            note: note(&effective, why),
        })
    }
}

fn may_have_taken_effect(result: &ToolMessage) -> bool {
    !matches!(
        result.status,
        ResultStatus::NotExecuted | ResultStatus::Denied
    )
}

fn note(calls: &[String], why: Why) -> Option<UserMessage> {
    if calls.is_empty() {
        return None;
    }
    let named = calls.get(..MAX_NAMED).unwrap_or(calls).join(", ");
    let more = match calls.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let what = match why {
        Why::Withdrawn => {
            "The user withdrew the last message before it was answered, and it was removed from this conversation. \
             These calls were made for it"
        }
        Why::Edited => {
            "The user changed an earlier message, and what followed it was removed from this conversation. These \
             calls were made there"
        }
    };
    Some(UserMessage::hidden(format!(
        "{what} and may have taken effect: {named}{more}. Do not repeat them before checking."
    )))
}
