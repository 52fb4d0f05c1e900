//! The port that removes old chunks. Not every store has it.

use std::fmt;

use async_trait::async_trait;

use super::StreamError;
use crate::time::Timestamp;

/// Removes old chunks of streams whose turns have ended.
///
/// How long chunks are kept is configured when the store is opened. The process that maintains the
/// store calls this from time to time, as the local runtime does.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait Retention: Send + Sync + fmt::Debug {
    /// Removes the chunks of up to `limit` streams that ended longer ago than chunks are kept, at
    /// this instant, or at that of the store's clock if it has one. Returns the number of these
    /// streams; a result equal to `limit` means that there may be more. Streams that are active or
    /// paused are left alone.
    async fn remove_old_chunks(&self, at: Timestamp, limit: usize) -> Result<usize, StreamError>;
}
