//! Looks for changes in regular intervals while somebody waits: one statement for all who do.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::SessionId;
use tokio_postgres::types::Type;

use crate::convert;
use crate::database::Database;
use crate::listeners::{Listeners, Subject};
use crate::operation_error::OperationError;

/// What a poll finds of a session.
type Found = (i64, Option<Vec<u8>>, Option<(i64, String)>);

/// What a listener can tell apart: of a stream, where it ends and how; of stops, which run is asked to stop.
type Mark = (i64, Option<Vec<u8>>, Option<(i64, String)>);

/// Polls until the store is gone.
pub(crate) async fn poll(database: Arc<Database>, listeners: Arc<Listeners>, interval: Duration) {
    let mut before: HashMap<(Subject, SessionId), Option<Mark>> = HashMap::new();
    loop {
        listeners.wait_for_any().await;
        tokio::time::sleep(interval).await;
        let topics = listeners.topics();
        let names: Vec<&[u8]> = topics
            .iter()
            .map(|(_, _, session)| session.as_str().as_bytes())
            .collect();
        let Ok(found) = look(&database, &names).await else {
            continue;
        };
        let mut now = HashMap::new();
        let mut changed = Vec::new();
        for (topic, subject, session) in topics {
            let found = found.get(&session);
            let mark = found.map(|(key, stopping, stream)| match subject {
                Subject::Stream => (*key, None, stream.clone()),
                Subject::Stops => (*key, stopping.clone(), None),
            });
            // What happened before the first look is not known.
            let place = (subject, session);
            if before.get(&place) != Some(&mark) {
                changed.push(topic);
            }
            now.insert(place, mark);
        }
        before = now;
        listeners.ring(changed);
    }
}

async fn look(
    database: &Database,
    names: &[&[u8]],
) -> Result<HashMap<SessionId, Found>, OperationError> {
    let rows = database
        .write(
            "SELECT s.name, s.key, s.stopping, t.last, t.status FROM @session s \
             LEFT JOIN @stream t ON t.key = s.key WHERE s.name = ANY($1)",
            &[(&names, Type::BYTEA_ARRAY)],
        )
        .await?;
    let mut found = HashMap::new();
    for row in rows {
        let session = convert::id("session id", row.try_get(0)?)?;
        let last: Option<i64> = row.try_get(3)?;
        let status: Option<String> = row.try_get(4)?;
        found.insert(
            session,
            (row.try_get(1)?, row.try_get(2)?, last.zip(status)),
        );
    }
    Ok(found)
}
