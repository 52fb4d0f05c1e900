//! Merges changes that were made in parallel to the same state.

mod touches;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::touches::Touches;
use super::{ArrayMode, Draft, Pointer, StepWrites};

/// The changes of one of several parallel writers.
#[derive(Debug, Clone, PartialEq)]
pub struct Writer {
    /// The position of the writer in the model's order. Later ones win.
    pub order: usize,
    /// The name of the writer in conflicts: the id of its tool call.
    pub name: String,
    /// The changes, relative to the state from which all writers started.
    pub writes: StepWrites,
}

/// The result of merging parallel changes.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Merged {
    /// The changes to make. They always apply to the state from which the writers started.
    pub writes: StepWrites,
    /// The conflicts: overlaps by path, then dropped changes, in order.
    pub conflicts: Vec<StateConflict>,
}

/// A conflict between parallel changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StateConflict {
    /// The path that the winner changed, or that a dropped change names.
    pub path: Pointer,
    /// The writer whose change stands; `None` if a change did not apply even to the initial state.
    pub winner: Option<String>,
    /// The writers whose changes were overwritten, built upon, or dropped.
    pub losers: Vec<String>,
    /// The kind of conflict.
    pub reason: ConflictReason,
}

/// The kind of a conflict between parallel changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ConflictReason {
    /// They changed the same value, or one changed a part of what the other changed. The last in
    /// order was applied last.
    Overlap,
    /// After the winner's change, the loser's no longer applies and was dropped.
    Inapplicable {
        /// The error of applying it.
        error: String,
    },
}

/// Merges the changes of parallel writers.
///
/// They are applied in [`order`](Writer::order), so the result does not depend on which writer
/// finished first. Writers of equal order are sorted by name.
///
/// - Appends to one array, and increments of one number, compose.
/// - Equal replacements, and deletions, of one value agree.
/// - Any other two changes to the same path, or to a path and one below it, are a conflict, which
///   the last in order wins.
/// - A change that no longer applies after an earlier writer's is dropped, which is a conflict too.
///
/// The cost is that of the changes and of the conflicts to report, not of the state.
///
/// ```
/// # use std::sync::Arc;
/// # use helix_agents_core::state::{Writer, merge_writes};
/// # use serde_json::json;
/// let base = Arc::new(json!({ "notes": [], "topic": "" }));
/// let writer = |order, name: &str, topic| {
///     let writes = serde_json::from_value(json!([
///         { "op": "append", "path": "/notes", "value": name },
///         { "op": "replace", "path": "/topic", "value": topic },
///     ]));
///     writes.map(|writes| Writer { order, name: name.to_owned(), writes })
/// };
/// let merged = merge_writes(&base, [writer(1, "call_b", "tea")?, writer(0, "call_a", "milk")?]);
///
/// assert_eq!(
///     serde_json::to_value(&merged.writes)?,
///     json!([
///         { "op": "append", "path": "/notes", "value": "call_a" },
///         { "op": "append", "path": "/notes", "value": "call_b" },
///         { "op": "replace", "path": "/topic", "value": "tea" },
///     ]),
/// );
/// assert_eq!(merged.conflicts[0].winner.as_deref(), Some("call_b"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use]
pub fn merge_writes(base: &Arc<Value>, writers: impl IntoIterator<Item = Writer>) -> Merged {
    let mut writers: Vec<_> = writers.into_iter().collect();
    writers.sort_by(|a, b| (a.order, &a.name).cmp(&(b.order, &b.name)));
    let name = |index: usize| writers.get(index).map(|writer| writer.name.clone());

    let mut draft = Draft::new(Arc::clone(base), ArrayMode::Delta);
    let mut touches = Touches::default();
    let mut dropped = Vec::new();
    for (index, writer) in writers.iter().enumerate() {
        for op in &writer.writes {
            match draft.apply(op) {
                Ok(()) => touches.touch(index, op),
                Err(error) => dropped.push(StateConflict {
                    path: op.path().clone(),
                    winner: touches.last_other(index, op.path()).and_then(name),
                    losers: vec![writer.name.clone()],
                    reason: ConflictReason::Inapplicable {
                        error: error.to_string(),
                    },
                }),
            }
        }
    }

    let overlaps = touches.overlaps().into_iter().map(|overlap| StateConflict {
        path: overlap.path,
        winner: name(overlap.winner),
        losers: overlap.losers.into_iter().filter_map(name).collect(),
        reason: ConflictReason::Overlap,
    });
    Merged {
        conflicts: overlaps.chain(dropped).collect(),
        writes: draft.writes(),
    }
}
