//! What can be asked of many sessions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bounds::json_bytes;
use crate::id::{SessionId, UserId};
use crate::session::{SessionState, SessionStatus};
use crate::time::Timestamp;

/// A part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// How many are left out at the beginning.
    pub offset: usize,
    /// How many are given at most.
    pub limit: usize,
    /// About how many bytes they have together at most, as JSON. The first is given however large it
    /// is, so that whoever goes on after what it got comes to the end.
    pub bytes: Option<usize>,
}

impl Page {
    /// The most that a query over sessions gives at once.
    pub const MAX: usize = 200;
    /// Everything.
    pub const ALL: Self = Self {
        offset: 0,
        limit: usize::MAX,
        bytes: None,
    };

    /// A part of a list.
    #[must_use]
    pub fn new(offset: usize, limit: usize) -> Self {
        Self {
            offset,
            limit,
            bytes: None,
        }
    }

    /// The same part, ending early where it would have more bytes than these.
    #[must_use]
    pub fn within(self, bytes: usize) -> Self {
        Self {
            bytes: Some(bytes),
            ..self
        }
    }

    /// The first so many.
    #[must_use]
    pub fn first(limit: usize) -> Self {
        Self::new(0, limit)
    }

    /// At most [`Page::MAX`] of it.
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

/// What still fits into the bytes of a [`Page`], for a store that gives one item after another.
#[derive(Debug, Clone)]
pub struct PageRoom {
    left: Option<usize>,
    is_empty: bool,
}

impl PageRoom {
    /// The room of a page.
    #[must_use]
    pub fn of(page: Page) -> Self {
        Self {
            left: page.bytes,
            is_empty: true,
        }
    }

    /// Whether the page takes the next item. After the first that it does not take, it takes none.
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

/// A part of a list, and how long the whole is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Paged<T> {
    /// The part.
    pub items: Vec<T>,
    /// How many there are in all.
    pub total: usize,
    /// Whether more follow.
    pub has_more: bool,
}

impl<T> Paged<T> {
    /// A part of a list of `total`.
    #[must_use]
    pub fn new(items: Vec<T>, total: usize, page: Page) -> Self {
        Self {
            has_more: page.offset.saturating_add(items.len()) < total,
            items,
            total,
        }
    }

    /// The part of a whole list.
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

    /// The same part of something else.
    #[must_use]
    pub fn map<U>(self, map: impl FnMut(T) -> U) -> Paged<U> {
        Paged {
            items: self.items.into_iter().map(map).collect(),
            total: self.total,
            has_more: self.has_more,
        }
    }
}

/// One by its name, or a part of all. Exhaustive, as [`Row`](super::Row) is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup<Id> {
    /// The one of this name.
    One(Id),
    /// A part of all.
    Page(Page),
}

/// Whose children are listed. Exhaustive, as [`Row`](super::Row) is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ParentFilter {
    /// Anybody's, and roots.
    #[default]
    Any,
    /// Roots only.
    Roots,
    /// This one's children.
    Of(SessionId),
}

/// Which sessions are listed. Filters that are not set let everything pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// Their owner.
    pub user_id: Option<UserId>,
    /// Their agent.
    pub agent_type: Option<String>,
    /// One of these statuses; empty: any.
    pub status: Vec<SessionStatus>,
    /// Their parent.
    pub parent: ParentFilter,
    /// All of these tags.
    pub tags: Vec<String>,
    /// All of these pairs.
    pub metadata: BTreeMap<String, String>,
    /// Made at this instant or later.
    pub from: Option<Timestamp>,
    /// Made before this instant or at it.
    pub to: Option<Timestamp>,
    /// Which part of the list.
    pub page: Page,
}

impl SessionQuery {
    /// Whether a session passes every filter: what a store without an index asks of each.
    #[must_use]
    pub fn matches(&self, session: &SessionState) -> bool {
        fn passes<T: PartialEq>(wanted: Option<&T>, has: Option<&T>) -> bool {
            wanted.is_none() || wanted == has
        }
        let parent = session.parent_session_id.as_ref();
        passes(self.user_id.as_ref(), session.user_id.as_ref())
            && passes(self.agent_type.as_ref(), Some(&session.agent_type))
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

/// Which pending calls are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PendingQuery {
    /// The owner of their session.
    pub user_id: Option<UserId>,
    /// The root of their session.
    pub root: Option<SessionId>,
    /// Which part of the list.
    pub page: Page,
}
