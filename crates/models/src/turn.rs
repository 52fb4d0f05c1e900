//! The part of a conversation that a script can read when it replies.

use std::borrow::Cow;

use helix_agents_core::message::{Message, ToolMessage};
use helix_agents_core::model::ModelRequest;
use helix_agents_core::transcript::Transcript;
use serde_json::Value;

use crate::script::{Call, Script, Step};
use crate::template::Placeholder;

/// One point in a conversation, with the steps of the script that answer it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn<'a> {
    history: &'a Transcript,
    state: &'a Value,
    steps: &'a [Step],
}

impl<'a> Turn<'a> {
    pub(crate) fn new(script: &'a Script, request: &ModelRequest<'a>) -> Self {
        let history = request.prompt.history();
        Self {
            history,
            state: request.state,
            steps: script.steps_for(last_user(history)),
        }
    }

    /// Returns the step to play next.
    pub(crate) fn step(self) -> &'a Step {
        let next = self.history.assistant_messages_since_user();
        self.steps.get(next).unwrap_or(Step::past_the_end())
    }

    /// Returns the value of a placeholder, or an empty string if it has none.
    pub(crate) fn value(self, placeholder: &Placeholder) -> Cow<'a, str> {
        match placeholder {
            Placeholder::LastUser => Cow::Borrowed(last_user(self.history)),
            Placeholder::LastToolResult => result_text(self.last_tool_result()),
            Placeholder::ToolResult(id) => result_text(self.tool_result(id)),
            Placeholder::Turn => Cow::Owned(self.history.visible_user_messages().to_string()),
            Placeholder::State(pointer) => match self.state.pointer(pointer) {
                Some(Value::String(text)) => Cow::Borrowed(text),
                Some(value) => Cow::Owned(value.to_string()),
                None => Cow::Borrowed(""),
            },
        }
    }

    fn last_tool_result(self) -> Option<&'a ToolMessage> {
        self.history.iter().rev().find_map(|message| match message {
            Message::Tool(result) => Some(result),
            _ => None,
        })
    }

    /// Returns this turn's latest result of the call that has this id in the script.
    ///
    /// A repeated id is renamed in the session: a second `c` becomes `c_2`, which may equal
    /// another id of the script. A result is therefore matched by position: the turn's n-th
    /// assistant message came from the n-th step, and its results are in the order of its calls.
    /// Ids are compared only where the history does not follow the script.
    fn tool_result(self, id: &str) -> Option<&'a ToolMessage> {
        let start = self.history.last_visible_user().map_or(0, |(at, _)| at);
        let mut step = self.history.assistant_messages_since_user();
        // The results of the current step, last first.
        let mut results = Vec::new();
        let mut by_session_id = None;
        for message in self.history.iter_from(start).rev() {
            match message {
                Message::Tool(result) => results.push(result),
                Message::Assistant(_) => {
                    step = step.saturating_sub(1);
                    let step = self.steps.get(step);
                    let calls = step.map_or(&[][..], |step| &step.tool_calls);
                    let places = (0..results.len()).rev();
                    for (place, result) in places.zip(results.drain(..)) {
                        if answers(calls.get(place), result, id) {
                            return Some(result);
                        }
                        if result.tool_call_id.as_str() == id {
                            by_session_id.get_or_insert(result);
                        }
                    }
                }
                _ => {}
            }
        }
        by_session_id
    }
}

/// Whether a result answers the call that has this id in the script. `call` is the script's call at
/// the result's position.
fn answers(call: Option<&Call>, result: &ToolMessage, id: &str) -> bool {
    match call {
        Some(call) if call.name == result.tool_name => {
            call.id.as_ref().is_some_and(|given| given.as_str() == id)
        }
        _ => is_form_of(result.tool_call_id.as_str(), id),
    }
}

/// Whether an id in the session is `id` or `id` with a repetition suffix.
fn is_form_of(session_id: &str, id: &str) -> bool {
    let Some(suffix) = session_id.strip_prefix(id) else {
        return false;
    };
    let number = suffix.strip_prefix('_').unwrap_or_default();
    suffix.is_empty() || (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

fn last_user(history: &Transcript) -> &str {
    let user = history.last_visible_user();
    user.map_or("", |(_, user)| user.content.as_str())
}

fn result_text(result: Option<&ToolMessage>) -> Cow<'static, str> {
    match result.map(ToolMessage::value) {
        Some(Value::String(text)) => Cow::Owned(text),
        Some(value) => Cow::Owned(value.to_string()),
        None => Cow::Borrowed(""),
    }
}
