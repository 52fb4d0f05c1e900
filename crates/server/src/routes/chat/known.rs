//! The messages of a request that the session has already.

use helix_agents_core::message::{Message, UserMessage};
use helix_agents_core::store::{Page, Snapshot};
use helix_agents_wire::IncomingMessage;

use super::bubble::Bubble;
use crate::ApiError;
use crate::builder::App;

/// The number of messages that are read at once.
const BATCH: usize = 256;
/// How far back a message that is sent is looked for: the same request may come twice.
const MAX_LOOK_BACK: usize = 1024;

/// A message of the history that a request repeats.
pub(super) struct Known {
    /// Its position in the history; `None` while it waits for its run.
    pub(super) position: Option<usize>,
    pub(super) message: UserMessage,
}

impl Known {
    /// Where it stands; those that wait come last.
    fn place(&self) -> usize {
        self.position.unwrap_or(usize::MAX)
    }
}

/// The message of the session that has the id of this one: the last, where several have it.
pub(super) fn known_of<'a>(known: &'a [Known], message: &IncomingMessage) -> Option<&'a Known> {
    let id = message.id.as_deref()?;
    known.iter().find(|known| {
        known
            .message
            .id
            .as_ref()
            .is_some_and(|known| known.as_str() == id)
    })
}

/// The messages at the end of a request that the session does not have.
///
/// Ids tell that of visible ones. The id of a hidden one may be used again with each turn: it is known as that message
/// only where it follows a visible one with which it was sent.
pub(super) fn new_of<'a>(tail: &'a [IncomingMessage], known: &[Known]) -> &'a [IncomingMessage] {
    let known_of = |message: &IncomingMessage| known_of(known, message).map(Known::place);
    let mut last = None;
    let mut from = 0;
    for (at, message) in tail.iter().enumerate() {
        if !message.is_hidden()
            && let Some(found) = known_of(message)
        {
            (last, from) = (Some(found), at + 1);
        }
    }
    let is_alone = tail.iter().all(IncomingMessage::is_hidden);
    let sent_with = |message: &&IncomingMessage| {
        let place = known_of(message);
        message.is_hidden()
            && place.is_some_and(|place| is_alone || Some(place) >= last && last.is_some())
    };
    let rest = tail.get(from..).unwrap_or_default();
    let count = rest.iter().take_while(sent_with).count();
    rest.get(count..).unwrap_or_default()
}

/// Looks for messages by their ids: among those that wait, among those with which the latest turn began, and in the
/// history from its end on. A message that is edited is looked for in all of it.
pub(super) async fn look_up(
    app: &App,
    found: &Snapshot,
    tail: &[IncomingMessage],
    is_edit: bool,
) -> Result<Vec<Known>, ApiError> {
    let ids: Vec<&str> = tail
        .iter()
        .filter_map(|message| message.id.as_deref())
        .collect();
    let mut search = Search {
        app,
        found,
        ids,
        known: Vec::new(),
    };
    // Of a message that was edited while it waits the last text counts.
    for message in found.inbox.iter().rev().flat_map(|row| &row.messages) {
        search.note(None, message.clone());
    }
    // A request that comes twice is mostly one for the latest turn, however long that is.
    if let Some(bubble) = found.run.as_ref().map(Bubble::of) {
        let end = bubble.begins_at.min(found.message_count);
        search.read(bubble.turn_begins_at, end).await?;
    }
    let limit = if is_edit { usize::MAX } else { MAX_LOOK_BACK };
    let mut end = found.message_count;
    while end > 0 && !search.is_over() && found.message_count - end < limit {
        let start = end.saturating_sub(BATCH);
        search.read(start, end).await?;
        end = start;
    }
    Ok(search.known)
}

/// A search for messages by their ids.
struct Search<'a> {
    app: &'a App,
    found: &'a Snapshot,
    ids: Vec<&'a str>,
    known: Vec<Known>,
}

impl Search<'_> {
    fn is_over(&self) -> bool {
        self.known.len() >= self.ids.len()
    }

    fn note(&mut self, position: Option<usize>, message: UserMessage) {
        let Some(id) = &message.id else {
            return;
        };
        let is_known = |known: &Known| known.message.id.as_ref() == Some(id);
        if self.ids.contains(&id.as_str()) && !self.known.iter().any(is_known) {
            self.known.push(Known { position, message });
        }
    }

    /// Looks at the messages between two positions, the last first.
    async fn read(&mut self, start: usize, end: usize) -> Result<(), ApiError> {
        let key = self.found.state.key();
        let mut read = Vec::new();
        while !self.is_over() && start + read.len() < end {
            let at = start + read.len();
            let page = Page::new(at, BATCH.min(end - at));
            let items = self.app.store().messages(key, page).await?.items;
            if items.is_empty() {
                break;
            }
            read.extend(items);
        }
        for (at, message) in read.into_iter().enumerate().rev() {
            if let Message::User(message) = message {
                self.note(Some(start + at), message);
            }
        }
        Ok(())
    }
}
