//! [`Outbox`]: what commits leave for streams that are stored elsewhere.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use helix_agents_core::SessionId;
use helix_agents_core::store::{Plan, StoreError};
use helix_agents_core::stored::StoredError;
use helix_agents_core::stream::{Incarnation, Outbox, OutboxEntry, OutboxPosition};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_postgres::types::Type;

use crate::convert;
use crate::database::Database;
use crate::headers::ReadHeaders;
use crate::operation_error::OperationError;
use crate::ops::{self, Op};
use crate::outbox_reads::{self, Question};
use crate::outbox_removals::Removals;
use crate::store::{Inner, PostgresStore};

/// The entry that a commit leaves, if it leaves one. Its incarnation and the number of the one before are columns,
/// which the database knows.
pub(crate) fn entry(
    on: &Inner,
    root: &SessionId,
    read: &ReadHeaders,
    plan: &Plan,
) -> Option<OutboxEntry> {
    let unknown = Incarnation::default();
    let of = || OutboxEntry::of(plan, &read.headers, root, unknown);
    on.config.outbox.then(of).flatten()
}

/// The operation that leaves an entry.
pub(crate) fn leave(
    entry: &OutboxEntry,
    new_key: Option<i64>,
    is_gone: bool,
) -> Result<Op, StoredError> {
    Ok(Op {
        kind: ops::LEAVE,
        key: new_key.unwrap_or_default(),
        m: i64::from(is_gone),
        data: Some(convert::document(entry)?),
        ..Op::default()
    })
}

/// The way to the tasks that read the outbox and remove what was relayed.
#[derive(Debug)]
pub(crate) struct OutboxQueues {
    questions: UnboundedSender<Question>,
    removals: Arc<Removals>,
}

impl OutboxQueues {
    /// Returns them with the two tasks.
    pub(crate) fn new(
        database: &Arc<Database>,
    ) -> (
        Self,
        impl Future<Output = ()> + use<>,
        impl Future<Output = ()> + use<>,
    ) {
        let (questions, asked) = unbounded_channel();
        let removals = Arc::new(Removals::default());
        let reading = outbox_reads::answer(Arc::clone(database), asked);
        let removing = Arc::clone(&removals).work(Arc::clone(database));
        let queues = Self {
            questions,
            removals,
        };
        (queues, reading, removing)
    }
}

impl Inner {
    fn queues(&self) -> Result<&OutboxQueues, OperationError> {
        let reason = "the store was opened without an outbox; open it with `with_outbox`";
        let queues = self.outbox.as_ref();
        queues.ok_or_else(|| OperationError::internal(reason))
    }
}

#[async_trait]
impl Outbox for PostgresStore {
    async fn entries(
        &self,
        root: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, OutboxEntry)>, StoreError> {
        let root = root.clone();
        let read = self.run(async move |on| {
            let queues = on.queues()?;
            // What was relayed may still be there.
            let after = after.max(queues.removals.relayed(&root));
            let (question, answer) = Question::new(root.clone(), after, limit);
            let alone = question.wanted.clone();
            if queues.questions.send(question).is_ok()
                && let Ok(entries) = answer.await
            {
                return Ok(entries);
            }
            // The shared read failed: this one tells why.
            let found = outbox_reads::read(&on.database, &[&alone]).await?;
            Ok(found.into_iter().next().unwrap_or_default())
        });
        Ok(read.await?)
    }

    /// They are removed a little later, those of several roots at once.
    async fn relayed(&self, root: &SessionId, up_to: u64) -> Result<(), StoreError> {
        let root = root.clone();
        let noted = self.run(async move |on| {
            on.queues()?.removals.add(root, up_to);
            Ok(())
        });
        Ok(noted.await?)
    }

    async fn waiting(&self, limit: usize) -> Result<Vec<SessionId>, StoreError> {
        let waiting = self.run(async move |on| {
            on.queues()?.removals.remove(&on.database).await?;
            // From one root to the next in the index: the work is that for the roots, however many entries they have.
            let sql = "WITH RECURSIVE first AS ( \
                   (SELECT root, n FROM @outbox ORDER BY root, n LIMIT 1) \
                 UNION ALL \
                   SELECT next.root, next.n FROM first CROSS JOIN LATERAL ( \
                     SELECT root, n FROM @outbox WHERE root > first.root ORDER BY root, n LIMIT 1) next \
                 ) SELECT root FROM first ORDER BY n LIMIT $1";
            let limit = convert::count(limit);
            let rows = on.database.read(sql, &[(&limit, Type::INT8)]).await?;
            let roots = rows.iter().map(|row| {
                let name: &[u8] = row.try_get(0)?;
                Ok(convert::id("session id", name)?)
            });
            roots.collect::<Result<_, OperationError>>()
        });
        Ok(waiting.await?)
    }

    async fn head(&self, root: &SessionId) -> Result<Option<OutboxPosition>, StoreError> {
        let root = root.clone();
        let head = self.run(async move |on| {
            let name = root.as_str().as_bytes();
            let sql = "SELECT stream, last FROM @outbox_head WHERE root = $1";
            let rows = on.database.read(sql, &[(&name, Type::BYTEA)]).await?;
            let Some(row) = rows.first() else {
                return Ok(None);
            };
            Ok(Some(OutboxPosition {
                incarnation: Incarnation(convert::unsigned(row.try_get(0)?)),
                number: convert::unsigned(row.try_get(1)?),
            }))
        });
        Ok(head.await?)
    }
}
