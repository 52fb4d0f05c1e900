//! Due work: what needs somebody's attention, and how it is asked for.
//!
//! A store keeps, for each session, the instant from which on each kind of work is due
//! ([`Header::due_from`]), ordered by agent, kind, instant and session. A question reads the ranges of
//! the kinds and agents that it names and nothing else; [`DueQuery::page`] makes the answer of them,
//! the same for every store.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Header, SessionKey, StoreError};
use crate::id::{CallId, RunId, SessionId};
use crate::time::Timestamp;

/// Why a session needs somebody's attention.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Due {
    /// A run goes on, and its lease has lapsed.
    LapsedLease {
        /// The run.
        run: RunId,
        /// Which kind of host performs it.
        host: String,
    },
    /// A pending call's deadline has passed.
    Deadline {
        /// The call.
        call: CallId,
    },
    /// A run is paused and all its calls are answered.
    Answered {
        /// The run.
        run: RunId,
    },
    /// Messages wait and no run goes on.
    Inbox,
    /// A run that nobody performs is asked to stop.
    OwedStop {
        /// The run.
        run: RunId,
    },
    /// The session may be cleaned up, and no run goes on.
    Expired,
}

impl Due {
    /// What kind of work it is.
    #[must_use]
    pub fn kind(&self) -> DueKind {
        match self {
            Self::LapsedLease { .. } => DueKind::LapsedLease,
            Self::Deadline { .. } => DueKind::Deadline,
            Self::Answered { .. } => DueKind::Answered,
            Self::Inbox => DueKind::Inbox,
            Self::OwedStop { .. } => DueKind::OwedStop,
            Self::Expired => DueKind::Expired,
        }
    }
}

/// A kind of due work; [`Due`] says what each means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DueKind {
    /// A run whose lease has lapsed.
    LapsedLease,
    /// A deadline that has passed.
    Deadline,
    /// A paused run whose calls are all answered.
    Answered,
    /// Messages that wait.
    Inbox,
    /// A stop that is asked of a paused run.
    OwedStop,
    /// A session that may be cleaned up.
    Expired,
}

impl DueKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::LapsedLease,
        Self::Deadline,
        Self::Answered,
        Self::Inbox,
        Self::OwedStop,
        Self::Expired,
    ];
}

/// A place in the order of due work: since when a session is due, and which one it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct DueCursor {
    /// Since when.
    pub since: Timestamp,
    /// The session.
    pub session: SessionId,
}

impl DueCursor {
    /// A place.
    #[must_use]
    pub fn new(since: Timestamp, session: SessionId) -> Self {
        Self { since, session }
    }
}

/// Which due work is asked for. As it is made, all there is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DueQuery {
    /// When. A store that has a clock of its own goes by that instead.
    pub at: Timestamp,
    /// What kinds of work.
    pub kinds: Vec<DueKind>,
    /// The agents whose sessions are asked for, by name; `None`: everybody's.
    pub agents: Option<Vec<String>>,
    /// Only what comes after this place: where the page before ended.
    pub after: Option<DueCursor>,
    /// How many sessions at most.
    pub limit: usize,
}

impl DueQuery {
    /// How many sessions a page has when nobody says otherwise.
    pub const LIMIT: usize = 100;

    /// The first page of all that is due at an instant.
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

    /// Only work of these kinds.
    #[must_use]
    pub fn of_kinds(mut self, kinds: impl IntoIterator<Item = DueKind>) -> Self {
        self.kinds = kinds.into_iter().collect();
        self
    }

    /// Only sessions of these agents.
    #[must_use]
    pub fn of_agents(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.agents = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Only what comes after a place.
    #[must_use]
    pub fn after(mut self, place: Option<DueCursor>) -> Self {
        self.after = place;
        self
    }

    /// So many sessions at most.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// What of a session is asked for and due at an instant, and since when the first of it is.
    #[must_use]
    pub fn judge(&self, header: &Header, now: Timestamp) -> Option<(Timestamp, Vec<Due>)> {
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

    /// Makes a page of what a store has at hand.
    ///
    /// Each range is a part of the store's order, due at `now`, by place: of one kind and one agent,
    /// say. One that has `limit` places or more after [`DueQuery::after`] may go on. The places of all
    /// of them together name every session that is due. `header_of` gives a session as it is.
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
        // Beyond the end of a range that goes on, something may be missing.
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
            // One that is due for several reasons is given once, where the first of them stands.
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
    /// Its root.
    pub root: SessionId,
    /// The session.
    pub session: SessionId,
    /// Why, of what was asked for.
    pub reasons: Vec<Due>,
}

impl DueSession {
    /// A session, and why it needs attention.
    #[must_use]
    pub fn new(key: SessionKey<'_>, reasons: Vec<Due>) -> Self {
        Self {
            root: key.root.clone(),
            session: key.session.clone(),
            reasons,
        }
    }

    /// How it is named to a store.
    #[must_use]
    pub fn key(&self) -> SessionKey<'_> {
        SessionKey::new(&self.root, &self.session)
    }
}

/// A part of the due work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DuePage {
    /// The instant at which the store judged it.
    pub at: Timestamp,
    /// Sessions, most overdue first, each with all the reasons that were asked for.
    pub items: Vec<DueSession>,
    /// Where the next page begins; `None`: that was all. A page may be empty and have a next one.
    pub next: Option<DueCursor>,
}

impl DuePage {
    /// A page, judged at an instant.
    #[must_use]
    pub fn new(at: Timestamp, items: Vec<DueSession>, next: Option<DueCursor>) -> Self {
        Self { at, items, next }
    }
}
