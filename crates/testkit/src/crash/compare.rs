//! The outcome of a play, its checks, and its comparison with an undisturbed one.

mod budgeted;
mod stopped;
mod tree;
mod under_schedule;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use helix_agents_core::message::{AssistantPart, Message, ResultStatus};
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::{
    AnswerKind, Checkpoint, PendingCall, RunRecord, RunStatus, RunTrigger, SessionStatus,
};
use helix_agents_core::state::apply_patch;
use helix_agents_core::store::{AnsweredCall, Lookup, Page, SessionKey, Snapshot};
use helix_agents_core::stream::{ChunkPayload, Sequence, StoredChunk, StreamError, StreamInfo};
use helix_agents_core::transcript::Transcript;
use helix_agents_core::usage::{UsageEntry, UsageKind};
use helix_agents_core::{CallId, SessionId};

use super::people::is_stopped;

/// Everything that is stored of a session.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) session: Option<Snapshot>,
    pub(super) messages: Vec<Message>,
    pub(super) runs: Vec<RunRecord>,
    usage: Vec<UsageEntry>,
    /// The checkpoints, the most recently written first.
    pub(super) checkpoints: Vec<Checkpoint>,
    /// The calls that were answered or timed out.
    pub(super) answered: Vec<AnsweredCall>,
    chunks: Vec<StoredChunk>,
    stream: Option<StreamInfo>,
    /// The state with which the session began.
    first_state: serde_json::Value,
    /// The sessions of sub-agents, by the calls that started them.
    pub(super) children: BTreeMap<CallId, Self>,
}

impl Stored {
    pub(super) async fn read(backend: &Backend, session: &SessionId) -> Result<Self, StreamError> {
        loop {
            let version = Self::version(backend, session).await?;
            let chunks = backend
                .streams
                .read(session, Sequence::START, usize::MAX)
                .await?;
            let read = Self::read_tree(backend, session.as_root(), &chunks).await?;
            // A commit of a process that was killed may still be made by a thread of its store: the sessions of the
            // tree must be of one moment.
            if read.children.is_empty() || Self::version(backend, session).await? == version {
                return Ok(read);
            }
        }
    }

    async fn version(backend: &Backend, root: &SessionId) -> Result<Option<u64>, StreamError> {
        let found = backend.store.load(root.as_root()).await?;
        Ok(found.map(|found| found.state.version))
    }

