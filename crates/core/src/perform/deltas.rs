//! Deltas on their way to the stream.

use std::sync::Arc;
use std::time::Duration;

use super::work::{base, writer};
use super::{PerformError, Ports};
use crate::machine::At;
use crate::stream::{Chunk, ChunkBase, ChunkPayload, Sequence};
use crate::time::Timestamp;

/// How long a delta waits for others, so that a stored row is a batch.
pub(super) const WINDOW: Duration = Duration::from_millis(5);

/// The deltas of one effect.
///
/// They are written in batches while the effect goes on. What is left when its commit is made goes
/// with the commit, so a quick reply costs no write of its own.
pub(super) struct Deltas<'a> {
    at: &'a At,
    ports: &'a Ports,
    base: Arc<ChunkBase>,
    waiting: Vec<Chunk>,
    since: Option<Timestamp>,
    /// The end of the stream before the first batch.
    before: Option<Sequence>,
    /// Whether one of those that wait is too large for a chunk of its own.
    held: bool,
}

impl<'a> Deltas<'a> {
    pub(super) fn new(at: &'a At, ports: &'a Ports) -> Self {
        Self {
            at,
            ports,
            base: base(at),
            waiting: Vec::new(),
            since: None,
            before: None,
            held: false,
        }
    }

    pub(super) fn base(&self) -> &Arc<ChunkBase> {
        &self.base
    }

    /// Adds a delta; one that is too large for a chunk becomes several.
    pub(super) fn push(&mut self, payload: ChunkPayload) {
        let now = self.ports.clock.now();
        self.since.get_or_insert(now);
        // Escaping makes a text at most six times as long.
        let piece = self.ports.streams.limits().max_chunk_bytes / 8;
        for payload in split(payload, piece.max(64)) {
            let chunk = Chunk::new(Arc::clone(&self.base), now, payload);
            self.waiting.push(chunk);
        }
    }

    /// When what waits is written.
    pub(super) fn due(&self) -> Option<Timestamp> {
        let since = self.since.filter(|_| !self.held)?;
        Some(since.saturating_add(WINDOW))
    }

    /// Writes what waits. One that is too large, which a piece of a reply never is, goes with the
    /// commit, and so does what comes after it.
    pub(super) async fn flush(&mut self) -> Result<(), PerformError> {
        self.since = None;
        if self.held {
            return Ok(());
        }
        let limits = self.ports.streams.limits();
        let mut chunks = std::mem::take(&mut self.waiting);
        let is_too_large = |chunk: &Chunk| limits.check(std::slice::from_ref(chunk)).is_err();
        if let Some(first) = chunks.iter().position(is_too_large) {
            self.waiting = chunks.split_off(first);
            self.held = true;
        }
        if chunks.is_empty() {
            return Ok(());
        }
        let count = u64::try_from(chunks.len()).unwrap_or(0);
        let streams = &self.ports.streams;
        let last = streams.append_deltas(&writer(self.at), chunks).await?;
        let before = Sequence(last.0.saturating_sub(count));
        self.before.get_or_insert(before);
        Ok(())
    }

    /// What waits, for the commit.
    pub(super) fn take(&mut self) -> Vec<Chunk> {
        self.since = None;
        self.held = false;
        std::mem::take(&mut self.waiting)
    }

    /// A place in the stream before everything this effect wrote.
    pub(super) fn before(&self) -> Option<Sequence> {
        self.before
    }

    /// Throws everything away, also what readers saw.
    pub(super) async fn discard(&mut self, reason: &str) -> Result<(), PerformError> {
        self.take();
        let Some(before) = self.before.take() else {
            return Ok(());
        };
        discard(self.at, self.ports, &self.base, before, reason).await
    }
}

async fn discard(
    at: &At,
    ports: &Ports,
    base: &Arc<ChunkBase>,
    after: Sequence,
    reason: &str,
) -> Result<(), PerformError> {
    let reason = reason.to_owned();
    let say = ChunkPayload::StepDiscarded { reason };
    let say = Chunk::new(Arc::clone(base), ports.clock.now(), say);
    ports
        .streams
        .discard_deltas(&writer(at), after, say)
        .await?;
    Ok(())
}

/// Throws away what a process that is gone had streamed of a reply that it never committed.
pub(super) async fn discard_orphans(
    at: &At,
    ports: &Ports,
    run_start: Sequence,
) -> Result<(), PerformError> {
    const PAGE: usize = 512;
    let mut cursor = run_start;
    let mut committed = run_start;
    let mut orphaned = false;
    loop {
        let page = ports
            .streams
            .read(&at.root_session_id, cursor, PAGE)
            .await?;
        for stored in &page {
            cursor = stored.sequence;
            if stored.chunk.base.session_id != at.session_id {
                continue;
            }
            match &stored.chunk.payload {
                payload if payload.is_delta() => orphaned = true,
                // It stands after what the process before left behind.
                ChunkPayload::ExecutorSuperseded {} => {}
                _ => {
                    committed = stored.sequence;
                    orphaned = false;
                }
            }
        }
        if page.len() < PAGE {
            break;
        }
    }
    if !orphaned {
        return Ok(());
    }
    let reason = "the process that streamed it is gone";
    discard(at, ports, &base(at), committed, reason).await
}

fn split(payload: ChunkPayload, piece: usize) -> Vec<ChunkPayload> {
    match payload {
        ChunkPayload::TextDelta { delta } if delta.len() > piece => pieces(&delta, piece)
            .map(|delta| ChunkPayload::TextDelta { delta })
            .collect(),
        ChunkPayload::Thinking {
            content,
            is_complete,
        } if content.len() > piece => pieces(&content, piece)
            .map(|content| ChunkPayload::Thinking {
                content,
                is_complete,
            })
            .collect(),
        ChunkPayload::ToolArgStreamDelta {
            tool_call_id,
            delta,
        } if delta.len() > piece => pieces(&delta, piece)
            .map(|delta| ChunkPayload::ToolArgStreamDelta {
                tool_call_id: tool_call_id.clone(),
                delta,
            })
            .collect(),
        small => vec![small],
    }
}

/// A text in pieces of at most so many bytes.
fn pieces(text: &str, size: usize) -> impl Iterator<Item = String> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = (0..=size.min(rest.len()))
            .rev()
            .find(|at| rest.is_char_boundary(*at))
            .filter(|end| *end > 0)
            .unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_delta_is_split_between_characters() {
        let text = "äöü€x".repeat(100);
        let all: Vec<_> = pieces(&text, 64).collect();
        assert!(all.iter().all(|piece| piece.len() <= 64));
        assert_eq!(all.concat(), text);
    }
}
