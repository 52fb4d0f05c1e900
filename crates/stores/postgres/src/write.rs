//! Sends the one conditional write of a commit.

use std::time::Instant;

use helix_agents_core::SessionId;
use helix_agents_core::store::Fence;
use helix_agents_core::stream::Sequence;
use helix_agents_core::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::convert;
use crate::operation_error::OperationError;
use crate::store::Inner;
use crate::write_plan::PreparedCommit;

/// What became of a conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// It is durable. The last sequence of the stream.
    Done(Sequence),
    /// Nothing was written: a header is not the one that was judged.
    Conflict,
}

const COMMIT: &str = "SELECT @commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, \
     $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33)";

/// Writes a prepared commit if the headers that it was judged on are those of the database.
pub(crate) async fn commit(
    on: &Inner,
    root: &SessionId,
    prepared: &PreparedCommit,
    ended: Option<Timestamp>,
) -> Result<Written, OperationError> {
    let (sessions, ops) = (&prepared.sessions, &prepared.ops);
    let known_floor = prepared.creates.then_some(prepared.floor);
    let known_floor = known_floor.map(|floor| convert::signed(floor.0));
    let raised = prepared
        .plan
        .floor
        .map(|Fence(raised)| convert::signed(raised));
    let stream = prepared.stream.as_ref();
    let key = stream.map(|stream| stream.key);
    let expected = stream.and_then(|stream| stream.expected.map(|expected| expected.to_vec()));
    let status = stream.and_then(|stream| stream.status.clone());
    let added = stream.map_or(0, |stream| stream.added);
    let ended = ended.map(convert::millis);
    let asked = Instant::now();
    let rows = on
        .database
        .write(
            COMMIT,
            &[
                (&sessions.name, Type::BYTEA_ARRAY),
                (&sessions.key, Type::INT8_ARRAY),
                (&sessions.version, Type::INT8_ARRAY),
                (&sessions.act, Type::INT2_ARRAY),
                (&sessions.header, Type::BYTEA_ARRAY),
                (&sessions.next, Type::INT8_ARRAY),
                (&sessions.run, Type::BYTEA_ARRAY),
                (&sessions.stopping, Type::BYTEA_ARRAY),
                (&sessions.step_act, Type::INT2_ARRAY),
                (&sessions.step, Type::BYTEA_ARRAY),
                (&sessions.calls, Type::BYTEA_ARRAY),
                (&sessions.new_key, Type::INT8_ARRAY),
                (&sessions.root, Type::BYTEA_ARRAY),
                (&sessions.agent, Type::BYTEA_ARRAY),
                (&sessions.owner, Type::BYTEA_ARRAY),
                (&sessions.parent, Type::BYTEA_ARRAY),
                (&sessions.status, Type::TEXT_ARRAY),
                (&sessions.created, Type::INT8_ARRAY),
                (&ops.kind, Type::INT2_ARRAY),
                (&ops.key, Type::INT8_ARRAY),
                (&ops.n, Type::INT8_ARRAY),
                (&ops.m, Type::INT8_ARRAY),
                (&ops.id, Type::BYTEA_ARRAY),
                (&ops.sub, Type::BYTEA_ARRAY),
                (&ops.data, Type::BYTEA_ARRAY),
                (&root.as_str().as_bytes(), Type::BYTEA),
                (&key, Type::INT8),
                (&expected, Type::INT8_ARRAY),
                (&status, Type::TEXT),
                (&added, Type::INT8),
                (&ended, Type::INT8),
                (&known_floor, Type::INT8),
                (&raised, Type::INT8),
            ],
        )
        .await;
    match rows {
        Ok(rows) => written(on, asked, &rows),
        Err(error) if error.is_conflict() => Ok(Written::Conflict),
        Err(error) => Err(error),
    }
}

/// Reads the answer of a conditional write.
pub(crate) fn written(on: &Inner, asked: Instant, rows: &[Row]) -> Result<Written, OperationError> {
    let answer: Option<Vec<i64>> = rows.first().map(|row| row.try_get(0)).transpose()?;
    let Some([done, sequence, now]) = answer.as_deref() else {
        return Err(OperationError::internal("a write has no answer"));
    };
    on.clock.measured(asked, *now);
    Ok(match *done {
        1 => Written::Done(Sequence(convert::unsigned(*sequence))),
        _ => Written::Conflict,
    })
}