    /// Reads a session and those of its sub-agents.
    fn read_tree<'a>(
        backend: &'a Backend,
        key: SessionKey<'a>,
        chunks: &'a [StoredChunk],
    ) -> BoxFuture<'a, Result<Self, StreamError>> {
        Box::pin(async move {
            let store = &backend.store;
            let found = store.load(key).await?;
            let all = Lookup::Page(Page::ALL);
            let (checkpoints, answered) = (Lookup::Page(Page::ALL), Lookup::Page(Page::ALL));
            let first_state = match &found {
                Some(_) => store.state_at(key, 1).await?.as_ref().clone(),
                None => serde_json::Value::Null,
            };
            let mut children = BTreeMap::new();
            if found.is_some() {
                for child in store.extras(key).await?.children {
                    let below = SessionKey::new(key.root, &child.session_id);
                    let read = Self::read_tree(backend, below, chunks).await?;
                    children.insert(child.tool_call_id.clone(), read);
                }
            }
            let of_session = |one: &&StoredChunk| one.chunk.base.session_id == *key.session;
            let answered = match key.is_root() {
                true => store.answered(key, answered).await?.items,
                false => Vec::new(),
            };
            Ok(Self {
                messages: store.messages(key, Page::ALL).await?.items,
                runs: store.runs(key, all).await?.items,
                usage: store.usage(key, Page::ALL).await?.items,
                checkpoints: store.checkpoints(key, checkpoints).await?.items,
                answered,
                chunks: chunks.iter().filter(of_session).cloned().collect(),
                stream: match key.is_root() {
                    true => backend.streams.info(key.root).await?,
                    false => None,
                },
                session: found,
                first_state,
                children,
            })
        })
    }

    /// The agent of the session.
    pub(super) fn agent(&self) -> String {
        let session = self.session.as_ref();
        session.map_or_else(String::new, |one| one.state.agent_type.to_string())
    }

    /// Whether a call of this tool is in the open step.
    pub(super) fn has_open_call(&self, tool: &str) -> bool {
        let session = self.session.as_ref();
        let step = session.and_then(|session| session.open_step.as_ref());
        step.is_some_and(|step| step.calls().any(|(call, _)| call.name == *tool))
            || self
                .children
                .values()
                .any(|child| child.has_open_call(tool))
    }

    /// Whether the latest run was asked to stop.
    pub(super) fn is_asked_to_stop(&self) -> bool {
        let session = self.session.as_ref();
        session.is_some_and(|session| session.stop.is_some())
    }

    /// Whether messages wait for the next run.
    pub(super) fn has_waiting_messages(&self) -> bool {
        let session = self.session.as_ref();
        session.is_some_and(|session| !session.inbox.is_empty())
    }

    /// The calls that have timed out, and that nobody has answered since.
    pub(super) fn timed_out(&self) -> impl Iterator<Item = &CallId> {
        let answered = self.answered.iter();
        let timed_out = answered.filter(|one| matches!(one.kind, AnswerKind::TimedOut(_)));
        timed_out.map(|one| &one.call)
    }

    /// How the calls were answered: in time, too late, or not at all.
    fn answered_kinds(&self) -> [usize; 3] {
        let count = |is: fn(&AnswerKind) -> bool| {
            let answered = self.answered.iter();
            answered.filter(|one| is(&one.kind)).count()
        };
        [
            count(AnswerKind::is_submitted),
            count(|kind| matches!(kind, AnswerKind::AnsweredLate)),
            count(|kind| matches!(kind, AnswerKind::TimedOut(_))),
        ]
    }

    /// The number of turns that were begun.
    pub(super) fn turns_begun(&self) -> usize {
        let runs = self.runs.iter();
        runs.filter(|run| run.trigger == RunTrigger::Execute)
            .count()
    }

    /// The pending calls without an answer, perhaps in reverse order.
    pub(super) fn unanswered(&self, backwards: bool) -> Vec<PendingCall> {
        let session = self.session.iter();
        let pending = session.flat_map(|one| one.state.pending_client_tool_calls.values());
        let open = pending.filter(|call| call.answer.is_none()).cloned();
        let below = self.children.values();
        let below = below.flat_map(|child| child.unanswered(false));
        let mut open: Vec<_> = open.chain(below).collect();
        if backwards {
            open.reverse();
        }
        open
    }

    /// Violations of what must hold at every moment, also in the middle of a run.
    pub(super) fn flaws(&self) -> Vec<String> {
        let mut flaws = Vec::new();
        let (_, healed) = Transcript::load(self.messages.clone());
        flaws.extend(
            healed
                .iter()
                .map(|what| format!("the history is not valid: {what}")),
        );
        let sequences: Vec<_> = self.chunks.iter().map(|one| one.sequence).collect();
        if !sequences.is_sorted_by(|a, b| a < b) {
            flaws.push("sequences of the stream do not grow".to_owned());
        }
        flaws.extend(self.flaws_of_the_budget());
        for (call, child) in &self.children {
            let below = child.flaws().into_iter();
            flaws.extend(below.map(|flaw| format!("under {call}: {flaw}")));
        }
        flaws
    }

    /// Violations of what must hold when every run has ended.
    pub(super) fn flaws_at_the_end(&self) -> Vec<String> {
        let mut flaws = self.flaws();
        let Some(session) = &self.session else {
            return vec!["the session is missing".to_owned()];
        };
        if session.state.status == SessionStatus::Active {
            flaws.push("the session is still active".to_owned());
        }
        if session.open_step.is_some() {
            flaws.push("a step is still open".to_owned());
        }
        if !session.state.pending_client_tool_calls.is_empty()
            || !session.state.client_tool_call_ownership.is_empty()
        {
            flaws.push("a call is still pending".to_owned());
        }
        if !session.inbox.is_empty() {
            flaws.push("a message still waits".to_owned());
        }
        if session.lease.is_some() {
            flaws.push("the lease is still held".to_owned());
        }
        if self.has_reservation() {
            flaws.push("a reservation is still held".to_owned());
        }
        if !session.state.suspended_awaiting_children.is_empty() {
            flaws.push("it still waits for a child".to_owned());
        }
        flaws.extend(self.flaws_of_the_replay(session));
        for (call, child) in &self.children {
            let below = child.flaws_at_the_end().into_iter();
            flaws.extend(below.map(|flaw| format!("under {call}: {flaw}")));
        }
        flaws
    }

    /// The violations in a replay of the stream: a reader of the whole stream must see the history,
    /// once.
    fn flaws_of_the_replay(&self, session: &Snapshot) -> Vec<String> {
        let mut flaws = Vec::new();
        let mut text = String::new();
        let mut ends: BTreeMap<CallId, usize> = BTreeMap::new();
        let mut state = self.first_state.clone();
        let mut steps = 0;
        for stored in &self.chunks {
            match &stored.chunk.payload {
                ChunkPayload::TextDelta { delta } => text.push_str(delta),
                ChunkPayload::ToolEnd { tool_call_id, .. }
                | ChunkPayload::ToolError { tool_call_id, .. }
                | ChunkPayload::ToolInputError { tool_call_id, .. } => {
                    *ends.entry(tool_call_id.clone()).or_default() += 1;
                }
                ChunkPayload::StatePatch { patches } => {
                    if let Err(error) = apply_patch(&mut state, patches) {
                        flaws.push(format!("a reader cannot apply a patch: {error}"));
                    }
                }
                ChunkPayload::StepCommitted { .. } => steps += 1,
                _ => {}
            }
        }
        let assistants = self.messages.iter().filter_map(|message| match message {
            Message::Assistant(assistant) => Some(assistant),
            _ => None,
        });
        let said: String = assistants
            .clone()
            .filter_map(|message| message.content())
            .collect();
        if text != said {
            flaws.push(format!(
                "readers saw the text {text:?}, the history has {said:?}"
            ));
        }
        let made = assistants.clone().count();
        if steps != made {
            flaws.push(format!(
                "{steps} steps were announced, {made} are in the history"
            ));
        }
        for call in assistants.flat_map(|message| message.tool_calls()) {
            let seen = ends.get(&call.id).copied().unwrap_or_default();
            if seen != 1 && !call.name.starts_with("__") {
                flaws.push(format!(
                    "readers saw the end of call {} {seen} times",
                    call.id
                ));
            }
        }
        if state != *session.state.custom_state {
            flaws.push(format!(
                "readers have the state {state}, the store has {}",
                session.state.custom_state
            ));
        }
        flaws
    }

    /// The differences from an undisturbed play. `unsure` are calls whose outcome may be unknown.
    ///
    /// The part of a reply that an interruption keeps is lost if its process dies first. Only then the
    /// replies that were cut off, and the numbers of steps and checkpoints, are not compared. The state
    /// is not compared if a stopped run left other calls unknown than the undisturbed one.
    pub(super) fn differences(
        &self,
        wanted: &Self,
        calls_unsure: &BTreeSet<CallId>,
    ) -> Vec<String> {
        let mut differences = Differences::default();
        let same_cuts = self.cut_replies() == wanted.cut_replies();
        let comparable = |stored: &Self| match same_cuts {
            true => stored.messages.clone(),
            false => stored.messages_without_cuts(),
        };
        let (have, want) = (comparable(self), comparable(wanted));
        let unsure = places(&have, calls_unsure);
        differences.of_messages(&have, &want, &unsure);
        let runs = |stored: &Self| -> Vec<String> {
            // A retry has removed the reply that was cut off, but the run still counts it.
            let is_retried = |run: &RunRecord| run.trigger == RunTrigger::Retry;
            let is_retried = stored.runs.iter().any(is_retried);
            let steps = |run: &RunRecord| {
                let is_sure = !is_retried || run.status != RunStatus::Interrupted;
                (same_cuts && is_sure).then_some(run.step_count)
            };
            let runs = stored.runs.iter();
            runs.map(|run| {
                format!(
                    "{:?} {:?} turn {} steps {:?} corrections {} output {:?} error {:?}",
                    run.trigger,
                    run.status,
                    run.turn,
                    steps(run),
                    run.corrections,
                    run.output,
                    run.error.as_ref().map(|error| error.code),
                )
            })
            .collect()
        };
        differences.of("runs", &runs(wanted), &runs(self));
        let was_stopped = wanted.runs.iter().any(is_stopped);
        let unknown =
            |stored: &Self, messages: &[Message]| places(messages, &stored.unknown_results());
        let same_state = !was_stopped || unknown(self, &have) == unknown(wanted, &want);
        // A process that dies tries a failing model call again from the first attempt.
        let pays_for_failures = wanted.has_paid_failures();
        let rest = |stored: &Self| {
            let session = stored.session.as_ref();
            format!(
                "state {:?}, status {:?}, answered {:?}, checkpoints {:?}, stream {:?}, tokens {:?}, budget {:?}",
                session
                    .filter(|_| same_state)
                    .map(|one| one.state.custom_state.to_string()),
                session.map(|one| one.state.status),
                session.map(|_| stored.answered_kinds()),
                same_cuts.then_some(stored.checkpoints.len()),
                stored.stream.map(|info| info.status),
                (!pays_for_failures).then(|| stored.tokens()),
                (!pays_for_failures).then(|| stored.budget()),
            )
        };
        differences.of("session", &rest(wanted), &rest(self));
        if unsure.is_empty() {
            differences.of("usage", &wanted.tool_usage(), &self.tool_usage());
        }
        let mut all = differences.0;
        all.extend(self.differences_below(wanted, |child, wanted| {
            child.differences(wanted, calls_unsure)
        }));
        all
    }

    /// The usage of tools and clients, in a fixed order.
    fn tool_usage(&self) -> Vec<String> {
        let mut kinds: Vec<_> = self.usage.iter().filter_map(tool_usage).collect();
        kinds.sort();
        kinds
    }

    /// Calls whose result is unknown.
    pub(super) fn unknown_results(&self) -> BTreeSet<CallId> {
        let results = self.messages.iter().filter_map(|message| match message {
            Message::Tool(result) if result.status == ResultStatus::Unknown => {
                Some(result.tool_call_id.clone())
            }
            _ => None,
        });
        let below = self.children.values();
        let below = below.flat_map(Self::unknown_results);
        results.chain(below).collect()
    }
}

