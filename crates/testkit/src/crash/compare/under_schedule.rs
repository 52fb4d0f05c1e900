//! Comparison of outcomes that does not depend on when answers come and how often effects are tried.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use helix_agents_core::message::{AssistantMessage, Message, ToolMessage};
use helix_agents_core::session::RunRecord;
use helix_agents_core::stream::ChunkPayload;
use helix_agents_core::usage::{UsageKind, UsageRollup};
use helix_agents_core::{CallId, RunId};
use serde_json::Value;

use super::{Differences, Stored, places};

impl Stored {
    /// The result of a call, of this session or one under it.
    pub(in crate::crash) fn result_of(&self, call: &CallId) -> Option<&ToolMessage> {
        let mine = self.results().find(|result| result.tool_call_id == *call);
        let mut below = self.children.values();
        mine.or_else(|| below.find_map(|child| child.result_of(call)))
    }

    /// The results of all calls.
    pub(in crate::crash) fn results(&self) -> impl Iterator<Item = &ToolMessage> {
        self.messages.iter().filter_map(|message| match message {
            Message::Tool(result) => Some(result),
            _ => None,
        })
    }

    /// Whether a reply is in the history.
    pub(in crate::crash) fn has_reply(&self, reply: &AssistantMessage) -> bool {
        let same = |message: &Message| matches!(message, Message::Assistant(one) if one == reply);
        self.messages.iter().any(same)
    }

    /// The messages of users, without those that the framework added.
    fn heard(&self) -> Vec<&str> {
        let messages = self.messages.iter();
        let heard = messages.filter_map(|message| match message {
            Message::User(user) if !user.is_hidden() => Some(user.content.as_str()),
            _ => None,
        });
        heard.collect()
    }

    /// The number of messages with which the framework tells the model something.
    pub(in crate::crash) fn times_told(&self) -> usize {
        let hidden =
            |message: &&Message| matches!(message, Message::User(user) if user.is_hidden());
        self.messages.iter().filter(hidden).count()
    }

    /// The number of messages that tell the model of a late answer to this call.
    pub(in crate::crash) fn times_told_of(&self, call: &CallId) -> usize {
        let name = format!(" call {call} of ");
        let tells = |message: &&Message| matches!(message, Message::User(user) if user.is_hidden() && user.content.contains(&name) && user.content.contains("after its deadline"));
        self.messages.iter().filter(tells).count()
    }

    /// Checks that the run that each sender was told took messages that waited.
    pub(in crate::crash) fn flaws_of_the_senders(&self, told: &[(String, RunId)]) -> Vec<String> {
        let mut flaws = Vec::new();
        for (text, run) in told {
            let mut runs = self.runs.iter().filter(|record| record.id == *run);
            if !runs.any(|record| !record.inbox.is_empty()) {
                flaws.push(format!(
                    "the sender of {text:?} was told run {run}, which did not take it"
                ));
            }
        }
        flaws
    }

    /// How often a message of a user is in the history.
    pub(in crate::crash) fn times_heard(&self, message: &str) -> usize {
        self.heard().iter().filter(|text| **text == message).count()
    }

    /// Checks that the messages of users are those of the turns so far. `beside` is a message that was
    /// appended during the runs, with the times it may occur.
    pub(in crate::crash) fn flaws_of_the_turns(
        &self,
        turns: &[String],
        beside: (&str, RangeInclusive<usize>),
    ) -> Vec<String> {
        let mut flaws = Vec::new();
        let heard = self.heard();
        let (beside, allowed) = beside;
        let appended = heard.iter().filter(|text| **text == beside).count();
        if !allowed.contains(&appended) {
            flaws.push(format!(
                "{appended} messages were appended during the run, not {allowed:?}"
            ));
        }
        let said: Vec<_> = heard.iter().filter(|text| **text != beside).collect();
        let wanted: Vec<_> = turns.iter().take(self.turns_begun()).collect();
        if !said.iter().eq(wanted.iter()) {
            flaws.push(format!(
                "the user messages are {said:?} instead of {wanted:?}"
            ));
        }
        flaws
    }

    /// Checks that every step was counted, and every reply paid for, once.
    pub(in crate::crash) fn flaws_of_the_account(&self, was_stopped: bool) -> Vec<String> {
        let mut flaws = Vec::new();
        let replies = self.messages.iter();
        let replies = replies.filter(|message| matches!(message, Message::Assistant(_)));
        let replies = replies.count();
        let steps: u32 = self.ends().values().map(|run| run.step_count).sum();
        if usize::try_from(steps).ok() != Some(replies) {
            flaws.push(format!(
                "{replies} replies are in the history, the runs count {steps} steps"
            ));
        }
        let paid = self.usage.iter();
        let paid = paid.filter(|entry| matches!(entry.kind, UsageKind::Tokens { .. }));
        let paid = paid.count();
        let replies = replies + self.summaries();
        // Nobody says what a reply cost that was cut off.
        if paid > replies || (paid < replies && !was_stopped) {
            flaws.push(format!(
                "{replies} replies and summaries are in the history, the usage counts {paid}"
            ));
        }
        flaws
    }

