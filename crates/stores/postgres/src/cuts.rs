//! What a commit that shortens a history has to know about it.

use std::collections::HashMap;

use helix_agents_core::message::Message;
use helix_agents_core::store::{Change, Commit};
use helix_agents_core::{CallId, SessionId};
use tokio_postgres::types::Type;

use crate::convert;
use crate::headers::ReadHeaders;
use crate::operation_error::OperationError;
use crate::store::Inner;

/// For each truncation of a commit: how many messages stay so that no step is split.
///
/// The messages are read after the headers, and the commit is written only if the headers are still the same.
pub(crate) async fn whole_steps(
    on: &Inner,
    commit: &Commit,
    read: &ReadHeaders,
) -> Result<HashMap<(SessionId, usize), usize>, OperationError> {
    let mut kept = HashMap::new();
    for (session, change) in &commit.changes {
        let Change::Truncate(wanted) = change else {
            continue;
        };
        let (Some(key), Some(header)) = (read.keys.get(session), read.headers.get(session)) else {
            continue;
        };
        let wanted_here = (*wanted).min(header.messages);
        let rows = on
            .database
            .read(
                "SELECT at, count FROM @message WHERE session = $1 AND at < $2 \
                 ORDER BY at DESC LIMIT 1",
                &[
                    (key, Type::INT8),
                    (&convert::count(wanted_here), Type::INT8),
                ],
            )
            .await?;
        // The last row that begins before the cut ends at it, or is a step that would be split.
        let whole = match rows.first() {
            Some(row) => {
                let (at, count): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
                match convert::size(at + count) > wanted_here {
                    true => convert::size(at),
                    false => wanted_here,
                }
            }
            None => wanted_here,
        };
        kept.insert((session.clone(), *wanted), whole);
    }
    Ok(kept)
}

/// The ids of the calls in the messages from a position on.
pub(crate) async fn calls_from(
    on: &Inner,
    session: i64,
    position: usize,
) -> Result<Vec<CallId>, OperationError> {
    let rows = on
        .database
        .read(
            "SELECT data FROM @message WHERE session = $1 AND at >= $2",
            &[
                (&session, Type::INT8),
                (&convert::count(position), Type::INT8),
            ],
        )
        .await?;
    let mut calls = Vec::new();
    for row in rows {
        let messages: Vec<Message> = convert::parse_lines(row.try_get(0)?)?;
        calls.extend(call_ids(&messages));
    }
    Ok(calls)
}

/// The ids of the calls in these messages.
pub(crate) fn call_ids(messages: &[Message]) -> impl Iterator<Item = CallId> + '_ {
    let said = messages.iter().filter_map(|message| match message {
        Message::Assistant(said) => Some(said),
        _ => None,
    });
    said.flat_map(|said| said.tool_calls().map(|call| call.id.clone()))
}
