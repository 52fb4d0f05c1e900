//! Helpers that write and read streams.

use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::stream::{
    Chunk, ChunkPayload, Sequence, StoredChunk, StreamItem, StreamReader, StreamStatus,
    StreamWriter,
};

use super::Subject;
use super::builders::{accepted, commit, created, event, running, text};
use super::runner::in_time;

/// The message of a case whose reader gets nothing in time.
pub(super) const GOES_ON: &str = "a reader must be given what is written";

/// A root with a run, and its writer.
pub(super) async fn streaming(on: &Subject, name: &str) -> (SessionId, StreamWriter) {
    let root = created(on, name).await;
    let (_, fence) = running(on, &root, "run").await;
    let writer = StreamWriter::new(root.clone(), root.clone(), fence);
    (root, writer)
}

/// Appends pieces of text as one batch of deltas.
pub(super) async fn stream(on: &Subject, writer: &StreamWriter, pieces: &[&str]) -> Sequence {
    let deltas = pieces.iter().map(|piece| text(on, &writer.session, piece));
    on.streams
        .append_deltas(writer, deltas.collect())
        .await
        .unwrap()
}

/// Commits one chunk with this name, and returns its sequence.
pub(super) async fn commit_chunk(on: &Subject, root: &SessionId, name: &str) -> Sequence {
    let commit = commit(on, root).say(event(on, root, name));
    accepted(on, commit).await.sequence
}

/// The text or the name in a chunk of these cases.
pub(super) fn word(chunk: &Chunk) -> &str {
    match &chunk.payload {
        ChunkPayload::TextDelta { delta } => delta,
        ChunkPayload::Custom { event_name, .. } => event_name,
        other => panic!("nobody wrote {other:?}"),
    }
}

pub(super) fn words(chunks: &[StoredChunk]) -> Vec<&str> {
    chunks.iter().map(|stored| word(&stored.chunk)).collect()
}

pub(super) fn numbers(chunks: &[StoredChunk]) -> Vec<u64> {
    chunks.iter().map(|stored| stored.sequence.0).collect()
}

/// Writes a turn of so many chunks, most of them deltas, and sets the stream's status with the last.
pub(super) async fn turn(on: &Subject, writer: &StreamWriter, length: usize, status: StreamStatus) {
    let root = &writer.root;
    for index in 1..length {
        let name = format!("{index}");
        if index % 4 == 0 {
            let said = commit(on, root).say(event(on, root, &name));
            accepted(on, said).await;
        } else {
            let delta = vec![text(on, root, &name)];
            on.streams.append_deltas(writer, delta).await.unwrap();
        }
    }
    let last = commit(on, root).say(event(on, root, "last")).stream(status);
    accepted(on, last).await;
}

pub(super) fn reader(on: &Subject, root: &SessionId, after: Sequence) -> StreamReader {
    StreamReader::new(
        Arc::clone(&on.streams),
        Arc::clone(&on.store),
        root.clone(),
        after,
    )
}

pub(super) async fn next(reader: &mut StreamReader) -> Option<StreamItem> {
    in_time(GOES_ON, reader.next()).await.unwrap()
}

/// Reads to the end.
pub(super) async fn rest(reader: &mut StreamReader) -> (Vec<StoredChunk>, StreamStatus) {
    let mut seen = Vec::new();
    loop {
        match next(reader).await {
            Some(StreamItem::Chunk(stored)) => {
                assert_eq!(reader.cursor(), stored.sequence);
                seen.push(stored);
            }
            Some(StreamItem::End(status)) => {
                assert_eq!(next(reader).await, None, "nothing comes after the end");
                return (seen, status);
            }
            other => panic!("a chunk or the end, not {other:?}"),
        }
    }
}
