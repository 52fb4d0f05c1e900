//! The history of a session as it grows and is cut.

use std::collections::{BTreeMap, BTreeSet};

use helix_agents_core::CallId;
use helix_agents_core::message::{AssistantMessage, Message};
use helix_agents_core::store::{Change, Commit, Snapshot};

/// Everything that was ever in a history, and the parts that were removed from it.
#[derive(Debug, Default)]
pub(super) struct HistoryLog {
    messages: Vec<Message>,
    /// How often each message of a user entered the history, and was removed from it.
    heard: BTreeMap<String, (usize, usize)>,
    removed_replies: Vec<AssistantMessage>,
    /// The calls that were removed.
    removed_calls: BTreeSet<CallId>,
    /// Whether anything was removed, also a message that only the model reads.
    was_cut: bool,
}

impl HistoryLog {
    /// How often a message of a user entered the history, and was removed from it.
    pub(super) fn times_heard(&self, message: &str) -> (usize, usize) {
        self.heard.get(message).copied().unwrap_or_default()
    }

    /// Whether a reply was removed.
    pub(super) fn is_removed(&self, reply: &AssistantMessage) -> bool {
        self.removed_replies.contains(reply)
    }

    /// The calls that were removed.
    pub(super) fn removed_calls(&self) -> &BTreeSet<CallId> {
        &self.removed_calls
    }

    /// Whether anything was removed.
    pub(super) fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// Follows a commit after which the history has these messages. Returns the violations: a change of a
    /// message, and an id of a removed call that is used again.
    pub(super) fn follow(
        &mut self,
        commit: &Commit,
        before: Option<&Snapshot>,
        messages: Vec<Message>,
    ) -> Vec<String> {
        let mut flaws = Vec::new();
        let of_root = commit.changes.iter();
        let mut of_root = of_root.filter(|(session, _)| *session == commit.root);
        let cut = of_root.find_map(|(_, change)| match change {
            Change::Truncate(kept) => Some(*kept),
            _ => None,
        });
        let kept = cut.unwrap_or(usize::MAX).min(self.messages.len());
        if messages.get(..kept) != self.messages.get(..kept) {
            flaws.push("messages were changed or removed without a cut".to_owned());
        }
        for message in self.messages.split_off(kept) {
            self.was_cut = true;
            match message {
                Message::User(user) if !user.is_hidden() => {
                    self.heard.entry(user.content.clone()).or_default().1 += 1;
                }
                Message::Assistant(reply) => self.remove(reply),
                _ => {}
            }
        }
        let open = before.and_then(|before| before.open_step.as_ref());
        if let Some(step) = open.filter(|_| is_rewind(commit)) {
            self.remove(step.message.clone());
        }
        for message in messages.iter().skip(kept) {
            match message {
                Message::User(user) if !user.is_hidden() => {
                    self.heard.entry(user.content.clone()).or_default().0 += 1;
                }
                Message::Assistant(reply) => flaws.extend(self.reused(reply)),
                _ => {}
            }
        }
        self.messages = messages;
        flaws
    }

    fn remove(&mut self, reply: AssistantMessage) {
        let calls = reply.tool_calls().map(|call| call.id.clone());
        self.removed_calls.extend(calls);
        self.removed_replies.push(reply);
        self.was_cut = true;
    }

    /// The violations of a reply that has the id of a removed call.
    pub(super) fn reused(&self, reply: &AssistantMessage) -> Vec<String> {
        let calls = reply.tool_calls().map(|call| &call.id);
        let reused = calls.filter(|id| self.removed_calls.contains(*id));
        reused
            .map(|id| format!("the id of call {id}, which was removed, is used again"))
            .collect()
    }
}

/// Whether the root goes back to an earlier point with a commit.
pub(super) fn is_rewind(commit: &Commit) -> bool {
    let mut changes = commit.changes.iter();
    changes.any(|(session, change)| {
        *session == commit.root && matches!(change, Change::DropCheckpointsAfter(_))
    })
}
