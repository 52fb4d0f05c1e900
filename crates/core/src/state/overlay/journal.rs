//! Rolling back changes of an overlay.

use serde_json::Value;

use super::{
    Overlay,
    array::Element,
    node::{Container, Former, Node},
};
use crate::state::{Pointer, pointer::array_index};

/// How to undo a change.
#[derive(Debug)]
pub(super) enum Undo {
    /// The place had this entry.
    Entry { path: Pointer, former: Former },
    /// An element was inserted here.
    Inserted { array: Pointer, index: usize },
    /// This element was removed from here.
    Removed {
        array: Pointer,
        index: usize,
        element: Element,
    },
}

impl Overlay {
    /// Starts to record what [`rollback`](Self::rollback) needs.
    pub(in crate::state) fn begin(&mut self) {
        self.journal = Some(Vec::new());
    }

    /// Keeps all changes since [`begin`](Self::begin).
    pub(in crate::state) fn commit(&mut self) {
        self.journal = None;
    }

    /// Undoes all changes since [`begin`](Self::begin).
    pub(in crate::state) fn rollback(&mut self, base: &Value) {
        for undo in self.journal.take().unwrap_or_default().into_iter().rev() {
            self.undo(base, undo);
        }
    }

    /// Records how to undo a change, while a transaction is open.
    pub(super) fn record(&mut self, undo: impl FnOnce() -> Undo) {
        if let Some(journal) = &mut self.journal {
            journal.push(undo());
        }
    }

    /// Undoes one change. Changes are undone in reverse order, so every path still leads where it led.
    pub(super) fn undo(&mut self, base: &Value, undo: Undo) {
        let mut opened = None;
        match undo {
            Undo::Entry { path, former } => {
                let Some(key) = path.last() else {
                    self.root = former.0.unwrap_or(Node::Base);
                    return;
                };
                match self.open(base, &path, path.depth() - 1, &mut opened) {
                    Ok(Container::Object(object, base)) => drop(object.set(&key, former.0, base)),
                    Ok(Container::Array(array, _)) => {
                        drop(array_index(&key).map(|index| array.set(index, former.0)));
                    }
                    Err(error) => debug_assert!(false, "an undo must find its place: {error}"),
                }
            }
            Undo::Inserted { array, index } => {
                if let Ok(Container::Array(array, _)) =
                    self.open(base, &array, array.depth(), &mut opened)
                {
                    array.remove(index);
                }
            }
            Undo::Removed {
                array,
                index,
                element,
            } => {
                if let Ok(Container::Array(array, _)) =
                    self.open(base, &array, array.depth(), &mut opened)
                {
                    array.insert(index, element);
                }
            }
        }
        debug_assert!(opened.is_none(), "an undo opens nothing new");
    }
}
