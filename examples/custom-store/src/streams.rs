//! The stream of a root, in its document.

use async_trait::async_trait;
use helix_agents::core::SessionId;
use helix_agents::core::store::StoreError;
use helix_agents::core::stream::{
    Chunk, Sequence, StoredChunk, StreamError, StreamInfo, StreamLimits, StreamManager,
    StreamStatus, StreamWriter,
};
use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::store::{JsonStore, Transaction};

type Result<T, E = StreamError> = std::result::Result<T, E>;

/// A stream.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Stream {
    status: StreamStatus,
    last: Sequence,
    trimmed: Sequence,
    chunks: Vec<Said>,
}

#[derive(Serialize, Deserialize)]
struct Said {
    is_delta: bool,
    stored: StoredChunk,
}

impl Stream {
    fn append(&mut self, chunks: Vec<Chunk>, is_delta: bool) -> Sequence {
        for chunk in chunks {
            self.last = self.last.next();
            let stored = StoredChunk::new(self.last, chunk);
            self.chunks.push(Said { is_delta, stored });
        }
        self.last
    }
}

impl Document {
    /// Appends the chunks of a commit and sets the status.
    pub(crate) fn say(&mut self, chunks: Vec<Chunk>, status: Option<StreamStatus>) -> Sequence {
        if chunks.is_empty() && status.is_none() {
            return self
                .stream
                .as_ref()
                .map_or(Sequence::START, |stream| stream.last);
        }
        let stream = self.stream.get_or_insert_default();
        stream.status = status.unwrap_or(stream.status);
        stream.append(chunks, false)
    }
}

/// The stream of a writer that was not superseded.
fn admit<'a>(
    transaction: &'a mut Transaction<'_>,
    writer: &StreamWriter,
) -> Result<&'a mut Stream> {
    let session = writer.session.clone();
    let Some(header) = &transaction.open(&session)?.header else {
        return Err(StoreError::NotFound { session }.into());
    };
    header.admit(writer)?;
    let root = transaction.open(&writer.root)?;
    Ok(root.stream.get_or_insert_default())
}

#[async_trait]
impl StreamManager for JsonStore {
    fn limits(&self) -> StreamLimits {
        StreamLimits::new(1024 * 1024)
    }

    async fn append_deltas(&self, writer: &StreamWriter, chunks: Vec<Chunk>) -> Result<Sequence> {
        self.limits().check(&chunks)?;
        self.transact(|transaction| Ok(admit(transaction, writer)?.append(chunks, true)))
    }

    async fn discard_deltas(
        &self,
        writer: &StreamWriter,
        after: Sequence,
        say: Chunk,
    ) -> Result<Sequence> {
        self.transact(|transaction| {
            let stream = admit(transaction, writer)?;
            stream.chunks.retain(|Said { is_delta, stored }| {
                let is_own = stored.chunk.base.session_id == writer.session;
                !is_delta || !is_own || stored.sequence <= after
            });
            Ok(stream.append(vec![say], false))
        })
    }

    async fn read(
        &self,
        root: &SessionId,
        after: Sequence,
        limit: usize,
    ) -> Result<Vec<StoredChunk>> {
        let stream = self.document(root)?.stream.unwrap_or_default();
        let chunks = stream.chunks.into_iter().map(|said| said.stored);
        Ok(chunks
            .filter(|stored| stored.sequence > after)
            .take(limit)
            .collect())
    }

    async fn info(&self, root: &SessionId) -> Result<Option<StreamInfo>> {
        let stream = self.document(root)?.stream;
        Ok(stream.map(|stream| StreamInfo::new(stream.status, stream.last, stream.trimmed)))
    }

    async fn changed(&self, root: &SessionId, after: Sequence, status: StreamStatus) -> Result<()> {
        loop {
            let heard = self.bell.heard();
            if StreamInfo::differs(self.info(root).await?, after, status) {
                return Ok(());
            }
            heard.await;
        }
    }

    async fn trim(&self, root: &SessionId, up_to: Sequence) -> Result<()> {
        self.transact(|transaction| {
            let Some(stream) = &mut transaction.open(root)?.stream else {
                let session = root.clone();
                return Err(StoreError::NotFound { session }.into());
            };
            stream.trimmed = stream.trimmed.max(up_to.min(stream.last));
            let trimmed = stream.trimmed;
            stream.chunks.retain(|said| said.stored.sequence > trimmed);
            Ok(())
        })
    }
}
