//! The table `due`: an index of due work by agent and kind. A query reads the rows of the agents and kinds that it
//! asks for, and no others.

use std::collections::BTreeMap;
use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::store::{Backlog, DueCursor, DueKind, DuePage, DueQuery};
use helix_agents_core::time::Timestamp;
use tokio_postgres::types::Type;

use crate::convert;
use crate::headers;
use crate::operation_error::OperationError;
use crate::store::Inner;

/// The stored number of a kind.
pub(crate) fn number(kind: DueKind) -> Result<i16, OperationError> {
    Ok(match kind {
        DueKind::LapsedLease => 0,
        DueKind::Deadline => 1,
        DueKind::Answered => 2,
        DueKind::Inbox => 3,
        DueKind::OwedStop => 4,
        DueKind::Expired => 5,
        DueKind::ExpiringSoon => 6,
        other => {
            let reason = format!("this store does not know {other:?}; upgrade it");
            return Err(OperationError::internal(reason));
        }
    })
}

/// Jumps from one agent to the next, however many rows each of them has.
const AGENTS: &str = "WITH RECURSIVE each (agent) AS ( \
       (SELECT agent FROM @due ORDER BY agent LIMIT 1) \
       UNION ALL \
       SELECT (SELECT d.agent FROM @due d WHERE d.agent > each.agent ORDER BY d.agent LIMIT 1) \
       FROM each WHERE each.agent IS NOT NULL) \
     SELECT coalesce(array_agg(agent), '{}') FROM each WHERE agent IS NOT NULL";

/// The first places of each agent and kind.
const PLACES: &str = "SELECT x.since, x.name FROM unnest($1) a (agent) CROSS JOIN unnest($2) k (kind) \
     CROSS JOIN LATERAL (SELECT d.since, d.name FROM @due d WHERE d.agent = a.agent AND d.kind = k.kind \
       AND (d.since, d.name) > ($3, $4) AND d.since <= $5 ORDER BY d.since, d.name LIMIT $6) x";

/// A page of due work at this instant.
pub(crate) async fn page(
    on: &Inner,
    query: &DueQuery,
    now: Timestamp,
) -> Result<DuePage, OperationError> {
    let agents: Vec<Vec<u8>> = match &query.agents {
        Some(names) => names.iter().map(|name| name.as_bytes().to_vec()).collect(),
        None => {
            let rows = on.database.read(AGENTS, &[]).await?;
            rows.first().map_or(Ok(Vec::new()), |row| row.try_get(0))?
        }
    };
    let kinds: Result<Vec<i16>, _> = query.kinds.iter().copied().map(number).collect();
    let (since, name) = match &query.after {
        Some(place) => (convert::millis(place.since), place.session.as_str()),
        None => (-1, ""),
    };
    let limit = query.limit;
    let rows = on
        .database
        .read(
            PLACES,
            &[
                (&agents, Type::BYTEA_ARRAY),
                (&kinds?, Type::INT2_ARRAY),
                (&since, Type::INT8),
                (&name.as_bytes(), Type::BYTEA),
                (&convert::millis(now), Type::INT8),
                (&convert::count(limit), Type::INT8),
            ],
        )
        .await?;
    let mut places = Vec::new();
    for row in rows {
        let since = convert::time(row.try_get(0)?);
        places.push(DueCursor::new(
            since,
            convert::id("session id", row.try_get(1)?)?,
        ));
    }
    places.sort();
    places.dedup();
    // The first ones of all ranges together are the range of all that is due.
    places.truncate(limit);
    let sessions: Vec<SessionId> = places.iter().map(|place| place.session.clone()).collect();
    let headers = match sessions.is_empty() {
        true => BTreeMap::new(),
        false => {
            let read = headers::read(on, &sessions).await?;
            let all = read.headers.into_iter();
            all.map(|(session, header)| (session, Arc::clone(&header)))
                .collect()
        }
    };
    query.page(now, [places], |session| Ok(headers.get(session).cloned()))
}

/// Counts what waits at this instant.
pub(crate) async fn backlog(on: &Inner, now: Timestamp) -> Result<Backlog, OperationError> {
    let mut backlog = Backlog::default();
    let sql = "SELECT count(*), min(created) FROM @pending WHERE is_open";
    let rows = on.database.read(sql, &[]).await?;
    if let Some(row) = rows.first() {
        backlog.pending_calls = convert::unsigned(row.try_get(0)?);
        let oldest: Option<i64> = row.try_get(1)?;
        backlog.oldest_pending = oldest.map(convert::time);
    }
    let counted: Result<Vec<i16>, _> = Backlog::COUNTED.into_iter().map(number).collect();
    let rows = on
        .database
        .read(
            "SELECT kind, count(*) FILTER (WHERE since <= $2), count(*) FILTER (WHERE since > $2) \
             FROM @due WHERE kind = ANY($1) GROUP BY kind",
            &[
                (&counted?, Type::INT2_ARRAY),
                (&convert::millis(now), Type::INT8),
            ],
        )
        .await?;
    for row in rows {
        let stored: i16 = row.try_get(0)?;
        for kind in Backlog::COUNTED {
            if number(kind)? == stored {
                let (due, later) = (row.try_get(1)?, row.try_get(2)?);
                backlog.add_due(kind, convert::unsigned(due), convert::unsigned(later));
            }
        }
    }
    Ok(backlog)
}
