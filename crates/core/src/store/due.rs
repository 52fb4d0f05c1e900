//! Due work: the sessions that need attention, and the query for them.
//!
//! A store keeps, for each session, the instant from which on each kind of work is due
//! ([`Header::due_from`]), ordered by agent, kind, instant and session. A query reads the ranges of
//! the kinds and agents that it names and nothing else; [`DueQuery::page`] combines them into the
//! result, the same way for every store.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Header, SessionKey, StoreError};
use crate::id::{CallId, RunId, SessionId};
use crate::time::Timestamp;

/// Why a session needs attention.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DueReason {
    /// A run is marked as running, and its lease has lapsed.
    LapsedLease {
        /// The id of the run.
        run: RunId,
        /// The kind of host that performs the run.
        host: String,
    },
    /// The deadline of a pending call has passed.
    Deadline {
        /// The id of the pending call.
        call: CallId,
    },
    /// A run is suspended, and all its pending calls are answered.
    Answered {
        /// The id of the run.
        run: RunId,
    },
    /// Messages wait, and the last turn is over.
    Inbox,
    /// A stop is requested of a run that no process is performing.
    OwedStop {
        /// The id of the run.
        run: RunId,
    },
    /// The session may be cleaned up, and no run is running.
    Expired,
    /// Readers are to be warned that the deadline of a pending call is near.
    ExpiringSoon {
        /// The id of the pending call.
        call: CallId,
    },
}

impl DueReason {
    /// Returns the kind of work.
    #[must_use]
    pub(crate) fn kind(&self) -> DueKind {
        match self {
            Self::LapsedLease { .. } => DueKind::LapsedLease,
            Self::Deadline { .. } => DueKind::Deadline,
            Self::Answered { .. } => DueKind::Answered,
            Self::Inbox => DueKind::Inbox,
            Self::OwedStop { .. } => DueKind::OwedStop,
            Self::Expired => DueKind::Expired,
            Self::ExpiringSoon { .. } => DueKind::ExpiringSoon,
        }
    }
}

/// A kind of due work; [`DueReason`] describes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DueKind {
    /// A run whose lease has lapsed.
    LapsedLease,
    /// A pending call whose deadline has passed.
    Deadline,
    /// A suspended run whose calls are all answered.
    Answered,
    /// Messages that wait after the end of a turn.
    Inbox,
    /// A stop request for a run that is not running.
    OwedStop,
    /// A session that may be cleaned up.
    Expired,
    /// A pending call whose deadline is near.
    ExpiringSoon,
}

impl DueKind {
    /// Every kind of due work.
    pub const ALL: [Self; 7] = [
        Self::LapsedLease,
        Self::Deadline,
        Self::Answered,
        Self::Inbox,
        Self::OwedStop,
        Self::Expired,
        Self::ExpiringSoon,
    ];
}

/// A position in the order of due work: the instant since which a session is due, and its id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct DueCursor {
    /// The instant since which the session is due.
    pub since: Timestamp,
    /// The id of the session.
    pub session: SessionId,
}

impl DueCursor {
    /// Creates a position in the order of due work.
    #[must_use]
    pub fn new(since: Timestamp, session: SessionId) -> Self {
        Self { since, session }
    }
}

/// A query for due work. Without restrictions it asks for all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DueQuery {
    /// The instant of the query. A store with its own clock uses that instead.
    pub at: Timestamp,
    /// The kinds of work to include.
    pub kinds: Vec<DueKind>,
    /// The names of the agents whose sessions to include; `None` includes all.
    pub agents: Option<Vec<String>>,
    /// Returns only entries after this position, the end of the previous page.
    pub after: Option<DueCursor>,
    /// The maximum number of sessions in the page.
    pub limit: usize,
}

impl DueQuery {
    /// The default maximum number of sessions in a page.
    pub const LIMIT: usize = 100;

    /// Asks for the first page of all work that is due at an instant.
    #[must_use]
    pub fn at(at: Timestamp) -> Self {
        Self {
            at,
            kinds: DueKind::ALL.into(),
            agents: None,
            after: None,
            limit: Self::LIMIT,
        }
    }

