//! The port to what forgets chunks that are too old. Not every store has it.

use std::fmt;

use async_trait::async_trait;

use super::StreamError;
use crate::time::Timestamp;

/// What removes old chunks of streams whose turns are over.
///
/// How long chunks are kept is for whoever opens the store to say. Whoever looks after the store
/// (the local runtime's sweeper does) calls this now and then.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait Retention: Send + Sync + fmt::Debug {
    /// Removes the chunks of up to `limit` streams that ended longer ago than chunks are kept, at this
    /// instant, or at that of the store's clock where it has one. Gives the number of these streams:
    /// as many as asked for means that there may be more. Streams that go on, or wait for somebody,
    /// are left alone.
    async fn remove_old_chunks(&self, at: Timestamp, limit: usize) -> Result<usize, StreamError>;
}
