//! The port that checks whether a store can be written. Not every store has it.

use std::fmt;

use async_trait::async_trait;

use super::StoreError;

/// Checks whether a store can be written.
///
/// A store with a full disk, or one that became read-only, still answers every read. A load
/// balancer needs to know before requests fail.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait CheckWritable: Send + Sync + fmt::Debug {
    /// Writes something small as durably as a commit does, and leaves nothing behind.
    ///
    /// # Errors
    /// The error with which a commit would fail.
    async fn check_writable(&self) -> Result<(), StoreError>;
}