fn tool_usage(entry: &UsageEntry) -> Option<String> {
    match &entry.kind {
        UsageKind::Tool { name, success, .. } => Some(format!("{name} {success}")),
        UsageKind::ClientToolWaitMs { name, .. } => Some(format!("{name} waited for")),
        UsageKind::Custom(usage) => Some(format!("{} {}", usage.name, usage.quantity())),
        UsageKind::Subagent { name, .. } => Some(format!("sub-agent {name}")),
        _ => None,
    }
}

/// The differences between two outcomes, one sentence each.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn of<T: Debug + PartialEq>(&mut self, what: &str, wanted: &T, found: &T) {
        if wanted != found {
            let difference = format!("{what}: {found:?} instead of {wanted:?}");
            self.0.push(difference);
        }
    }

    /// Compares messages; `unsure` are the places of calls whose outcome may be unknown.
    fn of_messages(&mut self, have: &[Message], want: &[Message], unsure: &BTreeSet<usize>) {
        let (have, want) = (normalized(have, unsure), normalized(want, unsure));
        self.of("messages", &want.len(), &have.len());
        for (place, (have, want)) in have.iter().zip(&want).enumerate() {
            self.of(&format!("message {place}"), want, have);
        }
    }
}

/// The calls of a history in their order. Generated ids may differ between two plays.
fn calls(messages: &[Message]) -> Vec<CallId> {
    let assistants = messages.iter().filter_map(|message| match message {
        Message::Assistant(assistant) => Some(assistant.tool_calls()),
        _ => None,
    });
    assistants.flatten().map(|call| call.id.clone()).collect()
}

