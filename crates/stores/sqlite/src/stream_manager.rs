//! [`StreamManager`] and [`Retention`] for the store.

use async_trait::async_trait;
use helix_agents_core::SessionId;
use helix_agents_core::store::StoreError;
use helix_agents_core::stream::{
    Chunk, Retention, Sequence, StoredChunk, StreamError, StreamInfo, StreamLimits, StreamManager,
    StreamWriter,
};
use helix_agents_core::time::Timestamp;
use rusqlite::Connection;

use crate::change_notifier::SessionHash;
use crate::condense::{self, Part};
use crate::store::SqliteStore;
use crate::streams;
use crate::write_connection::WriteConnection;

/// The limits of every stream.
pub(crate) fn limits() -> StreamLimits {
    StreamLimits::default()
}

#[async_trait]
impl Retention for SqliteStore {
    /// The window is that of [`SqliteConfig::keep_deltas`](crate::SqliteConfig::keep_deltas).
    async fn condense_old_turns(&self, _: Timestamp, limit: usize) -> Result<usize, StreamError> {
        let Some(window) = self.config().keep_deltas else {
            return Ok(0);
        };
        let until = self.config().now().saturating_sub(window);
        let list = move |conn: &Connection| condense::ended_turns(conn, until, limit);
        let turns = self.read(list).await?;
        let count = turns.len();
        for turn in turns {
            if let Some((root, up_to)) = turn.place()? {
                match self.condense(&root, up_to).await {
                    // It was deleted meanwhile.
                    Err(StreamError::Store(StoreError::NotFound { .. })) => {}
                    done => done?,
                }
            }
            let forget = move |db: &WriteConnection, _| turn.forget(&db.conn);
            self.write(None, Vec::new(), forget).await?;
        }
        Ok(count)
    }
}

#[async_trait]
impl StreamManager for SqliteStore {
    fn limits(&self) -> StreamLimits {
        limits()
    }

    async fn append_deltas(
        &self,
        writer: &StreamWriter,
        chunks: Vec<Chunk>,
    ) -> Result<Sequence, StreamError> {
        self.limits().check(&chunks)?;
        let root = writer.root.clone();
        let writer = writer.clone();
        let work = move |db: &WriteConnection, _| streams::append_deltas(db, &writer, &chunks);
        Ok(self
            .write(Some(&root), vec![SessionHash::of(&root)], work)
            .await?)
    }

    async fn discard_deltas(
        &self,
        writer: &StreamWriter,
        after: Sequence,
        say: Chunk,
    ) -> Result<Sequence, StreamError> {
        let root = writer.root.clone();
        let writer = writer.clone();
        let work = move |db: &WriteConnection, _| streams::discard_deltas(db, &writer, after, &say);
        Ok(self
            .write(Some(&root), vec![SessionHash::of(&root)], work)
            .await?)
    }

    async fn read(
        &self,
        root: &SessionId,
        after: Sequence,
        limit: usize,
    ) -> Result<Vec<StoredChunk>, StreamError> {
        let key = (root.clone(), after, limit);
        let root = root.clone();
        let read = move |conn: &Connection| streams::read(conn, &root, after, limit);
        Ok(self.read_shared(|reads| &reads.chunks, key, read).await?)
    }

    async fn info(&self, root: &SessionId) -> Result<Option<StreamInfo>, StreamError> {
        let key = root.clone();
        let root = root.clone();
        let read = move |conn: &Connection| streams::info(conn, &root);
        Ok(self.read_shared(|reads| &reads.infos, key, read).await?)
    }

    async fn changed(
        &self,
        root: &SessionId,
        known: Option<StreamInfo>,
    ) -> Result<(), StreamError> {
        let listener = self.listen(SessionHash::of(root));
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
        let mut begun = None;
        loop {
            let name = root.clone();
            let work = move |db: &WriteConnection, _| condense::part(db, &name, begun, up_to);
            match self.write(Some(root), Vec::new(), work).await? {
                Part::More(last) => begun = Some(last),
                Part::Done => return Ok(()),
            }
        }
    }

    async fn trim(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        let name = root.clone();
        let work = move |db: &WriteConnection, _| streams::trim(db, &name, up_to);
        Ok(self.write(Some(root), Vec::new(), work).await?)
    }
}
