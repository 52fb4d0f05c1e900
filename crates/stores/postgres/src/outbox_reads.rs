//! Reads of the outbox, shared by all who ask at the same time.
//!
//! Every batch of deltas asks whether something was left for its root. Questions that come while a statement is under
//! way wait, and the next statement is for all of them: one that was asked before a statement began sees every commit
//! that was made before it was asked. So a process asks the database a bounded number of times, however many runs
//! stream.

use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::stream::{Incarnation, OutboxEntry};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio_postgres::types::Type;

use crate::convert;
use crate::database::Database;
use crate::operation_error::OperationError;

/// The most questions of one statement.
const QUESTIONS: usize = 256;

type Entries = Vec<(u64, OutboxEntry)>;

/// What somebody wants to read.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    root: SessionId,
    after: i64,
    limit: i64,
}

/// Somebody who waits for entries.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) wanted: Wanted,
    answer: oneshot::Sender<Entries>,
}

impl Question {
    pub(crate) fn new(
        root: SessionId,
        after: u64,
        limit: usize,
    ) -> (Self, oneshot::Receiver<Entries>) {
        let (answer, answered) = oneshot::channel();
        let wanted = Wanted {
            root,
            after: convert::signed(after),
            limit: convert::count(limit),
        };
        (Self { wanted, answer }, answered)
    }
}

/// Answers questions until the store is gone. Those of a statement that failed get no answer.
pub(crate) async fn answer(database: Arc<Database>, mut questions: UnboundedReceiver<Question>) {
    while let Some(first) = questions.recv().await {
        let mut asked = vec![first];
        while asked.len() < QUESTIONS
            && let Ok(more) = questions.try_recv()
        {
            asked.push(more);
        }
        let wanted: Vec<_> = asked.iter().map(|question| &question.wanted).collect();
        if let Ok(found) = read(&database, &wanted).await {
            for (question, entries) in asked.into_iter().zip(found) {
                // Who asked may be gone.
                let _ = question.answer.send(entries);
            }
        }
    }
}

/// Reads entries for each of these.
pub(crate) async fn read(
    database: &Database,
    wanted: &[&Wanted],
) -> Result<Vec<Entries>, OperationError> {
    let roots: Vec<&[u8]> = wanted
        .iter()
        .map(|one| one.root.as_str().as_bytes())
        .collect();
    let after: Vec<i64> = wanted.iter().map(|one| one.after).collect();
    let limits: Vec<i64> = wanted.iter().map(|one| one.limit).collect();
    let rows = database
        .read(
            "SELECT w.place, e.n, e.previous, e.stream, e.data \
             FROM unnest($1, $2, $3) WITH ORDINALITY AS w(root, after, most, place) \
             CROSS JOIN LATERAL (SELECT n, previous, stream, data FROM @outbox o \
               WHERE o.root = w.root AND o.n > w.after ORDER BY n LIMIT w.most) e \
             ORDER BY w.place, e.n",
            &[
                (&roots, Type::BYTEA_ARRAY),
                (&after, Type::INT8_ARRAY),
                (&limits, Type::INT8_ARRAY),
            ],
        )
        .await?;
    let mut found = vec![Entries::new(); wanted.len()];
    for row in rows {
        let place: i64 = row.try_get(0)?;
        let mut entry: OutboxEntry = convert::parse(row.try_get(4)?)?;
        let number = convert::unsigned(row.try_get(1)?);
        entry.previous = convert::unsigned(row.try_get(2)?);
        entry.incarnation = Incarnation(convert::unsigned(row.try_get(3)?));
        if let Some(entries) = found.get_mut(convert::size(place - 1)) {
            entries.push((number, entry));
        }
    }
    Ok(found)
}
