//! [`StreamManager`] and [`Retention`] for the store.

use async_trait::async_trait;
use helix_agents_core::SessionId;
use helix_agents_core::stream::{
    Chunk, Retention, Sequence, StoredChunk, StreamError, StreamInfo, StreamLimits, StreamManager,
    StreamWriter,
};
use helix_agents_core::time::Timestamp;
use rusqlite::Connection;

use crate::change_notifier::SessionHash;
use crate::store::SqliteStore;
use crate::streams;
use crate::write_connection::WriteConnection;

/// The limits of every stream.
pub(crate) fn limits() -> StreamLimits {
    StreamLimits::default()
}

#[async_trait]
impl Retention for SqliteStore {
    /// The window is that of [`SqliteConfig::keep_chunks`](crate::SqliteConfig::keep_chunks).
    async fn remove_old_chunks(&self, _: Timestamp, limit: usize) -> Result<usize, StreamError> {
        let Some(window) = self.config().keep_chunks else {
            return Ok(0);
        };
        let now = self.config().now();
        let work = move |db: &WriteConnection, _| streams::trim_ended(db, now, window, limit);
        Ok(self.write(None, Vec::new(), work).await?)
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
        let listener = self.listen(root);
        loop {
            let changed = listener.changed();
            let now = self.info(root).await?;
            if StreamInfo::differs(now, known) {
                return Ok(());
            }
            changed.await;
        }
    }

    async fn trim(&self, root: &SessionId, up_to: Sequence) -> Result<(), StreamError> {
        let name = root.clone();
        let work = move |db: &WriteConnection, _| streams::trim(db, &name, up_to);
        Ok(self.write(Some(root), Vec::new(), work).await?)
    }
}
