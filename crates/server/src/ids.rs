//! Ids of sessions that the server makes itself, and of requests.

use helix_agents_core::id::IdSource;
use uuid::Uuid;

/// UUIDs of version 7 behind their prefix.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct UuidIds;

impl IdSource for UuidIds {
    fn next(&self, prefix: &str) -> String {
        format!("{prefix}-{}", Uuid::now_v7().simple())
    }
}
