//! Formatting of server-sent event frames.

use std::fmt::Write as _;

use axum::body::Bytes;
use helix_agents_core::stream::{Incarnation, Sequence, StoredChunk};
use serde::Serialize;

/// The comment that keeps an idle stream open.
pub(super) const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// Frames that are sent together.
#[derive(Debug, Default)]
pub(super) struct Frames {
    text: String,
    chunks: u64,
}

impl Frames {
    /// Adds the frame of a chunk.
    pub(super) fn chunk(&mut self, stored: &StoredChunk) -> Result<(), serde_json::Error> {
        // Compact JSON has no line breaks, so it fits one `data:` line.
        let data = serde_json::to_string(&stored.chunk)?;
        let sequence = stored.sequence;
        // Writing to a string cannot fail.
        let _ = write!(self.text, "id: {sequence}\ndata: {data}\n\n");
        self.chunks += 1;
        Ok(())
    }

    /// Adds a frame that says that chunks up to this one are no longer kept.
    pub(super) fn trimmed(&mut self, up_to: Sequence) {
        let data = format!("{{\"upTo\":{up_to}}}");
        let _ = write!(self.text, "id: {up_to}\nevent: trimmed\ndata: {data}\n\n");
    }

    /// Adds a frame that says that the stream was deleted; another may have its name.
    pub(super) fn gone(&mut self, now: Option<Incarnation>) {
        let data = match now {
            Some(now) => format!("{{\"streamIncarnation\":{now}}}"),
            None => "{}".to_owned(),
        };
        let _ = write!(self.text, "event: gone\ndata: {data}\n\n");
    }

    /// Adds the last frame, with the outcome.
    pub(super) fn end(&mut self, outcome: &impl Serialize) -> Result<(), serde_json::Error> {
        let data = serde_json::to_string(outcome)?;
        let _ = write!(self.text, "event: end\ndata: {data}\n\n");
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the number of chunks and the bytes, and clears them.
    pub(super) fn take(&mut self) -> (u64, Bytes) {
        let Self { text, chunks } = std::mem::take(self);
        (chunks, Bytes::from(text))
    }
}