/// The places of calls in a history.
fn places(messages: &[Message], of: &BTreeSet<CallId>) -> BTreeSet<usize> {
    let calls = calls(messages);
    let places = of.iter();
    places
        .filter_map(|id| calls.iter().position(|call| call == id))
        .collect()
}

/// Each message as a text in which calls are named by their order, and all unknown results are
/// equal.
fn normalized(messages: &[Message], unsure: &BTreeSet<usize>) -> Vec<String> {
    let calls = calls(messages);
    let number = |id: &CallId| calls.iter().position(|call| call == id);
    let renamed = |id: &mut CallId| {
        let name = number(id).map(|number| CallId::new(format!("call.{number}")));
        if let Some(Ok(name)) = name {
            *id = name;
        }
    };
    let messages = messages.iter().cloned();
    messages
        .map(|mut message| {
            match &mut message {
                Message::Tool(result) => {
                    let number = number(&result.tool_call_id);
                    if number.is_some_and(|number| unsure.contains(&number)) {
                        return format!("the result of call {number:?}, known or not");
                    }
                    renamed(&mut result.tool_call_id);
                }
                Message::Assistant(assistant) => {
                    for part in Arc::make_mut(&mut assistant.parts) {
                        if let AssistantPart::ToolCall(call) = part {
                            renamed(&mut call.id);
                        }
                    }
                }
                _ => {}
            }
            serde_json::to_string(&message).unwrap_or_default()
        })
        .collect()
}
