//! Answers to calls, in the parts of the last assistant message.

use helix_agents_core::CallId;
use helix_agents_core::entries::{EntryError, ResumeMode, ResumeRequest, ToolAnswer};
use helix_agents_core::runtime::{RunOptions, RuntimeError, StartedRun};
use helix_agents_core::session::{
    AnswerKind, PendingCall, RunRecord, RunStatus, Submission, SubmissionOutcome,
};
use helix_agents_core::store::{Lookup, Snapshot};
use helix_agents_core::stream::{ChunkPayload, Sequence, StoredChunk};
use helix_agents_wire::{
    DataChunk, FinishReason, IncomingMessage, RejectedAnswer, StreamTransformer, ToolKinds,
    TransformerOptions, UiChunk, extract_resume_intent,
};
use serde_json::{Value, json};

use super::attaching::{end_of_stream, open_approvals};
use super::bubble::{Bubble, runs_of_turn};
use super::calls::Calls;
use super::feed::{BubbleFeed, Feed, Start};
use super::posting::Post;
use crate::view::{PendingView, all_pending};
use crate::{Access, ApiError};

/// The number of chunks that are read at once.
const BATCH: usize = 256;

/// Stores the answers of a client, all of them or none, and returns what continues.
pub(super) async fn answer(post: &Post<'_>, message: &IncomingMessage) -> Result<Feed, ApiError> {
    let before = post.open().await?;
    let end = end_of_stream(post.app, before.state.root()).await?;
    let pending = all_pending(post.app.store(), before.state.root()).await?;
    let found = extract_resume_intent(&post.body.messages, &pending);
    let found = found.map_err(|error| ApiError::invalid(error.to_string()))?;
    let id = message.id.clone().unwrap_or_default();
    if found.intents.is_empty() {
        return unanswered(post, (&before, message), id, &found.rejected, end).await;
    }
    let late = submit(post, &before, &pending, found.intents).await?;
    let now = going_on(post).await?;
    let first = match late.is_empty() {
        true => Vec::new(),
        false => vec![rejection(&late, LATE)],
    };
    continued(post, (&before, &now), (id, message), first, end).await
}

/// The code and the reason of answers that came after the deadline.
const LATE: (&str, &str) = (
    "late_answer_after_timeout",
    "the call timed out before it was answered; the agent is told of the answer",
);
/// The code and the reason of answers to calls that are over.
const STALE: (&str, &str) = ("STALE", "the conversation went on without these answers");

/// Submits answers that were checked against the pending calls. Returns those that came too late.
pub(super) async fn submit(
    post: &Post<'_>,
    root: &Snapshot,
    pending: &[PendingCall],
    answers: Vec<Submission>,
) -> Result<Vec<String>, ApiError> {
    for answer in &answers {
        let call = answer.tool_call_id();
        let asked = pending.iter().find(|pending| pending.tool_call_id == *call);
        let mut access =
            Access::new(post.caller.operation).to(&post.session, &root.state.agent_type);
        access.call = Some(call);
        access.digest = asked.map(|asked| &asked.digest);
        post.caller.may(post.app, access).await?;
    }
    // All of them fit, or none is stored.
    for answer in &answers {
        let call = answer.tool_call_id();
        let asked = pending.iter().find(|pending| pending.tool_call_id == *call);
        answer.check_sender().map_err(EntryError::from)?;
        asked
            .map_or(Ok(()), |asked| answer.check(asked))
            .map_err(EntryError::from)?;
    }
    let mut late = Vec::new();
    for answer in answers {
        let call = answer.tool_call_id().to_string();
        let mut answer = ToolAnswer::new(post.session.clone(), answer);
        answer.decided_by.clone_from(&post.caller.principal.user);
        let submitted = post.app.runtime.submit_answer(answer).await?;
        if submitted.outcome == SubmissionOutcome::LateAnswerAfterTimeout {
            late.push(call);
        }
    }
    Ok(late)
}

