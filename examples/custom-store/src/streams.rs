//! `StreamManager`: the stream of a root, stored in its document.

use async_trait::async_trait;
use helix_agents::core::SessionId;
use helix_agents::core::store::{Fence, Plan, StoreError};
use helix_agents::core::stream::{
    Chunk, Incarnation, Sequence, StoredChunk, StreamError, StreamInfo, StreamLimits,
    StreamManager, StreamStatus, StreamWriter,
};
use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::store::{JsonStore, Transaction};

/// The largest chunk of a stream, in bytes.
pub(crate) const MAX_CHUNK_BYTES: usize = 1024 * 1024;

type Result<T, E = StreamError> = std::result::Result<T, E>;

/// A stream, as the document of its root holds it.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Stream {
    /// The session's fence when the stream began. One that is made again under the id of a deleted
    /// session begins above its fence, so no stream of that name has this number again.
    began: Fence,
    status: StreamStatus,
    last: Sequence,
    trimmed: Sequence,
    #[serde(default)]
    condensed: Sequence,
    chunks: Vec<StreamEntry>,
}

#[derive(Serialize, Deserialize)]
struct StreamEntry {
    is_delta: bool,
    stored: StoredChunk,
}

impl Stream {
    fn append(&mut self, chunks: Vec<Chunk>, is_delta: bool) -> Sequence {
        for chunk in chunks {
            self.last = self.last.next();
            let stored = StoredChunk::new(self.last, chunk);
            self.chunks.push(StreamEntry { is_delta, stored });
        }
        self.last
    }
}

impl Document {
    /// The stream, which is created if there is none.
    fn stream(&mut self) -> &mut Stream {
        let began = self.header.as_ref().map(|header| header.fence);
        self.stream.get_or_insert_with(|| Stream {
            began: began.unwrap_or_default(),
            ..Stream::default()
        })
    }

    /// Removes the chunks that a commit rewinds, appends those of the commit and sets the status.
    pub(crate) fn commit_chunks(&mut self, plan: &mut Plan) -> Sequence {
        let (chunks, status) = (std::mem::take(&mut plan.chunks), plan.stream);
        if chunks.is_empty() && status.is_none() && plan.rewind.is_none() {
            return self
                .stream
                .as_ref()
                .map_or(Sequence::START, |stream| stream.last);
        }
        let stream = self.stream();
        if let Some(rewind) = &plan.rewind {
            stream.chunks.retain(|entry| rewind.keeps(&entry.stored));
        }
        stream.status = status.unwrap_or(stream.status);
        stream.append(chunks, false)
    }
}

/// Opens the stream of a writer, or refuses a writer that may not write to it.
fn admit<'a>(
    transaction: &'a mut Transaction<'_>,
    writer: &StreamWriter,
) -> Result<&'a mut Stream> {
    let session = transaction.open(&writer.session)?.header.clone();
    let root = transaction.open(&writer.root)?;
    writer.admit(session.as_deref(), root.header.as_deref())?;
    Ok(root.stream())
}

#[async_trait]
impl StreamManager for JsonStore {
    fn limits(&self) -> StreamLimits {
        StreamLimits::new(MAX_CHUNK_BYTES)
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
            stream.chunks.retain(|StreamEntry { is_delta, stored }| {
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
        let stream = self.document(root.as_root())?.stream.unwrap_or_default();
        let chunks = stream.chunks.into_iter().map(|entry| entry.stored);
        Ok(chunks
            .filter(|stored| stored.sequence > after)
            .take(limit)
            .collect())
    }

    async fn info(&self, root: &SessionId) -> Result<Option<StreamInfo>> {
        let stream = self.document(root.as_root())?.stream;
        Ok(stream.map(|stream| {
            let incarnation = Incarnation(stream.began.0);
            StreamInfo {
                incarnation,
                status: stream.status,
                last: stream.last,
                trimmed: stream.trimmed,
                condensed: stream.condensed,
            }
        }))
    }

    async fn changed(&self, root: &SessionId, known: Option<StreamInfo>) -> Result<()> {
        loop {
            let heard = self.changed.heard();
            if StreamInfo::differs(self.info(root).await?, known) {
                return Ok(());
            }
            heard.await;
        }
    }

    async fn condense(&self, root: &SessionId, up_to: Sequence) -> Result<()> {
        self.transact(|transaction| {
            let Some(stream) = &mut transaction.open(root)?.stream else {
                let session = root.clone();
                return Err(StoreError::NotFound { session }.into());
            };
            stream.condensed = stream.condensed.max(up_to.min(stream.last));
            let condensed = stream.condensed;
            stream.chunks.retain(|StreamEntry { stored, .. }| {
                stored.sequence > condensed || !stored.chunk.payload.is_in_messages()
            });
            Ok(())
        })
    }

    async fn trim(&self, root: &SessionId, up_to: Sequence) -> Result<()> {
        self.transact(|transaction| {
            let Some(stream) = &mut transaction.open(root)?.stream else {
                let session = root.clone();
                return Err(StoreError::NotFound { session }.into());
            };
            stream.trimmed = stream.trimmed.max(up_to.min(stream.last));
            let trimmed = stream.trimmed;
            stream
                .chunks
                .retain(|entry| entry.stored.sequence > trimmed);
            Ok(())
        })
    }
}