    /// Checks that the stream has every chunk once that must be there once.
    pub(in crate::crash) fn flaws_of_the_tale(&self) -> Vec<String> {
        let mut told: BTreeMap<String, usize> = BTreeMap::new();
        for stored in &self.chunks {
            let run = &stored.chunk.base.run_id;
            let what = match &stored.chunk.payload {
                ChunkPayload::RunStarted { .. } => format!("the start of run {run}"),
                ChunkPayload::RunPaused { .. } => format!("the pause of run {run}"),
                ChunkPayload::RunInterrupted { .. } => format!("the interruption of run {run}"),
                ChunkPayload::Error { .. } => format!("the failure of run {run}"),
                ChunkPayload::Output { .. } => format!("the output of run {run}"),
                ChunkPayload::CheckpointCreated { checkpoint_id } => {
                    format!("checkpoint {checkpoint_id}")
                }
                ChunkPayload::ToolStart { tool_call_id, .. } => {
                    format!("the start of call {tool_call_id}")
                }
                ChunkPayload::ToolApprovalRequest { tool_call_id, .. } => {
                    format!("the approval request of call {tool_call_id}")
                }
                ChunkPayload::ToolApprovalResponse { tool_call_id, .. } => {
                    format!("the approval response of call {tool_call_id}")
                }
                _ => continue,
            };
            *told.entry(what).or_default() += 1;
        }
        let twice = told.into_iter().filter(|(_, count)| *count > 1);
        let twice = twice.map(|(what, count)| format!("readers saw {what} {count} times"));
        let below = self.children.values().flat_map(Self::flaws_of_the_tale);
        twice.chain(below).collect()
    }

    /// The last run of each turn.
    fn ends(&self) -> BTreeMap<u32, &RunRecord> {
        self.runs.iter().map(|run| (run.turn, run)).collect()
    }

    /// The differences from an undisturbed play that do not depend on when the answers came: the
    /// time of answers decides into how many runs a turn is divided, and in which order calls of
    /// one step write to the state. `early`: some answers may have come while a run was running.
    pub(in crate::crash) fn loose_differences(
        &self,
        wanted: &Self,
        unsure: &BTreeSet<CallId>,
        early: bool,
    ) -> Vec<String> {
        let mut differences = Differences::default();
        let places = places(&self.messages, unsure);
        differences.of_messages(&self.messages, &wanted.messages, &places);
        let turns = |stored: &Self| -> Vec<String> {
            let ends = stored.ends().into_iter();
            ends.map(|(turn, run)| {
                format!(
                    "turn {turn} {:?} steps {} corrections {} output {:?} error {:?}",
                    run.status,
                    run.step_count,
                    run.corrections,
                    run.output,
                    run.error.as_ref().map(|error| error.code),
                )
            })
            .collect()
        };
        differences.of("turns", &turns(wanted), &turns(self));
        let statuses = |stored: &Self| -> Vec<_> {
            let runs = stored.runs.iter();
            runs.map(|run| run.status).collect()
        };
        let same_pauses = !early && statuses(self) == statuses(wanted);
        let rest = |stored: &Self| {
            let session = stored.session.as_ref();
            let state = session.map(|one| Value::clone(&one.state.custom_state));
            let state = state.map(|state| if same_pauses { state } else { loose(state) });
            format!(
                "state {state:?}, status {:?}, stream {:?}, tokens {:?}",
                session.map(|one| one.state.status),
                stored.stream.map(|info| info.status),
                stored.usage.iter().collect::<UsageRollup>().tokens,
            )
        };
        differences.of("session", &rest(wanted), &rest(self));
        if unsure.is_empty() {
            differences.of("usage", &wanted.tool_usage(), &self.tool_usage());
        }
        let mut all = differences.0;
        all.extend(self.differences_below(wanted, |child, wanted| {
            child.loose_differences(wanted, unsure, early)
        }));
        all
    }
}

/// The state without the parts that the order of writes decides: the order of lists, and the last
/// text.
fn loose(state: Value) -> Value {
    match state {
        Value::Array(mut all) => {
            all.sort_by_key(ToString::to_string);
            Value::Array(all)
        }
        Value::Object(fields) => {
            let fields = fields.into_iter();
            Value::Object(fields.map(|(name, value)| (name, loose(value))).collect())
        }
        Value::String(_) => Value::Null,
        other => other,
    }
}
