//! The amount of work waiting in a store, for operators.

use std::collections::BTreeMap;

use super::{DueKind, Header};
use crate::time::Timestamp;

/// The amount of work waiting in a store, over all its sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backlog {
    /// Calls that wait for an answer.
    pub pending_calls: u64,
    /// The instant since which the oldest of them has been waiting.
    pub oldest_pending: Option<Timestamp>,
    /// Runs under a lease that has not lapsed.
    pub leases: u64,
    /// The number of sessions with due work, by kind. A kind with no due work is absent.
    pub due: BTreeMap<DueKind, u64>,
}

impl Backlog {
    /// The kinds of due work that are counted: all that a user or a caller waits for. Sessions that
    /// may be cleaned up are not counted; there can be as many of those as there are sessions.
    pub const COUNTED: [DueKind; 5] = [
        DueKind::LapsedLease,
        DueKind::Deadline,
        DueKind::Answered,
        DueKind::Inbox,
        DueKind::OwedStop,
    ];

    /// Counts a pending call that has been waiting since this instant.
    pub fn add_pending(&mut self, since: Timestamp) {
        self.pending_calls += 1;
        let oldest = self.oldest_pending.get_or_insert(since);
        *oldest = since.min(*oldest);
    }

    /// Counts sessions with one kind of work: `due` of them are due now, `later` will be due
    /// at a later instant.
    pub fn add_due(&mut self, kind: DueKind, due: u64, later: u64) {
        if !Self::COUNTED.contains(&kind) {
            return;
        }
        if due > 0 {
            *self.due.entry(kind).or_default() += due;
        }
        if kind == DueKind::LapsedLease {
            self.leases += later;
        }
    }

    /// Counts the due work of one session, for a store without an index of it.
    pub fn add_session(&mut self, header: &Header, now: Timestamp) {
        for (kind, since) in header.due_from() {
            let is_due = since <= now;
            self.add_due(kind, u64::from(is_due), u64::from(!is_due));
        }
    }

    /// Adds the backlog of another part of the same store.
    #[doc(hidden)]
    pub fn add(&mut self, other: &Self) {
        self.pending_calls += other.pending_calls;
        let oldest = [self.oldest_pending, other.oldest_pending];
        self.oldest_pending = oldest.into_iter().flatten().min();
        self.leases += other.leases;
        for (kind, due) in &other.due {
            *self.due.entry(*kind).or_default() += due;
        }
    }
}
