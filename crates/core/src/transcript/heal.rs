//! Repairs a stored history.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use super::call_ids::suffixed;
use crate::id::CallId;
use crate::message::{AssistantPart, Message, ToolMessage};
use crate::step::{FINISH_TOOL, synthesize_finish_result, synthesize_unknown_result};

/// One repair of a stored history.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Healed {
    /// A call had no result; one was added.
    MissingResult {
        /// The id of the call.
        call: CallId,
        /// The name of its tool.
        tool: String,
    },
    /// A result belonged to no call; it was dropped.
    OrphanResult {
        /// The call id of the result.
        call: CallId,
    },
    /// A result was misplaced; it was moved after its call.
    MovedResult {
        /// The id of the call.
        call: CallId,
    },
    /// A call's id was used before; it was renamed.
    RenamedCall {
        /// The id as it was stored.
        from: CallId,
        /// The id as it is now.
        to: CallId,
    },
}

impl fmt::Display for Healed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingResult { call, tool } => {
                write!(f, "call {call} of {tool} had no result")
            }
            Self::OrphanResult { call } => write!(f, "a result answered unknown call {call}"),
            Self::MovedResult { call } => write!(f, "the result of call {call} was out of place"),
            Self::RenamedCall { from, to } => {
                write!(f, "call id {from} was used twice and is now {to}")
            }
        }
    }
}

/// The positions of the results of each id, and of the calls with that id.
#[derive(Default)]
struct Index {
    results: HashMap<CallId, VecDeque<usize>>,
    calls: HashMap<CallId, VecDeque<usize>>,
}

impl Index {
    fn of(messages: &[Message]) -> Self {
        let mut index = Self::default();
        for (at, message) in messages.iter().enumerate() {
            match message {
                Message::Assistant(assistant) => {
                    for call in assistant.tool_calls() {
                        index
                            .calls
                            .entry(call.id.clone())
                            .or_default()
                            .push_back(at);
                    }
                }
                Message::Tool(result) => {
                    let id = result.tool_call_id.clone();
                    index.results.entry(id).or_default().push_back(at);
                }
                Message::User(_) => {}
            }
        }
        index
    }

    /// Returns the position of the result for the next call with this id, which is at `at`: the
    /// first result after it and before the following call.
    fn claim(&mut self, id: &CallId, at: usize) -> Option<usize> {
        let calls = self.calls.get_mut(id)?;
        calls.pop_front();
        // A second call with this id in the same message takes the next result.
        let until = calls.iter().find(|next| **next > at).copied();
        let results = self.results.get_mut(id)?;
        while results.front().is_some_and(|result| *result < at) {
            results.pop_front();
        }
        let found = *results.front()?;
        if until.is_some_and(|until| found > until) {
            return None;
        }
        results.pop_front()
    }
}

pub(super) fn heal(messages: Vec<Message>) -> (Vec<Message>, Vec<Healed>) {
    let mut healed = Vec::new();
    let mut index = Index::of(&messages);
    let mut used = HashSet::new();
    let mut suffixes = HashMap::new();
    // All ids that occur: a new name must not equal one that comes later.
    let taken: HashSet<CallId> = index.calls.keys().cloned().collect();
    let mut slots: Vec<Option<Message>> = messages.into_iter().map(Some).collect();
    let mut valid = Vec::with_capacity(slots.len());

    for at in 0..slots.len() {
        let Some(message) = slots.get_mut(at).and_then(Option::take) else {
            continue;
        };
        let mut assistant = match message {
            Message::Assistant(assistant) => assistant,
            Message::User(user) => {
                valid.push(Message::User(user));
                continue;
            }
            Message::Tool(result) => {
                // Results of a call were already taken when the call was processed.
                healed.push(Healed::OrphanResult {
                    call: result.tool_call_id,
                });
                continue;
            }
        };
        let mut results = Vec::new();
        let mut in_place = at + 1;
        for part in Arc::make_mut(&mut assistant.parts) {
            let AssistantPart::ToolCall(call) = part else {
                continue;
            };
            let position = index.claim(&call.id, at);
            if !used.insert(call.id.clone()) {
                let to = rename(&call.id, &mut suffixes, |id| {
                    used.contains(id) || taken.contains(id)
                });
                used.insert(to.clone());
                healed.push(Healed::RenamedCall {
                    from: std::mem::replace(&mut call.id, to.clone()),
                    to,
                });
            }
            let found = position.and_then(|position| slots.get_mut(position)?.take());
            let result = if let Some(Message::Tool(mut result)) = found {
                if position == Some(in_place) {
                    in_place += 1;
                } else {
                    healed.push(Healed::MovedResult {
                        call: call.id.clone(),
                    });
                }
                result.tool_call_id = call.id.clone();
                result
            } else {
                healed.push(Healed::MissingResult {
                    call: call.id.clone(),
                    tool: call.name.to_string(),
                });
                missing_result(&call.id, &call.name)
            };
            results.push(Message::Tool(result));
        }
        valid.push(Message::Assistant(assistant));
        valid.append(&mut results);
    }
    (valid, healed)
}

fn missing_result(call: &CallId, tool: &str) -> ToolMessage {
    if tool == FINISH_TOOL {
        synthesize_finish_result(call)
    } else {
        synthesize_unknown_result(call, tool)
    }
}

/// Returns the next free `<id>_<n>`. The search continues where it stopped for the same id, so a
/// history in which every call has one id is healed in linear time.
fn rename(
    id: &CallId,
    suffixes: &mut HashMap<CallId, usize>,
    is_taken: impl Fn(&CallId) -> bool,
) -> CallId {
    let next = suffixes.entry(id.clone()).or_insert(2);
    loop {
        let candidate = suffixed(id, *next);
        *next += 1;
        if !is_taken(&candidate) {
            return candidate;
        }
    }
}
