//! The stored messages of a session as UI messages: all of them, or a page.

use helix_agents_core::message::Message;
use helix_agents_core::store::{Page, SessionKey, SessionStore, StoreError};
use serde::Serialize;

use crate::{ConvertOptions, UiMessage, begins_turn, convert_messages};

/// The number of messages that are read at once.
const BATCH: usize = 256;

/// A page of UI messages.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UiMessages {
    /// The messages of the turns on this page, oldest first.
    pub messages: Vec<UiMessage>,
    /// The number of turns that there are.
    pub total: usize,
    /// Whether later turns follow.
    pub has_more: bool,
}

/// Reads stored messages as UI messages. Pages consist of whole turns, so a call is never without its result.
#[derive(Debug)]
pub struct UiMessageStore<'a> {
    store: &'a dyn SessionStore,
    options: ConvertOptions,
}

impl<'a> UiMessageStore<'a> {
    /// Reads from a store.
    #[must_use]
    pub fn new(store: &'a dyn SessionStore, options: ConvertOptions) -> Self {
        Self { store, options }
    }

    /// Reads the first `count` messages of a session. The conversion of all of them is in memory at once.
    ///
    /// # Errors
    /// If the messages cannot be read.
    pub async fn all(
        &self,
        session: SessionKey<'_>,
        count: usize,
    ) -> Result<Vec<UiMessage>, StoreError> {
        let messages = self.range(session, 0, count).await?;
        Ok(convert_messages(messages, &self.options.clone().first(0)))
    }

    /// Reads the last turns among the first `count` messages of a session, as many as fit into about `bytes` bytes, at
    /// least one; and says whether there are older ones.
    ///
    /// # Errors
    /// If the messages cannot be read.
    pub async fn latest(
        &self,
        session: SessionKey<'_>,
        count: usize,
        bytes: usize,
    ) -> Result<(Vec<UiMessage>, bool), StoreError> {
        // Newest first.
        let mut kept: Vec<Message> = Vec::new();
        let mut size = 0_usize;
        let mut end = count;
        'all: while end > 0 {
            let start = end.saturating_sub(BATCH);
            for message in self.range(session, start, end).await?.into_iter().rev() {
                // A turn begins before its first message, once all of it was taken.
                let is_full = size > bytes && !kept.is_empty();
                if is_full && is_boundary(&message, kept.last()) {
                    break 'all;
                }
                size = size
                    .saturating_add(serde_json::to_string(&message).map_or(0, |json| json.len()));
                kept.push(message);
            }
            end = start;
        }
        kept.reverse();
        let first = count.saturating_sub(kept.len());
        let messages = convert_messages(kept, &self.options.clone().first(first));
        Ok((messages, first > 0))
    }

    /// Reads a page of turns among the first `count` messages of a session. The cost grows with the number of
    /// messages before the page, and of those after it.
    ///
    /// # Errors
    /// If the messages cannot be read.
    pub async fn page(
        &self,
        session: SessionKey<'_>,
        count: usize,
        (offset, limit): (usize, usize),
    ) -> Result<UiMessages, StoreError> {
        let (mut turns, mut first, mut before) = (0_usize, None, None::<Message>);
        let mut kept = Vec::new();
        let mut at = 0;
        while at < count {
            let end = count.min(at + BATCH);
            let read = self.range(session, at, end).await?;
            if read.is_empty() {
                break;
            }
            for message in read {
                if turns == 0 || is_boundary_after(before.as_ref(), &message) {
                    turns += 1;
                }
                before = Some(match &message {
                    Message::User(_) => message.clone(),
                    // Only what it is counts.
                    other => short(other),
                });
                let turn = turns - 1;
                if turn >= offset && turn - offset < limit {
                    first.get_or_insert(at);
                    kept.push(message);
                }
                at += 1;
            }
        }
        let options = self.options.clone().first(first.unwrap_or_default());
        Ok(UiMessages {
            messages: convert_messages(kept, &options),
            total: turns,
            has_more: offset.saturating_add(limit) < turns,
        })
    }

    async fn range(
        &self,
        session: SessionKey<'_>,
        start: usize,
        end: usize,
    ) -> Result<Vec<Message>, StoreError> {
        let mut all = Vec::new();
        while start + all.len() < end {
            let at = start + all.len();
            let page = Page::new(at, (end - at).min(BATCH));
            let read = self.store.messages(session, page).await?.items;
            if read.is_empty() {
                break;
            }
            all.extend(read);
        }
        Ok(all)
    }
}

/// Whether a turn ends with this message, given the one after it.
fn is_boundary(message: &Message, after: Option<&Message>) -> bool {
    after.is_some_and(|after| is_boundary_after(Some(message), after))
}

/// Whether a turn begins with a message, given the one before it. Several user messages in a row begin one turn.
fn is_boundary_after(before: Option<&Message>, message: &Message) -> bool {
    let begins = |message: &Message| matches!(message, Message::User(user) if begins_turn(user));
    begins(message) && !before.is_some_and(begins)
}

/// A message that stands for one that begins no turn.
fn short(message: &Message) -> Message {
    match message {
        Message::User(user) => Message::User(user.clone()),
        _ => Message::Assistant(helix_agents_core::message::AssistantMessage::default()),
    }
}