/// Reads the session once its answers are stored. If none is missing any more, it has gone on by then: perhaps another
/// request has given the last answer, and is about to continue the run, or was about to when its process ended.
async fn going_on(post: &Post<'_>) -> Result<Snapshot, ApiError> {
    let now = post.open().await?;
    let waits = now
        .run
        .as_ref()
        .is_some_and(|run| run.status.is_suspended());
    let pending = if waits {
        all_pending(post.app.store(), now.state.root()).await?
    } else {
        return Ok(now);
    };
    if pending.iter().any(|call| call.answer.is_none()) {
        return Ok(now);
    }
    resume(post, &now).await?;
    post.open().await
}

/// Continues a session whose calls are answered, unless somebody else has.
async fn resume(post: &Post<'_>, before: &Snapshot) -> Result<(), ApiError> {
    let request = ResumeRequest::new(&before.state.session_id, ResumeMode::Continue);
    let user = post.caller.principal.user.as_ref();
    let admitted = post.app.quota.admit(post.app.store(), user).await?;
    match post
        .app
        .runtime
        .resume_session(request, RunOptions::default())
        .await
    {
        Ok(run) => {
            admitted.started(&run);
            Ok(())
        }
        Err(RuntimeError::Entry(
            EntryError::AlreadyRunning { .. }
            | EntryError::AlreadyCompleted { .. }
            | EntryError::AwaitingAnswers { .. }
            | EntryError::Stale { .. },
        )) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns what follows the answers: the run that took them. Where other calls still wait, nothing follows, and no step
/// is opened either: the client sends the other answers by what it sees in its last step. If that does not show all of
/// them, because sub-agents went on alone, it gets what it lacks.
async fn continued(
    post: &Post<'_>,
    (before, now): (&Snapshot, &Snapshot),
    (id, message): (String, &IncomingMessage),
    first: Vec<UiChunk>,
    end: Sequence,
) -> Result<Feed, ApiError> {
    let run = now.run.as_ref();
    let was = before.run.as_ref().map(|run| &run.id);
    let turn_of = |run: &RunRecord| (run.turn, run.turn_start);
    let turn = before.run.as_ref().map(turn_of);
    let is_of_turn = |run: &&RunRecord| turn == Some(turn_of(run));
    let of_turn = run.filter(is_of_turn);
    let follows = of_turn.filter(|run| Some(&run.id) != was || run.status == RunStatus::Running);
    let Some(run) = follows else {
        let paused = of_turn.filter(|run| run.status.is_suspended());
        let lacks = match paused {
            Some(run) => {
                let shown = Shown::of(post, run, message, None).await?;
                shown.before_missing().map(|at| (run, at))
            }
            None => None,
        };
        return match lacks {
            Some((run, seen)) => follow(post, now, run, (message, id, seen), first).await,
            None => nothing(post, now, id, first).await,
        };
    };
    let seen = match &before.run {
        Some(paused) if paused.id != run.id => {
            let next = Sequence(run.start_sequence);
            let pause = end_of_pause(post, paused, next).await?;
            // During the pause sub-agents may have gone on alone, and asked what the client has answered now.
            let shown = Shown::of(post, run, message, Some(next)).await?;
            shown.at.map_or(pause, |at| match shown.lacks_next {
                true => at.min(pause),
                false => at.max(pause),
            })
        }
        // The run goes on: what the client has of it is in no message.
        _ => {
            let begin = Bubble::of(run).after;
            let is_inside = |after: &Sequence| (begin.next()..=end).contains(after);
            post.position.after.filter(is_inside).unwrap_or(end)
        }
    };
    let seen = seen.max(Bubble::of(run).after);
    follow(post, now, run, (message, id, seen), first).await
}

/// Where a run has paused that another one follows, which begins at `next`: sub-agents go on first, and what they say is
/// new to the client, too.
async fn end_of_pause(
    post: &Post<'_>,
    paused: &RunRecord,
    next: Sequence,
) -> Result<Sequence, ApiError> {
    let is_pause = |stored: &&StoredChunk| {
        matches!(stored.chunk.payload, ChunkPayload::RunPaused { .. })
            && stored.chunk.base.run_id == paused.id
    };
    let mut end = next.0;
    while end > paused.start_sequence {
        let after = end.saturating_sub(BATCH as u64);
        let read = post
            .app
            .streams()
            .read(&post.session, Sequence(after), BATCH)
            .await?;
        if let Some(pause) = read.iter().rev().find(is_pause) {
            return Ok(pause.sequence);
        }
        end = after;
    }
    Ok(next)
}

/// How far the message of a client shows its turn.
struct Shown {
    /// After the last question that it has, or the last pause, before one that it lacks; `None` if it has none.
    at: Option<Sequence>,
    /// Whether there is a question after that, which it lacks.
    lacks_next: bool,
}

impl Shown {
    /// Looks for the questions of a turn in a message, up to a position.
    async fn of(
        post: &Post<'_>,
        run: &RunRecord,
        message: &IncomingMessage,
        up_to: Option<Sequence>,
    ) -> Result<Self, ApiError> {
        let mut shown = Self {
            at: None,
            lacks_next: false,
        };
        let bubble = Bubble::of(run);
        if message.id.as_ref() != Some(&bubble.id) {
            return Ok(shown);
        }
        let has = |id: &str| {
            let mut parts = message.parts.iter();
            parts.any(|part| part.get("toolCallId").and_then(Value::as_str) == Some(id))
        };
        let tools = ToolKinds::of_agents(post.app.runtime.agents());
        let options = TransformerOptions::new(post.session.clone()).tools(tools);
        // It knows by which id a message has a call.
        let mut transformer = StreamTransformer::new(options);
        let mut at = bubble.after;
        loop {
            let read = post.app.streams().read(&post.session, at, BATCH).await?;
            let Some(last) = read.last() else {
                return Ok(shown);
            };
            at = last.sequence;
            for stored in &read {
                if up_to.is_some_and(|up_to| stored.sequence > up_to) {
                    return Ok(shown);
                }
                for chunk in transformer.transform(stored) {
                    let UiChunk::ToolInputAvailable {
                        tool_call_id,
                        provider_executed: None,
                        ..
                    } = chunk
                    else {
                        continue;
                    };
                    if !has(&tool_call_id) {
                        shown.lacks_next = true;
                        return Ok(shown);
                    }
                    shown.at = Some(stored.sequence);
                }
                let is_own = stored.chunk.base.session_id == post.session;
                if is_own && matches!(stored.chunk.payload, ChunkPayload::RunPaused { .. }) {
                    shown.at = Some(stored.sequence);
                }
            }
        }
    }

    /// Where a client is that lacks a question; `None` if it has all of them, or none.
    fn before_missing(&self) -> Option<Sequence> {
        self.at.filter(|_| self.lacks_next)
    }
}

async fn follow(
    post: &Post<'_>,
    now: &Snapshot,
    run: &RunRecord,
    (message, id, seen): (&IncomingMessage, String, Sequence),
    first: Vec<UiChunk>,
) -> Result<Feed, ApiError> {
    let open = open_approvals(post.app, now.state.root()).await?;
    let past = end_of_stream(post.app, now.state.root()).await?;
    Ok(Feed::Bubble(BubbleFeed {
        run: StartedRun::new(now.state.key(), run.id.clone()),
        start: Start::Named(id),
        seen: Some(seen),
        past: Some((past, open)),
        calls: Some(Box::new(Calls::of(message))),
        first,
    }))
}

/// Ends the client's stream without adding a step to its message. It is told what waits still.
async fn nothing(
    post: &Post<'_>,
    now: &Snapshot,
    id: String,
    first: Vec<UiChunk>,
) -> Result<Feed, ApiError> {
    let calls = all_pending(post.app.store(), now.state.root()).await?;
    let calls: Vec<_> = calls.into_iter().map(PendingView::from).collect();
    let mut chunks = vec![UiChunk::Start { message_id: id }];
    chunks.extend(first);
    chunks.push(DataChunk::transient("pending", json!(calls)).into());
    chunks.push(UiChunk::Finish {
        finish_reason: Some(FinishReason::ToolCalls),
    });
    Ok(Feed::Chunks(chunks))
}

/// A request in which no answer is to a call that waits: it was sent before, it is late, or the session has left the
/// calls behind.
async fn unanswered(
    post: &Post<'_>,
    (found, message): (&Snapshot, &IncomingMessage),
    id: String,
    rejected: &[RejectedAnswer],
    end: Sequence,
) -> Result<Feed, ApiError> {
    if let Some(feed) = sent_before(post, (found, message), (&id, end), rejected).await? {
        return Ok(feed);
    }
    if rejected.is_empty() {
        // The client has answered nothing, and wants to know what comes.
        return continued(post, (found, found), (id, message), Vec::new(), end).await;
    }
    let mut late = Vec::new();
    for answer in rejected {
        if let Some(submission) = &answer.submission
            && is_timed_out(post, found, submission.tool_call_id()).await?
        {
            late.extend(submit(post, found, &[], vec![submission.clone()]).await?);
        }
    }
    let why = if late.is_empty() { STALE } else { LATE };
    let calls: Vec<_> = rejected
        .iter()
        .map(|one| one.tool_call_id.clone())
        .collect();
    // The rejection closes a step, so that the client does not send the same answers again.
    Ok(Feed::Chunks(vec![
        UiChunk::Start { message_id: id },
        UiChunk::StartStep {},
        rejection(&calls, why),
        UiChunk::FinishStep {},
        UiChunk::Finish {
            finish_reason: Some(FinishReason::Stop),
        },
    ]))
}

fn rejection(calls: &[String], (code, reason): (&str, &str)) -> UiChunk {
    DataChunk::resume_rejected(calls.to_vec(), code, reason).into()
}

/// Returns what followed answers that were accepted before: a request whose answer was lost is sent again. The client
/// has everything up to the pause in which the calls waited, and nothing after it.
async fn sent_before(
    post: &Post<'_>,
    (found, message): (&Snapshot, &IncomingMessage),
    (id, end): (&str, Sequence),
    rejected: &[RejectedAnswer],
) -> Result<Option<Feed>, ApiError> {
    let Some(last) = &found.run else {
        return Ok(None);
    };
    if Bubble::of(last).id != id {
        return Ok(None);
    }
    let named = |run: &RunRecord| {
        let suspended = run.suspended.as_ref();
        suspended.is_some_and(|suspended| {
            rejected.iter().any(|answer| {
                let call = answer.submission.as_ref().map(Submission::tool_call_id);
                call.is_some_and(|call| suspended.tool_call_ids.contains(call))
            }) || !suspended.children.is_empty() && !rejected.is_empty()
        })
    };
    for answer in rejected {
        let call = answer.submission.as_ref().map(Submission::tool_call_id);
        if let Some(call) = call
            && is_timed_out(post, found, call).await?
        {
            return Ok(None);
        }
    }
    let runs = runs_of_turn(post.app, found).await?;
    let Some(paused) = runs.iter().rposition(named) else {
        return Ok(None);
    };
    let Some(next) = runs.get(paused + 1) else {
        // The pause lasts, unless no answer is missing.
        let now = going_on(post).await?;
        let id = (id.to_owned(), message);
        let feed = continued(post, (found, &now), id, Vec::new(), end).await?;
        return Ok(Some(feed));
    };
    let mut seen = match runs.get(paused) {
        Some(paused) => end_of_pause(post, paused, Sequence(next.start_sequence)).await?,
        None => Sequence(next.start_sequence),
    };
    // The session may have gone on since it was read.
    let last = runs.last().unwrap_or(last);
    // Of several pauses for sub-agents, only what they asked tells which one the client has.
    let shown = Shown::of(post, last, message, None).await?;
    if let Some(lacks) = shown.before_missing() {
        seen = seen.min(lacks);
    }
    let seen = (message, id.to_owned(), seen);
    follow(post, found, last, seen, Vec::new()).await.map(Some)
}

async fn is_timed_out(post: &Post<'_>, found: &Snapshot, call: &CallId) -> Result<bool, ApiError> {
    let root = found.state.root().as_root();
    let which = Lookup::One(call.clone());
    let answered = post.app.store().answered(root, which).await?;
    let timed_out =
        |kind: &AnswerKind| matches!(kind, AnswerKind::TimedOut(_) | AnswerKind::AnsweredLate);
    Ok(answered.items.iter().any(|one| timed_out(&one.kind)))
}
