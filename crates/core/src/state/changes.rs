//! The record of what changed since tracking began.

use std::collections::{BTreeMap, btree_map::Entry};

use serde_json::{Number, Value};

use super::{
    PatchOp, Pointer, StateOp, StepWrites, number::checked_add, overlay::View,
    pointer::push_escaped,
};

/// The places that changed, and how.
///
/// This records *where* something changed and in which way; the current *value* is read from the
/// document when the changes are reported. So a later change to the same place, or above it, leaves
/// nothing of an earlier one behind, and the reported places never contain each other.
#[derive(Debug, Clone)]
pub(super) struct Changes {
    root: Change,
    clock: u64,
}

/// The change of one place.
#[derive(Debug, Clone)]
pub(super) struct Change {
    /// When the place was first changed. Changes are reported in this order.
    since: u64,
    /// Whether the place had a value when tracking began.
    existed: bool,
    manner: Manner,
}

/// How a place changed.
#[derive(Debug, Clone)]
pub(super) enum Manner {
    /// Only these keys of an object changed. The object itself is new if it did not exist.
    Within(BTreeMap<String, Change>),
    /// The place was set or removed, or it is an array that was not only appended to.
    Whole,
    /// This many elements were added at the end of an array.
    Appended(usize),
    /// A number was incremented by these amounts, in order.
    Incremented(Vec<Number>),
}

/// A change to report.
struct Leaf<'a> {
    since: u64,
    path: Pointer,
    change: &'a Change,
    now: Option<View<'a>>,
}

impl Changes {
    pub(super) fn new() -> Self {
        Self::starting_at(0)
    }

    /// Creates an empty record whose changes are later than all of these.
    pub(super) fn later(&self) -> Self {
        Self::starting_at(self.clock)
    }

    fn starting_at(clock: u64) -> Self {
        let root = Change {
            since: clock,
            existed: true,
            manner: Manner::Within(BTreeMap::new()),
        };
        Self { root, clock }
    }

    /// Records a change at the first `depth` segments of `path`, of which the first `existing` had
    /// values before the change.
    pub(super) fn note(&mut self, path: &Pointer, depth: usize, existing: usize, manner: Manner) {
        self.clock += 1;
        let since = self.clock;
        let mut place = &mut self.root;
        for (at, segment) in path.segments().take(depth).enumerate() {
            if !matches!(place.manner, Manner::Within(_)) {
                place.manner = Manner::Whole;
            }
            let Manner::Within(children) = &mut place.manner else {
                return;
            };
            place = children
                .entry(segment.into_owned())
                .or_insert_with(|| Change {
                    since,
                    existed: at < existing,
                    manner: Manner::Within(BTreeMap::new()),
                });
        }
        place.absorb(manner);
    }

    /// Adds changes that were made after these.
    pub(super) fn absorb(&mut self, later: Self) {
        self.clock = later.clock;
        self.root.absorb(later.root.manner);
    }

    /// Returns the changes as operations, given the current document.
    pub(super) fn writes(&self, now: View<'_>) -> StepWrites {
        let mut writes = StepWrites::new();
        for Leaf {
            path, change, now, ..
        } in self.leaves(now, true)
        {
            match (&change.manner, now) {
                (_, None) => writes.extend([StateOp::Delete { path }]),
                (Manner::Within(_) | Manner::Whole, Some(now)) => {
                    writes.extend([StateOp::Replace {
                        path,
                        value: now.to_value(),
                    }]);
                }
                (Manner::Appended(count), Some(now)) => {
                    writes.extend(last(now, *count).map(|item| StateOp::Append {
                        path: path.clone(),
                        value: item.to_value(),
                    }));
                }
                (Manner::Incremented(by), Some(now)) => {
                    let sum = exact_sum(by, now);
                    let by = sum.as_ref().map_or(by.as_slice(), std::slice::from_ref);
                    writes.extend(by.iter().map(|by| StateOp::Increment {
                        path: path.clone(),
                        by: by.clone(),
                    }));
                }
            }
        }
        writes
    }

