//! Queries over many sessions in memory.

use std::collections::BTreeMap;

use serde::Serialize;

use super::record::Record;
use crate::id::SessionId;
use crate::session::{PendingCall, SessionState};
use crate::store::{Lookup, Paged, PendingQuery, SessionQuery};
use crate::time::Timestamp;

pub(super) fn lookup<'a, T: Clone + Serialize + 'a, Id: PartialEq>(
    mut all: impl ExactSizeIterator<Item = &'a T>,
    which: Lookup<Id>,
    id: impl Fn(&T) -> &Id,
) -> Paged<T> {
    match which {
        Lookup::Page(page) => Paged::of(all.cloned(), page),
        Lookup::One(wanted) => {
            let found: Vec<T> = all
                .find(|one| *id(one) == wanted)
                .into_iter()
                .cloned()
                .collect();
            Paged {
                total: found.len(),
                items: found,
                has_more: false,
            }
        }
    }
}

pub(super) fn list(
    sessions: &BTreeMap<SessionId, Record>,
    query: &SessionQuery,
) -> Paged<SessionState> {
    let mut found: Vec<&Record> = sessions
        .values()
        .filter(|record| query.matches(&record.header.session))
        .collect();
    found.sort_by_key(|record| {
        let made = record.header.session.created_at;
        std::cmp::Reverse((made, record.created))
    });
    let page = query.page.capped();
    Paged::of(
        found
            .into_iter()
            .map(|record| record.header.session.clone()),
        page,
    )
}

pub(super) fn pending(
    sessions: &BTreeMap<SessionId, Record>,
    query: &PendingQuery,
) -> Paged<PendingCall> {
    let of_user = |record: &&Record| {
        let owner = record.header.session.user_id.as_ref();
        query
            .user_id
            .as_ref()
            .is_none_or(|user| owner == Some(user))
    };
    let mut open: Vec<&PendingCall> = sessions
        .values()
        .filter(of_user)
        .flat_map(|record| record.pending.values())
        .filter(|call| call.answer.is_none())
        .filter(|call| {
            query
                .root
                .as_ref()
                .is_none_or(|root| call.root_session_id == *root)
        })
        .collect();
    open.sort_by_key(|call| (call.created_at, &call.session_id, &call.tool_call_id));
    Paged::of(open.into_iter().cloned(), query.page.capped())
}

/// Iterates over the instants since which unanswered calls have been waiting.
pub(super) fn waiting(sessions: &BTreeMap<SessionId, Record>) -> impl Iterator<Item = Timestamp> {
    let calls = sessions.values().flat_map(|record| record.pending.values());
    let open = calls.filter(|call| call.answer.is_none());
    open.map(|call| call.created_at)
}
