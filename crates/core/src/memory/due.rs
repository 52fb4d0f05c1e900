//! The index of due work in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::record::Record;
use crate::id::SessionId;
use crate::store::{Backlog, DueCursor, DueKind, DuePage, DueQuery, Header, StoreError};
use crate::time::Timestamp;

/// The instants since which sessions are due, by agent and kind.
#[derive(Debug, Default)]
pub(super) struct DueIndex {
    agents: BTreeMap<String, BTreeMap<DueKind, BTreeSet<DueCursor>>>,
}

impl DueIndex {
    /// Records the new header of a session; `None` if it was deleted.
    pub(super) fn update(
        &mut self,
        session: &SessionId,
        before: Option<&Header>,
        after: Option<&Header>,
    ) {
        if let (Some(before), Some(after)) = (before, after)
            && before.earliest_due() == after.earliest_due()
            && before.session.agent_type == after.session.agent_type
        {
            return;
        }
        let (before, after) = (before.map(agenda), after.map(agenda));
        if let Some((agent, from)) = before {
            for (kind, since) in from {
                self.remove(agent, kind, &DueCursor::new(since, session.clone()));
            }
        }
        if let Some((agent, from)) = after {
            let kinds = self.agents.entry(agent.to_owned()).or_default();
            for (kind, since) in from {
                let place = DueCursor::new(since, session.clone());
                kinds.entry(kind).or_default().insert(place);
            }
        }
        self.agents.retain(|_, kinds| !kinds.is_empty());
    }

    fn remove(&mut self, agent: &str, kind: DueKind, place: &DueCursor) {
        if let Some(kinds) = self.agents.get_mut(agent)
            && let Some(places) = kinds.get_mut(&kind)
        {
            places.remove(place);
            if places.is_empty() {
                kinds.remove(&kind);
            }
        }
    }

    pub(super) fn page(
        &self,
        sessions: &BTreeMap<SessionId, Record>,
        query: &DueQuery,
        now: Timestamp,
    ) -> Result<DuePage, StoreError> {
        let agents: Vec<_> = match &query.agents {
            Some(names) => names
                .iter()
                .filter_map(|one| self.agents.get(one))
                .collect(),
            None => self.agents.values().collect(),
        };
        let ranges = agents.into_iter().flat_map(|kinds| {
            let asked = query.kinds.iter().filter_map(|kind| kinds.get(kind));
            asked.map(|places| {
                let from = query
                    .after
                    .as_ref()
                    .map_or(Bound::Unbounded, Bound::Excluded);
                let later = places.range((from, Bound::Unbounded));
                let due = later.take_while(|place| place.since <= now);
                due.take(query.limit).cloned().collect()
            })
        });
        let header = |id: &SessionId| {
            let record = sessions.get(id);
            Ok(record.map(|record| Arc::clone(&record.header)))
        };
        query.page(now, ranges, header)
    }

    /// Counts what is due at this instant.
    pub(super) fn backlog(&self, now: Timestamp) -> Backlog {
        let mut backlog = Backlog::default();
        for (kind, places) in self.agents.values().flatten() {
            if Backlog::COUNTED.contains(kind) {
                let due = places.iter().take_while(|place| place.since <= now).count();
                let later = places.len() - due;
                backlog.add_due(*kind, wide(due), wide(later));
            }
        }
        backlog
    }
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Returns the agent of a session and the instants from which on its work is due.
fn agenda(header: &Header) -> (&str, BTreeMap<DueKind, Timestamp>) {
    (&header.session.agent_type, header.due_from())
}