    /// Returns the changes as RFC 6902 patches, given the current document.
    pub(super) fn patches(&self, now: View<'_>) -> Vec<PatchOp> {
        let mut patches = Vec::new();
        for Leaf {
            path, change, now, ..
        } in self.leaves(now, false)
        {
            match (&change.manner, now) {
                (_, None) => patches.push(PatchOp::Remove { path }),
                (Manner::Appended(count), Some(now)) if change.existed => {
                    let path = path.join("-");
                    patches.extend(last(now, *count).map(|item| PatchOp::Add {
                        path: path.clone(),
                        value: item.to_value(),
                    }));
                }
                (_, Some(now)) if change.existed => patches.push(PatchOp::Replace {
                    path,
                    value: now.to_value(),
                }),
                (_, Some(now)) => patches.push(PatchOp::Add {
                    path,
                    value: now.to_value(),
                }),
            }
        }
        patches
    }

    /// Returns the changes to report, in order. A new object is one change or, with
    /// `inside_new`, its contents are.
    fn leaves<'a>(&'a self, now: View<'a>, inside_new: bool) -> Vec<Leaf<'a>> {
        let mut leaves = Vec::new();
        self.root
            .leaves(&mut String::new(), Some(now), inside_new, &mut leaves);
        leaves.sort_by_key(|leaf| leaf.since);
        leaves
    }
}

impl Change {
    /// Adds a later change of the same place.
    fn absorb(&mut self, later: Manner) {
        match (&mut self.manner, later) {
            // The place has no change so far.
            (Manner::Within(children), later) if children.is_empty() => self.manner = later,
            (Manner::Within(children), Manner::Within(later)) => {
                for (key, change) in later {
                    match children.entry(key) {
                        Entry::Vacant(entry) => drop(entry.insert(change)),
                        Entry::Occupied(entry) => entry.into_mut().absorb(change.manner),
                    }
                }
            }
            (Manner::Appended(count), Manner::Appended(more)) => *count += more,
            (Manner::Incremented(by), Manner::Incremented(more)) => by.extend(more),
            _ => self.manner = Manner::Whole,
        }
    }

    fn leaves<'a>(
        &'a self,
        path: &mut String,
        now: Option<View<'a>>,
        inside_new: bool,
        out: &mut Vec<Leaf<'a>>,
    ) {
        if now.is_none() && !self.existed {
            return;
        }
        let start = out.len();
        if let Manner::Within(children) = &self.manner {
            let end = path.len();
            for (key, change) in children {
                push_escaped(path, key);
                change.leaves(path, now.and_then(|now| now.child(key)), inside_new, out);
                path.truncate(end);
            }
            // A new object that is empty again is still a change.
            if self.existed || (inside_new && out.len() > start) {
                return;
            }
        }
        let inside = out.drain(start..).map(|leaf| leaf.since).min();
        out.push(Leaf {
            since: inside.unwrap_or(self.since),
            path: Pointer::from_escaped(path),
            change: self,
            now,
        });
    }
}

/// Returns the last `count` elements of an array.
fn last(array: View<'_>, count: usize) -> impl Iterator<Item = View<'_>> {
    let len = array.len().unwrap_or(0);
    (len.saturating_sub(count)..len).filter_map(move |index| array.item(index))
}

/// Returns the sum of increments that can be made in one: not if a float is involved, because then
/// the outcome depends on the order. A number that is an integer now always was one.
fn exact_sum(by: &[Number], now: View<'_>) -> Option<Number> {
    match (now, by) {
        (View::Plain(Value::Number(now)), [first, rest @ ..]) if !now.is_f64() => rest
            .iter()
            .try_fold(first.clone(), |sum, by| checked_add(&sum, by)),
        _ => None,
    }
}
