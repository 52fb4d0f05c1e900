//! The outcome of a play, its checks, and its comparison with an undisturbed one.

mod under_schedule;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use helix_agents_core::message::{AssistantPart, Message, ResultStatus};
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::{RunRecord, SessionStatus};
use helix_agents_core::state::apply_patch;
use helix_agents_core::store::{Lookup, Page, Snapshot};
use helix_agents_core::stream::{ChunkPayload, Sequence, StoredChunk, StreamError, StreamInfo};
use helix_agents_core::transcript::Transcript;
use helix_agents_core::usage::{UsageEntry, UsageKind, UsageRollup};
use helix_agents_core::{CallId, SessionId};

/// Everything that is stored of a session.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) session: Option<Snapshot>,
    pub(super) messages: Vec<Message>,
    pub(super) runs: Vec<RunRecord>,
    usage: Vec<UsageEntry>,
    checkpoints: usize,
    answered: usize,
    chunks: Vec<StoredChunk>,
    stream: Option<StreamInfo>,
    /// The state with which the session began.
    first_state: serde_json::Value,
}

impl Stored {
    pub(super) async fn read(backend: &Backend, session: &SessionId) -> Result<Self, StreamError> {
        let store = &backend.store;
        let found = store.load(session.as_root()).await?;
        let all = Lookup::Page(Page::ALL);
        let (checkpoints, answered) = (Lookup::Page(Page::ALL), Lookup::Page(Page::ALL));
        let first_state = match &found {
            Some(_) => store.state_at(session.as_root(), 1).await?.as_ref().clone(),
            None => serde_json::Value::Null,
        };
        Ok(Self {
            messages: store.messages(session.as_root(), Page::ALL).await?.items,
            runs: store.runs(session.as_root(), all).await?.items,
            usage: store.usage(session.as_root(), Page::ALL).await?.items,
            checkpoints: store
                .checkpoints(session.as_root(), checkpoints)
                .await?
                .total,
            answered: store.answered(session.as_root(), answered).await?.total,
            chunks: backend
                .streams
                .read(session, Sequence::START, usize::MAX)
                .await?,
            stream: backend.streams.info(session).await?,
            session: found,
            first_state,
        })
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
        if session.lease.is_some() {
            flaws.push("the lease is still held".to_owned());
        }
        flaws.extend(self.flaws_of_the_replay(session));
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
    pub(super) fn differences(&self, wanted: &Self, unsure: &BTreeSet<CallId>) -> Vec<String> {
        let mut all = Vec::new();
        let mut differ = |what: &str, wanted: String, found: String| {
            if wanted != found {
                all.push(format!("{what}: {found} instead of {wanted}"));
            }
        };
        let calls = self.calls();
        let numbers = unsure.iter();
        let unsure: BTreeSet<usize> = numbers
            .filter_map(|id| calls.iter().position(|call| call == id))
            .collect();
        let (have, want) = (
            self.normalized_messages(&unsure),
            wanted.normalized_messages(&unsure),
        );
        differ("messages", want.len().to_string(), have.len().to_string());
        for (place, (have, want)) in have.iter().zip(&want).enumerate() {
            differ(&format!("message {place}"), want.clone(), have.clone());
        }
        let runs = |stored: &Self| -> Vec<String> {
            let runs = stored.runs.iter();
            runs.map(|run| {
                format!(
                    "{:?} {:?} turn {} steps {} corrections {} output {:?} error {:?}",
                    run.trigger,
                    run.status,
                    run.turn,
                    run.step_count,
                    run.corrections,
                    run.output,
                    run.error.as_ref().map(|error| error.code),
                )
            })
            .collect()
        };
        differ(
            "runs",
            format!("{:?}", runs(wanted)),
            format!("{:?}", runs(self)),
        );
        let rest = |stored: &Self| {
            let session = stored.session.as_ref();
            format!(
                "state {:?}, status {:?}, answered {:?}, checkpoints {}, stream {:?}, tokens {:?}",
                session.map(|one| one.state.custom_state.to_string()),
                session.map(|one| one.state.status),
                session.map(|_| stored.answered),
                stored.checkpoints,
                stored.stream.map(|info| info.status),
                stored.usage.iter().collect::<UsageRollup>().tokens,
            )
        };
        differ("session", rest(wanted), rest(self));
        if unsure.is_empty() {
            let tools = |stored: &Self| {
                let mut kinds: Vec<_> = stored.usage.iter().filter_map(tool_usage).collect();
                kinds.sort();
                format!("{kinds:?}")
            };
            differ("usage", tools(wanted), tools(self));
        }
        all
    }

    /// The calls of the history in their order. Generated ids may differ between two plays.
    fn calls(&self) -> Vec<CallId> {
        let assistants = self.messages.iter().filter_map(|message| match message {
            Message::Assistant(assistant) => Some(assistant.tool_calls()),
            _ => None,
        });
        assistants.flatten().map(|call| call.id.clone()).collect()
    }

    /// Each message as a text in which calls are named by their order, and all unknown results are
    /// equal.
    fn normalized_messages(&self, unsure: &BTreeSet<usize>) -> Vec<String> {
        let calls = self.calls();
        let number = |id: &CallId| calls.iter().position(|call| call == id);
        let renamed = |id: &mut CallId| {
            let name = number(id).map(|number| CallId::new(format!("call.{number}")));
            if let Some(Ok(name)) = name {
                *id = name;
            }
        };
        let messages = self.messages.iter().cloned();
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

    /// Calls whose result is unknown.
    pub(super) fn unknown_results(&self) -> BTreeSet<CallId> {
        let results = self.messages.iter().filter_map(|message| match message {
            Message::Tool(result) if result.status == ResultStatus::Unknown => {
                Some(result.tool_call_id.clone())
            }
            _ => None,
        });
        results.collect()
    }
}

fn tool_usage(entry: &UsageEntry) -> Option<String> {
    match &entry.kind {
        UsageKind::Tool { name, success, .. } => Some(format!("{name} {success}")),
        UsageKind::ClientToolWaitMs { name, .. } => Some(format!("{name} waited for")),
        UsageKind::Custom(usage) => Some(format!("{} {}", usage.name, usage.quantity())),
        _ => None,
    }
}
