//! [`StreamManager`] and [`Retention`] for the store.

use async_trait::async_trait;
use helix_agents_core::SessionId;
use helix_agents_core::store::StoreError;
use helix_agents_core::stream::{
    Chunk, Retention, Sequence, StoredChunk, StreamError, StreamInfo, StreamLimits, StreamManager,
    StreamWriter,
};
use helix_agents_core::time::Timestamp;
use tokio_postgres::types::Type;

use crate::convert;
use crate::listeners::{Subject, Topic};
use crate::store::PostgresStore;
use crate::{stream_removals, streams};

#[async_trait]
impl StreamManager for PostgresStore {
    fn limits(&self) -> StreamLimits {
        self.config().limits
    }

    async fn append_deltas(
        &self,
        writer: &StreamWriter,
        chunks: Vec<Chunk>,
    ) -> Result<Sequence, StreamError> {
        self.limits().check(&chunks)?;
        let writer = writer.clone();
        let appended = self.run(async move |on| {
            let last = streams::append_deltas(&on, &writer, &chunks).await?;
            on.tell(vec![Topic::new(Subject::Stream, &writer.root)]);
            Ok(last)
        });
        Ok(appended.await?)
    }

    async fn discard_deltas(
        &self,
        writer: &StreamWriter,
        after: Sequence,
        say: Chunk,
    ) -> Result<Sequence, StreamError> {
        let writer = writer.clone();
        let discarded = self.run(async move |on| {
            let last = stream_removals::discard_deltas(&on, &writer, after, &say).await?;
            on.tell(vec![Topic::new(Subject::Stream, &writer.root)]);
            Ok(last)
        });
        Ok(discarded.await?)
    }

    async fn read(
        &self,
        root: &SessionId,
        after: Sequence,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StreamError> {
        let root = root.clone();
        let read = self.run(async move |on| streams::read(&on, &root, after, limit).await);
        Ok(read.await?)
    }

    async fn info(&self, root: &SessionId) -> Result<Option<StreamInfo>, StreamError> {
        let root = root.clone();
        let info = self.run(async move |on| streams::info(&on, &root).await);
        Ok(info.await?)
    }

    async fn changed(
        &self,
        root: &SessionId,
        known: Option<StreamInfo>,
    ) -> Result<(), StreamError> {
        let listener = self.listen(Subject::Stream, root);
        loop {
            let changed = listener.changed();
            let now = self.info(root).await?;
            if StreamInfo::differs(now, known) {
                return Ok(());
            }
            changed.await;
        }
    }

    async fn condense(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        let root = root.clone();
        let condensed =
            self.run(async move |on| stream_removals::condense(&on, &root, up_to).await);
        Ok(condensed.await?)
    }

    async fn trim(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        let root = root.clone();
        let trimmed = self.run(async move |on| stream_removals::trim(&on, &root, up_to).await);
        Ok(trimmed.await?)
    }
}

/// A turn that has ended and still has its deltas: when, in which stream, its end, and the root if there is one.
type EndedTurn = (i64, i64, i64, Option<SessionId>);

impl PostgresStore {
    /// Lists turns that ended at this instant or before, the oldest first.
    async fn ended_turns(
        &self,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<EndedTurn>, StreamError> {
        let listed = self.run(async move |on| {
            let (until, limit) = (convert::millis(until), convert::count(limit));
            let rows = on
                .database
                .read(
                    "SELECT e.ended, e.stream, e.up_to, s.name FROM @ended_turn e \
                     LEFT JOIN @session s ON s.key = e.stream \
                     WHERE e.ended <= $1 ORDER BY e.ended, e.stream, e.up_to LIMIT $2",
                    &[(&until, Type::INT8), (&limit, Type::INT8)],
                )
                .await?;
            let mut turns = Vec::new();
            for row in rows {
                let root: Option<&[u8]> = row.try_get(3)?;
                let root = root.map(|root| convert::id("session id", root));
                turns.push((
                    row.try_get(0)?,
                    row.try_get(1)?,
                    row.try_get(2)?,
                    root.transpose()?,
                ));
            }
            Ok(turns)
        });
        Ok(listed.await?)
    }
}

#[async_trait]
impl Retention for PostgresStore {
    /// The window is that of [`PostgresConfig::keep_deltas`](crate::PostgresConfig::keep_deltas).
    async fn condense_old_turns(&self, _: Timestamp, limit: usize) -> Result<usize, StreamError> {
        let Some(window) = self.config().keep_deltas else {
            return Ok(0);
        };
        let now = self.run(async move |on| on.now().await).await?;
        let turns = self.ended_turns(now.saturating_sub(window), limit).await?;
        let count = turns.len();
        for (ended, stream, up_to, root) in turns {
            if let Some(root) = root {
                let condensed = self.condense(&root, Sequence(convert::unsigned(up_to)));
                match condensed.await {
                    // It was deleted meanwhile.
                    Err(StreamError::Store(StoreError::NotFound { .. })) => {}
                    done => done?,
                }
            }
            let forgotten = self.run(async move |on| {
                let sql = "DELETE FROM @ended_turn WHERE ended = $1 AND stream = $2 AND up_to = $3";
                let params = [
                    (&ended as _, Type::INT8),
                    (&stream as _, Type::INT8),
                    (&up_to as _, Type::INT8),
                ];
                on.database.write(sql, &params).await.map(drop)
            });
            forgotten.await?;
        }
        Ok(count)
    }
}
