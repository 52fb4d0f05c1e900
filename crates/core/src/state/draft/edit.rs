//! The edits of a draft: each resolves the path, changes the document, and records the kind of change.

use serde_json::{Number, Value};

use super::{ArrayMode, Draft};
use crate::state::{
    JsonKind, Pointer, StateError, changes::Manner, check_state, json::check_depth,
    number::checked_add, overlay::View, pointer::array_index,
};

/// The result of resolving a path.
pub(in crate::state) struct Trace<'a> {
    reach: Reach,
    /// The value at the end of the existing segments.
    end: View<'a>,
}

/// How far a path can be followed.
#[derive(Clone, Copy)]
struct Reach {
    /// The number of segments of the path.
    depth: usize,
    /// The number of segments that lead to a value.
    existing: usize,
    /// The number of segments that lead to the outermost array on the path.
    array: Option<usize>,
}

impl<'a> Trace<'a> {
    fn new(root: View<'a>, path: &Pointer) -> Self {
        let mut reach = Reach {
            depth: path.depth(),
            existing: 0,
            array: None,
        };
        let mut end = root;
        for segment in path.segments() {
            if reach.array.is_none() && end.is_array() {
                reach.array = Some(reach.existing);
            }
            let Some(child) = end.child(&segment) else {
                break;
            };
            end = child;
            reach.existing += 1;
        }
        Self { reach, end }
    }

    /// Returns the value at the end of the whole path.
    pub(in crate::state) fn target(&self) -> Option<View<'a>> {
        (self.reach.existing == self.reach.depth).then_some(self.end)
    }

    /// Returns the length of the array at the end of the path; `None` if nothing is there.
    fn array_len(&self, path: &Pointer) -> Result<Option<usize>, StateError> {
        match self.target() {
            None => Ok(None),
            Some(found) if found.is_array() => Ok(found.len()),
            Some(found) => Err(StateError::NotAnArray {
                path: path.clone(),
                found: found.kind(),
            }),
        }
    }
}

impl Draft {
    pub(in crate::state) fn view(&self) -> View<'_> {
        self.overlay.view(&self.base)
    }

    pub(in crate::state) fn trace(&self, path: &Pointer) -> Trace<'_> {
        Trace::new(self.view(), path)
    }

    pub(in crate::state) fn set_json(
        &mut self,
        path: &Pointer,
        value: Value,
    ) -> Result<(), StateError> {
        if path.is_root() {
            check_state(&value)?;
        } else {
            self.check_root()?;
        }
        self.put(path, value, Manner::Whole)
    }

    pub(super) fn add(&mut self, path: &Pointer, by: Number) -> Result<(), StateError> {
        self.check_root()?;
        let sum = match self.trace(path).target() {
            None => by.clone(),
            Some(View::Plain(Value::Number(number))) => checked_add(number, &by)
                .ok_or_else(|| StateError::Overflow { path: path.clone() })?,
            Some(other) => {
                return Err(StateError::NotANumber {
                    path: path.clone(),
                    found: other.kind(),
                });
            }
        };
        self.put(path, Value::Number(sum), Manner::Incremented(vec![by]))
    }

    pub(super) fn push_json(&mut self, path: &Pointer, value: Value) -> Result<(), StateError> {
        self.check_root()?;
        let manner = match self.mode {
            ArrayMode::Delta => Manner::Appended(1),
            ArrayMode::Replace => Manner::Whole,
        };
        let trace = self.trace(path);
        let Some(len) = trace.array_len(path)? else {
            return self.put(path, Value::Array(vec![value]), manner);
        };
        let reach = trace.reach;
        check_depth(path, reach.depth + 1, &value)?;
        self.overlay.insert(&self.base, path, len, value)?;
        self.note(path, reach, manner);
        Ok(())
    }

    pub(in crate::state) fn insert_json(
        &mut self,
        path: &Pointer,
        value: Value,
    ) -> Result<(), StateError> {
        self.check_root()?;
        let (Some(array), Some(key)) = (path.parent(), path.last()) else {
            return Err(StateError::NotAnArray {
                path: path.clone(),
                found: JsonKind::Object,
            });
        };
        let Some(len) = self.trace(&array).array_len(&array)? else {
            return Err(StateError::NotFound { path: array });
        };
        let index = if key == "-" {
            Some(len)
        } else {
            array_index(&key)
        };
        match index {
            Some(index) if index < len => {
                // The reach of `path`, not of the array: the change is inside the array.
                let reach = self.trace(path).reach;
                check_depth(path, reach.depth, &value)?;
                self.overlay.insert(&self.base, &array, index, value)?;
                self.note(path, reach, Manner::Whole);
                Ok(())
            }
            Some(index) if index == len => self.push_json(&array, value),
            _ => Err(StateError::NoSuchElement {
                path: path.clone(),
                array,
                len,
            }),
        }
    }

    pub(in crate::state) fn remove_at(&mut self, path: &Pointer) -> Result<bool, StateError> {
        self.check_root()?;
        let trace = self.trace(path);
        if trace.target().is_none() {
            return Ok(false);
        }
        let reach = trace.reach;
        self.overlay.remove(&self.base, path)?;
        self.note(path, reach, Manner::Whole);
        Ok(true)
    }

    fn put(&mut self, path: &Pointer, value: Value, manner: Manner) -> Result<(), StateError> {
        let reach = self.trace(path).reach;
        check_depth(path, reach.depth, &value)?;
        self.overlay.put(&self.base, path, value)?;
        self.note(path, reach, manner);
        Ok(())
    }

    /// Records a change. One inside an array is a change of the whole outermost array.
    fn note(&mut self, path: &Pointer, reach: Reach, manner: Manner) {
        match reach.array {
            None => self.changes.note(path, reach.depth, reach.existing, manner),
            Some(array) => self
                .changes
                .note(path, array, reach.existing, Manner::Whole),
        }
    }

    /// A draft can be made of any value; only one with an object at its root can be changed.
    fn check_root(&self) -> Result<(), StateError> {
        match self.view().kind() {
            JsonKind::Object => Ok(()),
            found => Err(StateError::RootNotObject { found }),
        }
    }
}
