//! Turns a step of a script into the events of a reply.

use std::borrow::Cow;
use std::iter::once;
use std::num::NonZeroUsize;

use helix_agents_core::model::ModelEvent;

use crate::script::Step;
use crate::turn::Turn;

/// Returns all events of a step in order: thinking, text, calls, finish.
pub(crate) fn all_events<'a>(
    step: &'a Step,
    turn: Turn<'a>,
) -> impl Iterator<Item = ModelEvent> + 'a {
    let chars = step.chunk_chars;
    let fill = move |placeholder: &_| turn.value(placeholder);

    let thinking = step.thinking.iter().flat_map(move |thinking| {
        let thinking = thinking.fill(fill);
        let end = (!thinking.is_empty()).then_some(ModelEvent::ThinkingEnd {
            signature: None,
            redacted: None,
            provider_metadata: None,
        });
        let deltas = Chunks::new(thinking, chars).map(ModelEvent::Thinking);
        deltas.chain(end)
    });
    let text = step
        .text
        .iter()
        .flat_map(move |text| Chunks::new(text.fill(fill), chars).map(ModelEvent::Text));
    let calls = step.calls().enumerate();
    let calls = calls.flat_map(move |(call, (id, name, arguments))| {
        let start = ModelEvent::CallStart {
            id: id.map(ToString::to_string),
            name: name.to_owned(),
        };
        let deltas = Chunks::new(arguments.fill(fill), chars)
            .map(move |delta| ModelEvent::CallArguments { call, delta });
        let end = ModelEvent::CallEnd {
            call,
            provider_metadata: None,
        };
        once(start).chain(deltas).chain(once(end))
    });
    let end = ModelEvent::Finished {
        stop_reason: step.stop_reason(),
        usage: step.usage(),
    };
    thinking.chain(text).chain(calls).chain(once(end))
}

/// Returns the events before a failure that occurs after `after_chars` characters of thinking and
/// text.
pub(crate) fn events_before_failure(
    events: impl Iterator<Item = ModelEvent>,
    after_chars: usize,
) -> impl Iterator<Item = ModelEvent> {
    let mut left = after_chars;
    events.map_while(move |event| match event {
        _ if left == 0 => None,
        ModelEvent::Thinking(text) => Some(ModelEvent::Thinking(take(text, &mut left))),
        ModelEvent::Text(text) => Some(ModelEvent::Text(take(text, &mut left))),
        ModelEvent::ThinkingEnd { .. } => Some(event),
        _ => None,
    })
}

/// Returns at most the first `left` characters of `text`, and subtracts them from `left`.
fn take(mut text: String, left: &mut usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(*left) {
        text.truncate(end);
    }
    *left -= text.chars().count();
    text
}

/// An iterator over a text in pieces of `chars` characters.
struct Chunks<'a> {
    text: Cow<'a, str>,
    /// The byte offset of the next piece.
    at: usize,
    chars: NonZeroUsize,
}

impl<'a> Chunks<'a> {
    fn new(text: Cow<'a, str>, chars: NonZeroUsize) -> Self {
        Self { text, at: 0, chars }
    }
}

impl Iterator for Chunks<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
        let end = rest.char_indices().nth(self.chars.get());
        let (chunk, _) = rest.split_at(end.map_or(rest.len(), |(end, _)| end));
        self.at += chunk.len();
        Some(chunk.to_owned())
    }
}
