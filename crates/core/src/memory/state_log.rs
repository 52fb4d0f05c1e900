//! The versions of a state: the current one, and enough to rebuild any earlier one.

use std::io;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::state::{StepWrites, apply_writes};

/// The weight of a version beside its writes: the cost of applying it.
const VERSION: usize = 64;

/// The versions of a state, numbered from 1.
///
/// Most versions are kept as the writes that made them. When the writes since the last whole state
/// weigh as much as that state, a whole state is kept again: so a version costs a few times its own
/// writes, however large the state has become, and rebuilding one about twice the state it starts from.
#[derive(Debug)]
pub(crate) struct StateLog {
    current: Arc<Value>,
    versions: Vec<Version>,
    /// The weight of the last whole state.
    whole: usize,
    /// The weight of the writes since then.
    writes: usize,
}

#[derive(Debug)]
enum Version {
    Whole(Arc<Value>),
    Writes(StepWrites),
}

impl Default for StateLog {
    fn default() -> Self {
        Self {
            current: Arc::new(Value::Object(serde_json::Map::new())),
            versions: Vec::new(),
            whole: 0,
            writes: 0,
        }
    }
}

impl StateLog {
    /// Returns the current version.
    #[must_use]
    pub(crate) fn current(&self) -> &Arc<Value> {
        &self.current
    }

    /// Adds a version with this value.
    pub(crate) fn set(&mut self, value: Arc<Value>) {
        (self.whole, self.writes) = (weight(&value), 0);
        self.current = Arc::clone(&value);
        self.versions.push(Version::Whole(value));
    }

    /// Adds a version by applying these writes, which must apply, to the current one.
    pub(crate) fn write(&mut self, writes: StepWrites) {
        if self.writes > self.whole
            && let Some(last) = self.versions.last_mut()
        {
            // The version before this one becomes the whole state from which later ones start.
            *last = Version::Whole(Arc::clone(&self.current));
            (self.whole, self.writes) = (weight(&self.current), 0);
        }
        // Applied in place unless the state is still held elsewhere.
        if let Err(error) = apply_writes(Arc::make_mut(&mut self.current), &writes) {
            tracing::error!(event = "state.writes_not_applicable", %error);
        }
        self.writes += weight(&writes) + VERSION;
        self.versions.push(Version::Writes(writes));
    }

    /// Adds a version that equals an earlier one.
    pub(crate) fn rewind(&mut self, to: u64) {
        if let Some(value) = self.at(to) {
            self.set(value);
        }
    }

    /// Returns the state at a version; `None` if the version does not exist.
    #[must_use]
    pub(crate) fn at(&self, version: u64) -> Option<Arc<Value>> {
        let version = usize::try_from(version).ok()?;
        if version == self.versions.len() {
            return Some(Arc::clone(&self.current));
        }
        let until = self.versions.get(..version)?;
        let whole = until
            .iter()
            .rposition(|one| matches!(one, Version::Whole(_)))?;
        let mut parts = until.get(whole..)?.iter();
        let Some(Version::Whole(value)) = parts.next() else {
            return None;
        };
        let mut value = Arc::clone(value);
        for part in parts {
            if let Version::Writes(writes) = part {
                apply_writes(Arc::make_mut(&mut value), writes).ok()?;
            }
        }
        Some(value)
    }
}

/// Returns the number of bytes of a value as JSON.
fn weight(value: &impl Serialize) -> usize {
    struct Scales(usize);
    impl io::Write for Scales {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut scales = Scales(0);
    // A value that has no JSON form weighs as much as could be written of it.
    drop(serde_json::to_writer(&mut scales, value));
    scales.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::StateOp;
    use serde_json::json;

    fn push(bytes: usize) -> StepWrites {
        StepWrites::from(vec![StateOp::Append {
            path: "/log".parse().unwrap(),
            value: json!("x".repeat(bytes)),
        }])
    }

    fn kept(log: &StateLog) -> usize {
        let weights = log.versions.iter().map(|version| match version {
            Version::Whole(value) => weight(value),
            Version::Writes(writes) => weight(writes),
        });
        weights.sum()
    }

    #[test]
    fn a_version_costs_the_same_however_large_the_state_has_become() {
        let [early, late] = [400, 4_000].map(|versions| {
            let mut log = StateLog::default();
            log.set(Arc::new(json!({ "log": [] })));
            (1..versions).for_each(|_| log.write(push(500)));
            kept(&log)
        });
        assert!(10 * late <= 12 * early * 10, "{early} bytes, {late} bytes");
    }

    #[test]
    fn every_version_is_rebuilt_from_a_nearby_whole_state() {
        let mut log = StateLog::default();
        let text = "x".repeat(20_000);
        log.set(Arc::new(json!({ "text": text, "log": [] })));
        for _ in 0..2_000 {
            log.write(push(1));
        }
        let mut since = 0;
        for version in &log.versions {
            since = match version {
                Version::Whole(_) => 0,
                Version::Writes(_) => since + 1,
            };
            assert!(since * VERSION <= 2 * log.whole, "{since} versions");
        }
        for at in [1, 2, 180, 999, 2_000, 2_001] {
            let state = log.at(at).unwrap();
            let logged = state["log"].as_array().unwrap().len();
            assert_eq!(logged, usize::try_from(at).unwrap() - 1);
        }
    }
}
