//! Computes the differences between two documents over one base.
//!
//! Parts that neither of them changed are not compared: they are the same piece of the base. So
//! comparing costs as much as was changed in both, whatever the size of the base.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::{Map, Value};

use super::{
    array::{ArrayNode, Run},
    view::View,
};
use crate::state::{Pointer, StateOp, StepWrites, pointer::push_escaped};

/// Returns the changes that turn `old` into `new`. An array that was only appended to is appended
/// to, any other is replaced.
pub(in crate::state) fn differences(old: View<'_>, new: View<'_>) -> StepWrites {
    let mut found = Differences {
        path: String::new(),
        ops: StepWrites::new(),
    };
    found.value(old, new);
    found.ops
}

struct Differences {
    path: String,
    ops: StepWrites,
}

impl Differences {
    fn value(&mut self, old: View<'_>, new: View<'_>) {
        if let (Some(before), Some(after)) = (Keys::of(old), Keys::of(new)) {
            self.object(old, new, &before.worth_comparing(&after));
            return;
        }
        if is_same(old, new) {
            return;
        }
        let (before, after) = (Items::of(old), Items::of(new));
        match (before, after) {
            (Some(before), Some(after))
                if before.len <= after.len && before.begins(&after, before.len) =>
            {
                let path = self.here();
                let added = (before.len..after.len).filter_map(|at| new.item(at));
                self.ops.extend(added.map(|value| StateOp::Append {
                    path: path.clone(),
                    value: value.to_value(),
                }));
            }
            _ => self.replace(new),
        }
    }

    fn object(&mut self, old: View<'_>, new: View<'_>, keys: &BTreeSet<&str>) {
        let end = self.path.len();
        let gone = |key: &&&str| old.child(key).is_some() && new.child(key).is_none();
        for key in keys.iter().filter(gone) {
            push_escaped(&mut self.path, key);
            let path = self.here();
            self.ops.extend([StateOp::Delete { path }]);
            self.path.truncate(end);
        }
        for key in keys {
            let Some(new) = new.child(key) else { continue };
            push_escaped(&mut self.path, key);
            match old.child(key) {
                Some(old) => self.value(old, new),
                None => self.replace(new),
            }
            self.path.truncate(end);
        }
    }

    fn replace(&mut self, value: View<'_>) {
        let (path, value) = (self.here(), value.to_value());
        self.ops.extend([StateOp::Replace { path, value }]);
    }

    fn here(&self) -> Pointer {
        Pointer::from_escaped(&self.path)
    }
}

fn is_same(one: View<'_>, other: View<'_>) -> bool {
    if let (View::Plain(one), View::Plain(other)) = (one, other) {
        return std::ptr::eq(one, other) || one == other;
    }
    if let (Some(keys), Some(others)) = (Keys::of(one), Keys::of(other)) {
        let mut keys = keys.worth_comparing(&others).into_iter();
        return keys.all(|key| match (one.child(key), other.child(key)) {
            (Some(one), Some(other)) => is_same(one, other),
            (one, other) => one.is_none() && other.is_none(),
        });
    }
    match (Items::of(one), Items::of(other)) {
        (Some(one), Some(other)) => one.len == other.len && one.begins(&other, one.len),
        _ => false,
    }
}

/// The keys of an object: those visible from the base, and those with an entry.
struct Keys<'a> {
    base: Option<&'a Map<String, Value>>,
    own: Vec<&'a str>,
}

impl<'a> Keys<'a> {
    fn of(view: View<'a>) -> Option<Self> {
        match view {
            View::Plain(Value::Object(map)) => Some(Self {
                base: Some(map),
                own: Vec::new(),
            }),
            View::Object(object, base) => Some(Self {
                base,
                own: object.keys().collect(),
            }),
            View::Plain(_) | View::Array(..) => None,
        }
    }

    /// Returns the keys that may differ: where both show the same base, only those with an entry.
    fn worth_comparing(&self, other: &Self) -> BTreeSet<&'a str>
    where
        Self: 'a,
    {
        let is_shared = match (self.base, other.base) {
            (Some(one), Some(other)) => std::ptr::eq(one, other),
            _ => false,
        };
        let mut keys: BTreeSet<&'a str> = self.own.iter().copied().collect();
        keys.extend(other.own.iter().copied());
        if !is_shared {
            let bases = self.base.into_iter().chain(other.base);
            keys.extend(bases.flat_map(|base| base.keys().map(String::as_str)));
        }
        keys
    }
}

/// The elements of an array, as runs of base elements and of others.
struct Items<'a> {
    view: View<'a>,
    base: &'a [Value],
    node: Option<&'a ArrayNode>,
    len: usize,
}

impl<'a> Items<'a> {
    fn of(view: View<'a>) -> Option<Self> {
        let (base, node) = match view {
            View::Plain(Value::Array(items)) => (items.as_slice(), None),
            View::Array(node, base) => (base, Some(node)),
            View::Plain(_) | View::Object(..) => return None,
        };
        let len = view.len()?;
        Some(Self {
            view,
            base,
            node,
            len,
        })
    }

    fn runs(&self) -> Vec<Run> {
        match self.node {
            Some(node) => node.runs(),
            None => vec![Run::Base(0..self.base.len())],
        }
    }

    /// Whether something was changed inside these base elements.
    fn is_edited(&self, range: &Range<usize>) -> bool {
        self.node.is_some_and(|node| node.is_edited(range))
    }

    /// Whether the first `count` elements of both are the same.
    fn begins(&self, other: &Self, count: usize) -> bool {
        if !std::ptr::eq(self.base, other.base) {
            return (0..count).all(|at| self.has(at, other));
        }
        let (mut mine, mut theirs) = (Runs::new(self.runs()), Runs::new(other.runs()));
        let mut at = 0;
        while at < count {
            let Some(many) = mine.left().zip(theirs.left()).map(|(a, b)| a.min(b)) else {
                return false;
            };
            let many = many.min(count - at);
            let untouched = match (mine.take(many), theirs.take(many)) {
                (Some(one), Some(two)) => {
                    one == two && !self.is_edited(&one) && !other.is_edited(&two)
                }
                _ => false,
            };
            if !untouched && !(at..at + many).all(|at| self.has(at, other)) {
                return false;
            }
            at += many;
        }
        true
    }

    /// Whether both have the same element at an index.
    fn has(&self, at: usize, other: &Self) -> bool {
        match (self.view.item(at), other.view.item(at)) {
            (Some(one), Some(two)) => is_same(one, two),
            _ => false,
        }
    }
}

/// Iterates over runs from the first element to the last.
struct Runs {
    runs: std::vec::IntoIter<Run>,
    now: Option<Run>,
}

impl Runs {
    fn new(runs: Vec<Run>) -> Self {
        let mut runs = runs.into_iter();
        let now = runs.next();
        Self { runs, now }
    }

    /// Returns how many elements are left of the current run; never 0.
    fn left(&mut self) -> Option<usize> {
        while self.now.as_ref().is_some_and(|run| run.len() == 0) {
            self.now = self.runs.next();
        }
        self.now.as_ref().map(Run::len)
    }

    /// Advances by this many elements of the run. Returns which base elements they are.
    fn take(&mut self, many: usize) -> Option<Range<usize>> {
        match &mut self.now {
            Some(Run::Base(range)) => {
                let taken = range.start..range.start + many;
                range.start += many;
                Some(taken)
            }
            Some(Run::Own(left)) => {
                *left -= many;
                None
            }
            None => None,
        }
    }
}
