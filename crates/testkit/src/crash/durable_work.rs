//! The results that a dead process had made durable, which must not be computed again.

use std::collections::{BTreeMap, BTreeSet};

use helix_agents_core::CallId;
use helix_agents_core::message::Message;

use super::compare::Stored;
use super::observer::{ModelCallPlace, ObservedCounts};

/// The finished calls and replies that were durable when a process died, and the counts until then.
#[derive(Debug)]
pub(super) struct DurableWork {
    place: String,
    seen: ObservedCounts,
    finished: BTreeSet<CallId>,
    replied: BTreeSet<ModelCallPlace>,
}

impl DurableWork {
    pub(super) fn new(place: String, stored: &Stored, seen: ObservedCounts) -> Self {
        let (mut finished, mut replied) = (BTreeSet::new(), BTreeSet::new());
        add(stored, &mut finished, &mut replied);
        Self {
            place,
            seen,
            finished,
            replied,
        }
    }

    /// The calls and replies that were repeated later although they were durable. `allowed` is how often the
    /// model may be asked at a place of the history, if it is more than once.
    pub(super) fn repetitions(
        &self,
        later: &ObservedCounts,
        allowed: &BTreeMap<ModelCallPlace, usize>,
    ) -> Vec<String> {
        let mut all = Vec::new();
        for call in &self.finished {
            let count =
                |seen: &ObservedCounts| seen.starts.get(call).map_or(0, |(count, _)| *count);
            if count(later) > count(&self.seen) {
                all.push(format!(
                    "call {call} was run again although its result was durable, killed {}",
                    self.place
                ));
            }
        }
        for place in &self.replied {
            let count = |seen: &ObservedCounts| seen.asked.get(place).copied().unwrap_or_default();
            let allowed = allowed.get(place).copied().unwrap_or_default();
            if count(later) > count(&self.seen).max(allowed) {
                let (agent, turn, replies) = place;
                all.push(format!(
                    "the model call of {agent} in turn {turn} after {replies} replies was repeated although its reply was \
                     durable, killed {}",
                    self.place
                ));
            }
        }
        all
    }
}

/// Adds what a session and those of its sub-agents have.
fn add(stored: &Stored, finished: &mut BTreeSet<CallId>, replied: &mut BTreeSet<ModelCallPlace>) {
    let agent = stored.agent();
    let (mut turn, mut replies) = (0, 0);
    for message in &stored.messages {
        match message {
            Message::User(user) if !user.is_hidden() => {
                (turn, replies) = (turn + 1, 0);
            }
            Message::Assistant(_) => {
                replied.insert((agent.clone(), turn, replies));
                replies += 1;
            }
            Message::Tool(result) => drop(finished.insert(result.tool_call_id.clone())),
            _ => {}
        }
    }
    let session = stored.session.as_ref();
    if let Some(step) = session.and_then(|session| session.open_step.as_ref()) {
        replied.insert((agent, turn, replies));
        let calls = step.calls().filter(|(_, open)| open.result.is_some());
        finished.extend(calls.map(|(call, _)| call.id.clone()));
    }
    for child in stored.children.values() {
        add(child, finished, replied);
    }
}
