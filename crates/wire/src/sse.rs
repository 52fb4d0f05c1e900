//! The frames of a UI message stream.

use std::fmt::Write as _;

use helix_agents_core::stream::Sequence;

use crate::UiChunk;

/// The header by which clients recognise a UI message stream. Its value is `v1`.
pub const AI_SDK_UI_HEADER: &str = "x-vercel-ai-ui-message-stream";

/// The headers of a response with a UI message stream.
pub const SSE_HEADERS: [(&str, &str); 4] = [
    ("content-type", "text/event-stream"),
    ("cache-control", "no-cache"),
    (AI_SDK_UI_HEADER, "v1"),
    ("x-accel-buffering", "no"),
];

/// Writes chunks as server-sent events.
///
/// A chunk of ours may become several of the AI SDK's. The `id:` line stands on the last of them, so that a reader
/// that comes back with it has them all.
///
/// ```
/// use helix_agents_wire::{SseWriter, UiChunk};
///
/// let mut writer = SseWriter::default();
/// let chunks = [UiChunk::StartStep {}, UiChunk::FinishStep {}];
/// writer.chunks(&chunks, Some(7.into()))?;
/// writer.done();
/// let text = writer.take();
/// assert!(text.contains("id: 7\ndata: {\"type\":\"finish-step\"}\n\n"));
/// assert!(text.ends_with("data: [DONE]\n\n"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct SseWriter {
    text: String,
}

impl SseWriter {
    /// Adds the frames of chunks that one position of the stream gave.
    ///
    /// # Errors
    /// If a chunk cannot be written as JSON.
    pub fn chunks(
        &mut self,
        chunks: &[UiChunk],
        sequence: Option<Sequence>,
    ) -> Result<(), serde_json::Error> {
        let mut left = chunks.len();
        for chunk in chunks {
            left -= 1;
            if let (0, Some(sequence)) = (left, sequence) {
                // Writing to a string cannot fail.
                let _ = writeln!(self.text, "id: {sequence}");
            }
            // Compact JSON has no line breaks, so it fits one `data:` line.
            let data = serde_json::to_string(chunk)?;
            let _ = write!(self.text, "data: {data}\n\n");
        }
        Ok(())
    }

    /// Adds the frame that ends a stream by convention.
    pub fn done(&mut self) {
        self.text.push_str("data: [DONE]\n\n");
    }

    /// The number of bytes that were not taken yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Whether all bytes were taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Takes the frames that were added.
    #[must_use]
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}
