//! Ids that are unique across processes.

use helix_agents_core::id::IdSource;
use uuid::Uuid;

/// The maximum length of an id.
const MAX_CHARS: usize = 64;
/// The length of a UUID with the `-` before it.
const UUID_CHARS: usize = 33;

/// Version 7 UUIDs with a prefix: globally unique, and ordered by creation.
#[derive(Debug, Clone, Copy, Default)]
pub struct UuidIds;

impl UuidIds {
    /// Creates a source of ids.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

impl IdSource for UuidIds {
    fn next(&self, prefix: &str) -> String {
        let allowed = prefix.chars().filter(|c| c.is_ascii_alphanumeric());
        let prefix: String = allowed.take(MAX_CHARS - UUID_CHARS).collect();
        format!("{prefix}-{}", Uuid::now_v7().simple())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use helix_agents_core::id::IdSourceExt;

    use super::*;

    #[test]
    fn ids_differ_and_keep_to_the_limits() {
        let ids = UuidIds::new();
        let long = "ä_".repeat(100) + &"x".repeat(100);
        for prefix in ["run", "", &long] {
            let id = ids.next(prefix);
            assert!(id.len() <= MAX_CHARS, "{id}");
            let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
            assert!(id.chars().all(allowed), "{id}");
        }
        let many: BTreeSet<_> = (0..1_000).map(|_| ids.run_id().unwrap()).collect();
        assert_eq!(many.len(), 1_000);
    }
}
