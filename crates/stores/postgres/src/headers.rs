//! Reads of headers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use helix_agents_core::SessionId;
use helix_agents_core::store::{Fence, Header, Headers, SessionKey};
use helix_agents_core::time::Timestamp;
use tokio_postgres::types::Type;

use crate::convert;
use crate::operation_error::OperationError;
use crate::store::Inner;

/// Headers as of one instant, or as this process remembers them.
#[derive(Debug, Default)]
pub(crate) struct ReadHeaders {
    pub(crate) headers: Headers,
    /// All that were asked for, also those that do not exist.
    pub(crate) named: Vec<SessionId>,
    /// The numbers of the sessions that exist.
    pub(crate) keys: BTreeMap<SessionId, i64>,
    /// The fence at which sessions begin.
    pub(crate) floor: Fence,
    /// The time of the database, if it was read with them.
    pub(crate) now: Option<Timestamp>,
}

/// Reads the headers of sessions, whatever their roots, as of one instant, and the time after the question.
pub(crate) async fn read(
    on: &Inner,
    sessions: &[SessionId],
) -> Result<ReadHeaders, OperationError> {
    let names: Vec<&[u8]> = sessions.iter().map(|one| one.as_str().as_bytes()).collect();
    let asked = Instant::now();
    let rows = on
        .database
        .read(
            "SELECT f.fence, @now_ms(), s.name, s.key, s.header FROM @floor f \
             LEFT JOIN @session s ON s.name = ANY($1)",
            &[(&names, Type::BYTEA_ARRAY)],
        )
        .await?;
    let mut read = ReadHeaders {
        named: sessions.to_vec(),
        ..ReadHeaders::default()
    };
    for row in rows {
        read.floor = Fence(convert::unsigned(row.try_get(0)?));
        let now: i64 = row.try_get(1)?;
        if read.now.is_none() {
            on.clock.measured(asked, now);
            read.now = Some(convert::time(now));
        }
        let Some(name) = row.try_get::<_, Option<&[u8]>>(2)? else {
            continue;
        };
        let session: SessionId = convert::id("session id", name)?;
        let header: Header = convert::parse(row.try_get(4)?)?;
        read.keys.insert(session.clone(), row.try_get(3)?);
        read.headers.insert(session, Arc::new(header));
    }
    on.remembered.floor_is(read.floor);
    Ok(read)
}

/// Reads the header of a session; `None` when it does not exist under this root.
pub(crate) async fn find(
    on: &Inner,
    key: SessionKey<'_>,
) -> Result<Option<Header>, OperationError> {
    let rows = on
        .database
        .read(
            "SELECT header FROM @session WHERE name = $1 AND root IS NOT DISTINCT FROM $2",
            &[(&name(key), Type::BYTEA), (&root(key), Type::BYTEA)],
        )
        .await?;
    let header = rows.first().map(|row| row.try_get(0)).transpose()?;
    Ok(header.map(convert::parse).transpose()?)
}

/// The root of a child; `None` for a root, and for a session that does not exist.
pub(crate) async fn root_of(
    on: &Inner,
    session: &SessionId,
) -> Result<Option<SessionId>, OperationError> {
    let rows = on
        .database
        .read(
            "SELECT root FROM @session WHERE name = $1",
            &[(&session.as_str().as_bytes(), Type::BYTEA)],
        )
        .await?;
    let root: Option<Option<&[u8]>> = rows.first().map(|row| row.try_get(0)).transpose()?;
    let root = root.flatten();
    Ok(root
        .map(|root| convert::id("session id", root))
        .transpose()?)
}

/// The value of the column `name`.
pub(crate) fn name(key: SessionKey<'_>) -> &[u8] {
    key.session.as_str().as_bytes()
}

/// The value of the column `root`: null for a root.
pub(crate) fn root(key: SessionKey<'_>) -> Option<&[u8]> {
    (!key.is_root()).then_some(key.root.as_str().as_bytes())
}
