//! The port to what says whether a store can be written. Not every store has it.

use std::fmt;

use async_trait::async_trait;

use super::StoreError;

/// What says whether a store can be written.
///
/// A disk that is full and a store that became read-only still answer every read. Whoever sends
/// requests to a server wants to know before they fail.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait Writable: Send + Sync + fmt::Debug {
    /// Writes something small as durably as a commit, and leaves nothing behind.
    ///
    /// # Errors
    /// What a commit would fail with.
    async fn check_writable(&self) -> Result<(), StoreError>;
}
