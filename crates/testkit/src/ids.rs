//! Predictable ids.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use helix_agents_core::id::IdSource;

/// Counts: `run-1`, `run-2`, and `step-1` beside them. Every prefix has a counter of its own.
///
/// ```
/// use helix_agents_core::id::IdSourceExt;
/// use helix_agents_testkit::SequentialIds;
///
/// let ids = SequentialIds::new();
/// assert_eq!(ids.run_id()?.as_str(), "run-1");
/// # Ok::<(), helix_agents_core::IdError>(())
/// ```
#[derive(Debug, Default)]
pub struct SequentialIds {
    given: Mutex<BTreeMap<String, u64>>,
}

impl SequentialIds {
    /// Creates a source in which every prefix begins at 1.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl IdSource for SequentialIds {
    fn next(&self, prefix: &str) -> String {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let count = given.entry(prefix.to_owned()).or_default();
        *count += 1;
        format!("{prefix}-{count}")
    }
}
