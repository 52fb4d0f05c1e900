//! The recorded decision about a call, and who made it.

use helix_agents_core::entries::ToolAnswer;
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::{Answer, Submission};
use helix_agents_core::store::{SessionKey, StoreError};
use helix_agents_core::stream::{ChunkPayload, Sequence, StoredChunk};
use helix_agents_core::{ApprovalId, CallId, SessionId, UserId};
use serde_json::Value;

use crate::screen::shortened;

/// The number of chunks that are read at once.
const BATCH: usize = 1_000;
/// The maximum length of a result or a reason in a message.
const LONGEST: usize = 500;

/// The sentence about a call that timed out and whose late answer the model is told.
pub(crate) const PASSED: &str =
    "has timed out; the model is told of the first answer that comes after the deadline";

/// The call that an answer was meant for.
#[derive(Debug)]
pub(crate) struct AnsweredCall<'a> {
    pub(crate) root: &'a SessionId,
    pub(crate) call: &'a CallId,
    /// The approval that was asked for, if known.
    pub(crate) approval: Option<&'a ApprovalId>,
}

impl<'a> AnsweredCall<'a> {
    /// Creates it from an answer.
    pub(crate) fn by(answer: &'a ToolAnswer, approval: Option<&'a ApprovalId>) -> Self {
        Self {
            root: &answer.session_id,
            call: answer.submission.tool_call_id(),
            approval,
        }
    }

    /// Returns the decision about a call, if there was one. It is read from the stored answer until
    /// a run has consumed it, and from the stream afterwards.
    pub(crate) async fn decision(&self, backend: &Backend) -> anyhow::Result<Option<String>> {
        if let Some(answer) = self.waiting_answer(backend).await? {
            return Ok(Some(describe(&answer)));
        }
        self.streamed(backend).await
    }

    async fn waiting_answer(&self, backend: &Backend) -> Result<Option<Answer>, StoreError> {
        let Some(root) = backend.store.find(self.root).await? else {
            return Ok(None);
        };
        let owner = root.state.client_tool_call_ownership.get(self.call);
        let owner = match owner.filter(|owner| *owner != self.root) {
            Some(child) => {
                let key = SessionKey::new(self.root, child);
                backend.store.load(key).await?
            }
            None => Some(root),
        };
        let pending = owner.and_then(|mut owner| {
            let pending = &mut owner.state.pending_client_tool_calls;
            pending.remove(self.call)
        });
        Ok(pending.and_then(|call| call.answer))
    }

    async fn streamed(&self, backend: &Backend) -> anyhow::Result<Option<String>> {
        let (mut decided, mut ended) = (None, None);
        let mut after = Sequence::START;
        loop {
            let chunks = backend.streams.read(self.root, after, BATCH).await?;
            let Some(last) = chunks.last() else {
                // A decision is more informative than its result.
                return Ok(decided.or(ended));
            };
            after = last.sequence;
            for StoredChunk { chunk, .. } in &chunks {
                decided = self.decided(&chunk.payload).or(decided);
                ended = self.ended(&chunk.payload).or(ended);
            }
        }
    }

    fn decided(&self, said: &ChunkPayload) -> Option<String> {
        match said {
            ChunkPayload::ToolApprovalResponse {
                tool_call_id,
                approval_id,
                approved,
                reason,
                decided_by,
            } if tool_call_id == self.call
                && self.approval.is_none_or(|asked| asked == approval_id) =>
            {
                Some(decision(*approved, reason.as_deref(), decided_by.as_ref()))
            }
            _ => None,
        }
    }

    fn ended(&self, said: &ChunkPayload) -> Option<String> {
        match said {
            ChunkPayload::ToolEnd {
                tool_call_id,
                result,
                ..
            } if tool_call_id == self.call => Some(answered(result, None)),
            ChunkPayload::ToolError {
                tool_call_id,
                error,
                ..
            } if tool_call_id == self.call => Some(failed(error, None)),
            _ => None,
        }
    }
}

/// Describes an approval or a denial.
pub(crate) fn decision(approved: bool, reason: Option<&str>, by: Option<&UserId>) -> String {
    let verdict = if approved { "approved" } else { "denied" };
    let reason = reason.map(|why| format!(": {}", shortened(why, LONGEST)));
    format!("{verdict}{}{}", name(by), reason.unwrap_or_default())
}

fn describe(answer: &Answer) -> String {
    let by = answer.decided_by.as_ref();
    match &answer.submission {
        Submission::ApprovalResponse {
            approved, reason, ..
        } => decision(*approved, reason.as_deref(), by),
        Submission::ClientToolResult {
            error: Some(text), ..
        } => failed(text, by),
        Submission::ClientToolResult { result, .. } => {
            answered(result.as_ref().unwrap_or(&Value::Null), by)
        }
        Submission::Expired { .. } => "timed out".to_owned(),
        _ => format!("answered{}", name(by)),
    }
}

fn answered(result: &Value, by: Option<&UserId>) -> String {
    let result = shortened(&result.to_string(), LONGEST);
    format!("answered{} with {result}", name(by))
}

fn failed(error: &str, by: Option<&UserId>) -> String {
    format!(
        "ended{} with an error: {}",
        name(by),
        shortened(error, LONGEST)
    )
}

fn name(by: Option<&UserId>) -> String {
    by.map(|user| format!(" by {user}")).unwrap_or_default()
}
