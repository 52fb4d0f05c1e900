//! The changes that lead from one state to another.

use serde_json::{Map, Value};

use super::{ArrayMode, Pointer, StateOp, StepWrites, pointer::push_escaped};

/// The changes that turn `old` into `new`.
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

/// The changes that do to `actual` what turns `old` into `new`.
///
/// `old` is what a type that may not know all of `actual`, and may fill in defaults, made of it.
/// What the type does not know stays, and defaults are written only with what changed in them.
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
            _ => self.replace(new),
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
                None => self.replace(new),
            }
            self.path.truncate(end);
        }
    }

    /// Whether appending to `actual` does it. A missing array is created by the first append, but
    /// without the elements that only the default has.
    fn appends(&self, actual: Option<&Value>, old: &[Value], new: &[Value]) -> bool {
        self.mode == ArrayMode::Delta
            && new.starts_with(old)
            && actual.map_or(old.is_empty(), Value::is_array)
    }

    fn replace(&mut self, value: &Value) {
        let path = self.here();
        self.ops.extend([StateOp::Replace {
            path,
            value: value.clone(),
        }]);
    }

    fn here(&self) -> Pointer {
        Pointer::from_escaped(&self.path)
    }
}
