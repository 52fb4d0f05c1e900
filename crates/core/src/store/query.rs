//! Queries over many sessions, and the pages of their results.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bounds::json_bytes;
use crate::id::{SessionId, UserId};
use crate::session::{SessionState, SessionStatus};
use crate::time::Timestamp;

/// Selects a part of a list.
///
/// ```
/// use helix_agents::Page;
///
/// let second = Page::new(20, 20);
/// assert_eq!((second.offset, second.limit), (20, 20));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// The number of items to skip.
    pub offset: usize,
    /// The maximum number of items to return.
    pub limit: usize,
    /// The approximate maximum size of the items together, in bytes of JSON. The first item is
    /// returned whatever its size, so that reading page after page always reaches the end.
    pub bytes: Option<usize>,
}

impl Page {
    /// The maximum number of items that a query over sessions returns at once.
    pub const MAX: usize = 200;
    /// Selects the whole list.
    pub const ALL: Self = Self {
        offset: 0,
        limit: usize::MAX,
        bytes: None,
    };

    /// Selects `limit` items from `offset` on.
    #[must_use]
    pub fn new(offset: usize, limit: usize) -> Self {
        Self {
            offset,
            limit,
            bytes: None,
        }
    }

    /// Limits the size of the page in bytes.
    #[must_use]
    pub fn within(self, bytes: usize) -> Self {
        Self {
            bytes: Some(bytes),
            ..self
        }
    }

    /// Selects the first `limit` items.
    #[must_use]
    pub fn first(limit: usize) -> Self {
        Self::new(0, limit)
    }

    /// Limits the page to at most [`Page::MAX`] items. A store does this in
    /// [`SessionStore::list`](super::SessionStore::list) and
    /// [`SessionStore::pending`](super::SessionStore::pending), whose callers may be strangers. Lists of
    /// one session, like its messages, are returned as asked for.
    #[must_use]
    pub fn capped(self) -> Self {
        Self {
            limit: self.limit.min(Self::MAX),
            ..self
        }
    }
}

impl Default for Page {
    fn default() -> Self {
        Self::first(50)
    }
}

/// Measures what still fits into the bytes of a [`Page`], for a store that reads
/// one item after another.
#[derive(Debug, Clone)]
pub struct PageRoom {
    left: Option<usize>,
    is_empty: bool,
}

impl PageRoom {
    /// Creates the room that a page has.
    #[must_use]
    pub fn of(page: Page) -> Self {
        Self {
            left: page.bytes,
            is_empty: true,
        }
    }

    /// Whether the page takes the next item. After the first refused item it takes no other.
    pub fn takes(&mut self, item: &impl Serialize) -> bool {
        let Some(left) = self.left else {
            return true;
        };
        let bytes = json_bytes(item);
        let is_first = std::mem::take(&mut self.is_empty);
        self.left = Some(left.saturating_sub(bytes));
        is_first || bytes <= left
    }
}

/// A page of a list, and the length of the whole list.
///
/// ```
/// use helix_agents::{Page, Paged};
///
/// let page = Paged::new(vec!["a", "b"], 5, Page::first(2));
/// assert!(page.has_more);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Paged<T> {
    /// The items of the page.
    pub items: Vec<T>,
    /// The length of the whole list.
    pub total: usize,
    /// Whether more items follow the page.
    pub has_more: bool,
}

impl<T> Paged<T> {
    /// Creates a page of a list with `total` items.
    #[must_use]
    pub fn new(items: Vec<T>, total: usize, page: Page) -> Self {
        Self {
            has_more: page.offset.saturating_add(items.len()) < total,
            items,
            total,
        }
    }

    /// Cuts a page out of a whole list.
    #[must_use]
    pub fn of(all: impl ExactSizeIterator<Item = T>, page: Page) -> Self
    where
        T: Serialize,
    {
        let total = all.len();
        let mut room = PageRoom::of(page);
        let asked = all.skip(page.offset).take(page.limit);
        let items = asked.take_while(|item| room.takes(item)).collect();
        Self::new(items, total, page)
    }

    /// Converts each item of the page.
    #[must_use]
    pub fn map<U>(self, map: impl FnMut(T) -> U) -> Paged<U> {
        Paged {
            items: self.items.into_iter().map(map).collect(),
            total: self.total,
            has_more: self.has_more,
        }
    }
}

impl<T> IntoIterator for Paged<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    /// The items of the page.
    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

/// Selects one item by its id, or a page of all. Exhaustive, as [`Row`](super::Row) is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup<Id> {
    /// The item with this id.
    One(Id),
    /// A page of all items.
    Page(Page),
}

/// Selects sessions by their parent. Exhaustive, as [`Row`](super::Row) is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ParentFilter {
    /// Sessions with any parent, and roots.
    #[default]
    Any,
    /// Roots only, without child sessions.
    Roots,
    /// The children of this session.
    Of(SessionId),
}

/// Selects sessions. A filter that is not set matches every session.
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::{Page, SessionQuery};
///
/// let of_alice = SessionQuery {
///     user_id: Some(UserId::new("alice")?),
///     page: Page::first(20),
///     ..SessionQuery::default()
/// };
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// The owner of the session.
    pub user_id: Option<UserId>,
    /// The agent of the session.
    pub agent_type: Option<String>,
    /// The session has one of these statuses; empty matches any.
    pub status: Vec<SessionStatus>,
    /// The parent of the session.
    pub parent: ParentFilter,
    /// The session has all of these tags.
    pub tags: Vec<String>,
    /// The session has all of these metadata entries.
    pub metadata: BTreeMap<String, String>,
    /// The session was created at this instant or later.
    pub from: Option<Timestamp>,
    /// The session was created at this instant or earlier.
    pub to: Option<Timestamp>,
    /// The page of the list to return.
    pub page: Page,
}

impl SessionQuery {
    /// Whether a session matches every filter, for a store without an index.
    #[must_use]
    pub fn matches(&self, session: &SessionState) -> bool {
        fn passes<T: PartialEq + ?Sized>(wanted: Option<&T>, has: Option<&T>) -> bool {
            wanted.is_none() || wanted == has
        }
        let parent = session.parent_session_id.as_ref();
        passes(self.user_id.as_ref(), session.user_id.as_ref())
            && passes(
                self.agent_type.as_deref(),
                Some(session.agent_type.as_str()),
            )
            && (self.status.is_empty() || self.status.contains(&session.status))
            && match &self.parent {
                ParentFilter::Any => true,
                ParentFilter::Roots => parent.is_none(),
                ParentFilter::Of(wanted) => parent == Some(wanted),
            }
            && self.tags.iter().all(|tag| session.tags.contains(tag))
            && self
                .metadata
                .iter()
                .all(|(key, value)| session.metadata.get(key) == Some(value))
            && self.from.is_none_or(|from| session.created_at >= from)
            && self.to.is_none_or(|to| session.created_at <= to)
    }
}

/// Selects pending calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PendingQuery {
    /// The owner of the session that made the call.
    pub user_id: Option<UserId>,
    /// The root of the session that made the call.
    pub root: Option<SessionId>,
    /// The page of the list to return.
    pub page: Page,
}
