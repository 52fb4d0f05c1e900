//! Computes the changes that lead from one state to another.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::{ArrayMode, Pointer, StateOp, StepWrites, pointer::push_escaped};

/// Returns the changes that turn `old` into `new`.
///
/// Objects are compared key by key. An array is one change: replaced, or, in
/// [`ArrayMode::Delta`] when only elements at the end are new, appended to.
///
/// ```
/// # use helix_agents_core::state::{ArrayMode, diff};
/// # use serde_json::json;
/// let (old, new) = (json!({ "a": { "b": 1, "c": [1] } }), json!({ "a": { "b": 2, "c": [1, 2] } }));
/// assert_eq!(
///     serde_json::to_value(diff(&old, &new, ArrayMode::Delta)).unwrap(),
///     json!([
///         { "op": "replace", "path": "/a/b", "value": 2 },
///         { "op": "append", "path": "/a/c", "value": 2 },
///     ]),
/// );
/// ```
#[must_use]
pub fn diff(old: &Value, new: &Value, mode: ArrayMode) -> StepWrites {
    diff_onto(old, old, new, mode)
}

/// Returns the changes that do to `actual` what turns `old` into `new`.
///
/// `old` is `actual` as seen through a type that may not know all of it and may fill in defaults.
/// Keys that the type does not know stay, and defaults are written only where they changed. In an
/// array that is replaced, this applies to each element that is recognized: see [`origins`].
pub(super) fn diff_onto(actual: &Value, old: &Value, new: &Value, mode: ArrayMode) -> StepWrites {
    let mut diff = Diff {
        mode,
        path: String::new(),
        ops: StepWrites::new(),
    };
    diff.value(Some(actual), old, new);
    diff.ops
}

struct Diff {
    mode: ArrayMode,
    path: String,
    ops: StepWrites,
}

impl Diff {
    fn value(&mut self, actual: Option<&Value>, old: &Value, new: &Value) {
        match (actual, old, new) {
            (Some(Value::Object(actual)), Value::Object(old), Value::Object(new)) => {
                self.object(actual, old, new);
            }
            _ if old == new => {}
            (actual, Value::Array(old), Value::Array(new)) if self.appends(actual, old, new) => {
                let path = self.here();
                let added = new.iter().skip(old.len()).cloned();
                self.ops.extend(added.map(|value| StateOp::Append {
                    path: path.clone(),
                    value,
                }));
            }
            (Some(actual), old, new) => self.replace(rebased(actual, old, new)),
            (None, _, new) => self.replace(new.clone()),
        }
    }

    fn object(
        &mut self,
        actual: &Map<String, Value>,
        old: &Map<String, Value>,
        new: &Map<String, Value>,
    ) {
        let end = self.path.len();
        for key in old.keys().filter(|key| !new.contains_key(*key)) {
            push_escaped(&mut self.path, key);
            let path = self.here();
            self.ops.extend([StateOp::Delete { path }]);
            self.path.truncate(end);
        }
        for (key, new) in new {
            push_escaped(&mut self.path, key);
            match old.get(key) {
                Some(old) => self.value(actual.get(key), old, new),
                None => self.replace(new.clone()),
            }
            self.path.truncate(end);
        }
    }

    /// Whether appending to `actual` suffices. A missing array is created by the first append, but
    /// without the elements that only the default has.
    fn appends(&self, actual: Option<&Value>, old: &[Value], new: &[Value]) -> bool {
        self.mode == ArrayMode::Delta
            && new.starts_with(old)
            && actual.map_or(old.is_empty(), Value::is_array)
    }

    fn replace(&mut self, value: Value) {
        let path = self.here();
        self.ops.extend([StateOp::Replace { path, value }]);
    }

    fn here(&self) -> Pointer {
        Pointer::from_escaped(&self.path)
    }
}

/// Returns `actual` after the change that turns `old` into `new`.
fn rebased(actual: &Value, old: &Value, new: &Value) -> Value {
    match (actual, old, new) {
        _ if old == new => actual.clone(),
        (Value::Object(actual), Value::Object(old), Value::Object(new)) => {
            Value::Object(rebased_object(actual, old, new))
        }
        // A type that sees more or fewer elements than exist says nothing about positions.
        (Value::Array(actual), Value::Array(old), Value::Array(new))
            if actual.len() == old.len() =>
        {
            let element = |(new, origin): (&Value, Option<usize>)| {
                let before = origin.and_then(|at| Some((actual.get(at)?, old.get(at)?)));
                before.map_or_else(|| new.clone(), |(actual, old)| rebased(actual, old, new))
            };
            Value::Array(new.iter().zip(origins(old, new)).map(element).collect())
        }
        _ => new.clone(),
    }
}

fn rebased_object(
    actual: &Map<String, Value>,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
) -> Map<String, Value> {
    let mut object = actual.clone();
    object.retain(|key, _| !old.contains_key(key) || new.contains_key(key));
    for (key, new) in new {
        let value = match (actual.get(key), old.get(key)) {
            (Some(actual), Some(old)) => rebased(actual, old, new),
            (None, Some(old)) if old == new => continue,
            _ => new.clone(),
        };
        object.insert(key.clone(), value);
    }
    object
}

/// Returns for each element of `new` the index of the element of `old` that it was.
///
/// Equal elements are the same one: at the same index, counted from the beginning or from the end,
/// or else anywhere. Of the others, one at its old index has been changed in place, unless the
/// array became shorter: then it may as well be a later one, and counts as new.
fn origins(old: &[Value], new: &[Value]) -> Vec<Option<usize>> {
    let mut free: BTreeSet<usize> = (0..old.len()).collect();
    let mut origins = vec![None; new.len()];
    let from_end = |at: usize| (at + old.len()).checked_sub(new.len());
    let places: [&dyn Fn(usize) -> Option<usize>; 2] = [&Some, &from_end];
    for place in places {
        for (at, (origin, new)) in origins.iter_mut().zip(new).enumerate() {
            let same = place(at).filter(|at| old.get(*at) == Some(new));
            *origin = origin.or_else(|| free.take(&same?));
        }
    }

    let mut moved: BTreeMap<String, VecDeque<usize>> = BTreeMap::new();
    for (at, old) in old.iter().enumerate().filter(|(at, _)| free.contains(at)) {
        moved.entry(old.to_string()).or_default().push_back(at);
    }
    for (origin, new) in origins.iter_mut().zip(new).filter(|(at, _)| at.is_none()) {
        let from = moved
            .get_mut(&new.to_string())
            .and_then(VecDeque::pop_front);
        *origin = from.and_then(|at| free.take(&at));
    }

    if new.len() >= old.len() {
        for (at, origin) in origins.iter_mut().enumerate() {
            *origin = origin.or_else(|| free.take(&at));
        }
    }
    origins
}
