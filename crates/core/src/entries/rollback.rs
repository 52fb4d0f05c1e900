//! Takes a turn back before the next one starts.

use super::rewind::RewindPoint;
use super::{Entries, EntryError};
use crate::id::CallId;
use crate::message::{Message, ResultStatus, ToolMessage, UserMessage};
use crate::session::{RunRecord, TurnStart};
use crate::store::{Snapshot, WorkingChild};

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

impl Entries {
    /// Returns the turn that the messages in the inbox take back, once its run has ended.
    pub(super) async fn rollback(&self, found: &Snapshot) -> Result<Option<Rollback>, EntryError> {
        let replaced = |run: &&RunRecord| {
            let mut rows = found.inbox.iter();
            run.status.is_ended() && rows.any(|row| row.replaces.as_ref() == Some(&run.id))
        };
        let Some(run) = found.run.as_ref().filter(replaced) else {
            return Ok(None);
        };
        // A turn that an earlier version of the library started cannot be taken back.
        let Some(start) = run.turn_start else {
            return Ok(None);
        };
        // Boxed: every entry holds this future, and few take a turn back.
        Box::pin(self.turn_back(found, run.turn, start))
            .await
            .map(Some)
    }

    async fn turn_back(
        &self,
        found: &Snapshot,
        turn: u32,
        start: TurnStart,
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
            note: note(&effective),
        })
    }
}

fn may_have_taken_effect(result: &ToolMessage) -> bool {
    !matches!(
        result.status,
        ResultStatus::NotExecuted | ResultStatus::Denied
    )
}

fn note(calls: &[String]) -> Option<UserMessage> {
    if calls.is_empty() {
        return None;
    }
    let named = calls.get(..MAX_NAMED).unwrap_or(calls).join(", ");
    let more = match calls.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(UserMessage::hidden(format!(
        "The user withdrew the last message before it was answered, and it was removed from this conversation. \
         These calls were made for it and may have taken effect: {named}{more}. Do not repeat them before checking."
    )))
}
