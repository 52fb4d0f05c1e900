//! A batch of chunks as one document: who wrote them is stored once.

use std::sync::Arc;

use helix_agents_core::stored::{Stored, decode, encode};
use helix_agents_core::stream::{Chunk, ChunkOrigin, ChunkPayload, Sequence, StoredChunk};
use helix_agents_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};

/// The most chunks of a batch.
const CHUNKS: usize = 512;

/// Some chunks of a stream.
#[derive(Debug, Serialize, Deserialize)]
struct Batch {
    origins: Vec<Arc<ChunkOrigin>>,
    /// Each with the place of its origin.
    chunks: Vec<(usize, Timestamp, ChunkPayload)>,
    /// Their sequences, where they do not simply count up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sequences: Vec<Sequence>,
}

impl Stored for Batch {
    const KIND: &'static str = "redis_batch";
    const VERSION: u32 = 1;
}

impl Batch {
    fn of(chunks: &[Chunk], sequences: Vec<Sequence>) -> Self {
        let mut origins: Vec<Arc<ChunkOrigin>> = Vec::new();
        let mut place = |origin: &Arc<ChunkOrigin>| {
            let known = origins.iter().position(|known| known == origin);
            known.unwrap_or_else(|| {
                origins.push(Arc::clone(origin));
                origins.len() - 1
            })
        };
        let chunks = chunks
            .iter()
            .map(|chunk| (place(&chunk.base), chunk.timestamp, chunk.payload.clone()))
            .collect();
        Self {
            origins,
            chunks,
            sequences,
        }
    }
}

/// Packs chunks that follow each other.
pub(crate) fn pack(chunks: &[Chunk]) -> Result<String> {
    Ok(encode(&Batch::of(chunks, Vec::new()))?)
}

/// Packs what is left of a batch.
pub(crate) fn pack_rest(rest: Vec<StoredChunk>) -> Result<String> {
    let (sequences, chunks): (Vec<_>, Vec<_>) = rest
        .into_iter()
        .map(|stored| (stored.sequence, stored.chunk))
        .unzip();
    Ok(encode(&Batch::of(&chunks, sequences))?)
}

/// Unpacks a batch whose first chunk had this sequence.
pub(crate) fn unpack(text: &str, first: u64) -> Result<Vec<StoredChunk>> {
    let batch: Batch = decode(text)?;
    let mut sequences = batch.sequences.into_iter();
    let mut next = first;
    let chunks = batch.chunks.into_iter().map(|(origin, at, payload)| {
        let sequence = sequences.next().unwrap_or(Sequence(next));
        next += 1;
        let base = batch.origins.get(origin);
        let base = base.ok_or_else(|| Failure::corrupt("batch", "an origin is missing"))?;
        Ok(StoredChunk::new(
            sequence,
            Chunk::new(Arc::clone(base), at, payload),
        ))
    });
    chunks.collect()
}

/// Divides chunks into batches, so that removals nearly always remove whole batches: those of one session, and those
/// of which the messages have the content, are apart from others.
pub(crate) fn divided(chunks: &[Chunk]) -> Vec<&[Chunk]> {
    let class = |chunk: &Chunk| chunk.payload.is_in_messages();
    let alike =
        |a: &Chunk, b: &Chunk| class(a) == class(b) && a.base.session_id == b.base.session_id;
    let groups = chunks.chunk_by(alike);
    groups.flat_map(|group| group.chunks(CHUNKS)).collect()
}
