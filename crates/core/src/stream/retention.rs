//! The port that removes the deltas of past turns. Not every store has it.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use super::StreamError;
use crate::time::Timestamp;

/// How long the deltas of a turn are kept after its end, unless a store is configured otherwise.
pub const DELTA_WINDOW: Duration = Duration::from_secs(10 * 60);

/// Condenses the streams of turns that have ended.
///
/// How long the deltas of a turn are kept after its end is configured when the store is opened. The
/// process that maintains the store calls this from time to time, as the local runtime does.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait Retention: Send + Sync + fmt::Debug {
    /// Condenses up to `limit` turns that ended longer ago than their deltas are kept, at this instant, or
    /// at that of the store's clock if it has one ([`StreamManager::condense`](super::StreamManager::condense)).
    /// Returns the number of these turns; a result equal to `limit` means that there may be more. Turns that
    /// go on or wait are left alone.
    async fn condense_old_turns(&self, at: Timestamp, limit: usize) -> Result<usize, StreamError>;
}