    /// Restricts the query to these kinds of work.
    #[must_use]
    pub fn of_kinds(mut self, kinds: impl IntoIterator<Item = DueKind>) -> Self {
        self.kinds = kinds.into_iter().collect();
        self
    }

    /// Restricts the query to sessions of these agents.
    #[must_use]
    pub fn of_agents(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.agents = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Restricts the query to entries after a position.
    #[must_use]
    pub fn after(mut self, place: Option<DueCursor>) -> Self {
        self.after = place;
        self
    }

    /// Sets the maximum number of sessions.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Returns the reasons for which a session is due and matches this query, and the earliest
    /// instant since which it is.
    #[must_use]
    pub fn judge(&self, header: &Header, now: Timestamp) -> Option<(Timestamp, Vec<DueReason>)> {
        let is_asked = |agent: &String| *agent == header.session.agent_type;
        if !self
            .agents
            .as_ref()
            .is_none_or(|any| any.iter().any(is_asked))
        {
            return None;
        }
        let due = header.agenda();
        let due = due.filter(|(from, due)| *from <= now && self.kinds.contains(&due.kind()));
        let (since, reasons): (Vec<_>, Vec<_>) = due.unzip();
        Some((since.into_iter().min()?, reasons))
    }

    /// Builds a page from the ranges that a store has read.
    ///
    /// Each range is a sorted part of the store's order that is due at `now`, for example that of
    /// one kind and one agent. A range with `limit` or more positions after [`DueQuery::after`] may
    /// continue in the store. Together the ranges contain every session that is due. `header_of`
    /// loads the current header of a session.
    ///
    /// # Errors
    /// Those of `header_of`.
    pub fn page<E: From<StoreError>>(
        &self,
        now: Timestamp,
        ranges: impl IntoIterator<Item = Vec<DueCursor>>,
        mut header_of: impl FnMut(&SessionId) -> Result<Option<Arc<Header>>, E>,
    ) -> Result<DuePage, E> {
        let mut page = DuePage {
            at: now,
            items: Vec::new(),
            next: None,
        };
        if self.limit == 0 {
            return Ok(page);
        }
        let mut places = BTreeSet::new();
        // Beyond the end of a range that continues in the store, entries may be missing.
        let mut known_to: Option<DueCursor> = None;
        for mut range in ranges {
            let after = self.after.as_ref();
            range.retain(|place| after.is_none_or(|after| place > after));
            if let Some(last) = range.last().filter(|_| range.len() >= self.limit)
                && known_to.as_ref().is_none_or(|known| last < known)
            {
                known_to = Some(last.clone());
            }
            places.extend(range);
        }
        for place in places {
            if known_to.as_ref().is_some_and(|known| place > *known) {
                break;
            }
            if page.items.len() == self.limit {
                return Ok(page);
            }
            let header = header_of(&place.session)?;
            // A session that is due for several reasons is listed once, at the earliest of them.
            if let Some(header) = header
                && let Some((since, reasons)) = self.judge(&header, now)
                && since == place.since
            {
                let key = header.session.key();
                page.items.push(DueSession::new(key, reasons));
            }
            page.next = Some(place);
        }
        page.next = known_to;
        Ok(page)
    }
}

/// A session that needs attention.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DueSession {
    /// The root of the session.
    pub root: SessionId,
    /// The id of the session.
    pub session: SessionId,
    /// The reasons that the query asked for.
    pub reasons: Vec<DueReason>,
}

impl DueSession {
    /// Creates an entry of a session with its reasons.
    #[must_use]
    #[doc(hidden)]
    pub fn new(key: SessionKey<'_>, reasons: Vec<DueReason>) -> Self {
        Self {
            root: key.root.clone(),
            session: key.session.clone(),
            reasons,
        }
    }

    /// Returns the key of the session.
    #[must_use]
    pub fn key(&self) -> SessionKey<'_> {
        SessionKey::new(&self.root, &self.session)
    }
}

/// A page of due work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DuePage {
    /// The instant at which the store judged what is due.
    pub at: Timestamp,
    /// Sessions, most overdue first, each with all the reasons that the query asked for.
    pub items: Vec<DueSession>,
    /// Where the next page begins; `None` at the end. A page may be empty and still have a next one.
    pub next: Option<DueCursor>,
}
