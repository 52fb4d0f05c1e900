//! A JSON document that can be changed without changing or copying the document it started from.
//!
//! An [`Overlay`] is a tree of the places that changed. It does not hold the base: its methods take
//! it, and walk both side by side. So a change costs as much as its path is deep, whatever the size
//! of the document, and unchanged parts are read, and borrowed, from the base.
//!
//! With a journal, changes can be undone in reverse order.

mod array;
mod compare;
mod journal;
mod node;
mod view;

#[cfg(test)]
mod tests;

use serde_json::Value;

use self::{
    array::Element,
    journal::Undo,
    node::{Container, Former, Node},
};
pub(super) use self::{compare::differences, view::View};
use super::{JsonKind, Pointer, StateError, pointer::array_index};

/// The changes to a document.
#[derive(Debug)]
pub(super) struct Overlay {
    root: Node,
    journal: Option<Vec<Undo>>,
}

/// The outermost place that a change had to open on its path. Removing the place
/// undoes the whole change.
type Opened = Option<(usize, Former)>;

impl Overlay {
    pub(super) fn new() -> Self {
        Self {
            root: Node::Base,
            journal: None,
        }
    }

    /// Whether the document is the unchanged base.
    pub(super) fn is_untouched(&self) -> bool {
        matches!(self.root, Node::Base)
    }

    /// Returns the document as it is now.
    pub(super) fn view<'a>(&'a self, base: &'a Value) -> View<'a> {
        View::of(&self.root, Some(base)).unwrap_or(View::Plain(base))
    }

    /// Applies the changes to the base itself.
    pub(super) fn write_to(self, base: &mut Value) {
        self.root.write_to(base);
    }

    /// Sets the value at `path`. Missing parents become objects; an array element must exist.
    pub(super) fn put(
        &mut self,
        base: &Value,
        path: &Pointer,
        value: Value,
    ) -> Result<(), StateError> {
        let node = Node::Value(value);
        let Some(key) = path.last() else {
            let former = Former(Some(std::mem::replace(&mut self.root, node)));
            self.record(|| Undo::Entry {
                path: path.clone(),
                former,
            });
            return Ok(());
        };
        let depth = path.depth();
        self.change(base, path, depth - 1, |parent| match parent {
            Container::Object(object, base) => {
                let former = Former(object.set(&key, Some(node), base));
                Ok(Undo::Entry {
                    path: path.clone(),
                    former,
                })
            }
            Container::Array(array, _) => {
                match array_index(&key).filter(|index| *index < array.len()) {
                    Some(index) => {
                        let former = Former(array.set(index, Some(node)));
                        Ok(Undo::Entry {
                            path: path.clone(),
                            former,
                        })
                    }
                    None => Err(no_such_element(path, depth - 1, array.len())),
                }
            }
        })
    }

    /// Removes the key or element at `path`, which must exist and not be the root.
    pub(super) fn remove(&mut self, base: &Value, path: &Pointer) -> Result<(), StateError> {
        let Some(key) = path.last() else {
            return Err(StateError::RootRemoved);
        };
        let depth = path.depth();
        self.change(base, path, depth - 1, |parent| match parent {
            Container::Object(object, base) => {
                let former = Former(object.remove(&key, base));
                Ok(Undo::Entry {
                    path: path.clone(),
                    former,
                })
            }
            Container::Array(array, _) => {
                let len = array.len();
                let removed =
                    array_index(&key).and_then(|index| Some((index, array.remove(index)?)));
                match removed {
                    Some((index, element)) => Ok(Undo::Removed {
                        array: path.prefix(depth - 1),
                        index,
                        element,
                    }),
                    None => Err(no_such_element(path, depth - 1, len)),
                }
            }
        })
    }

    /// Inserts an element before the one at `index` of the array at `path`, or at its end.
    pub(super) fn insert(
        &mut self,
        base: &Value,
        path: &Pointer,
        index: usize,
        value: Value,
    ) -> Result<(), StateError> {
        self.change(base, path, path.depth(), |target| match target {
            Container::Array(array, _) if index <= array.len() => {
                array.insert(index, Element::Own(Node::Value(value)));
                Ok(Undo::Inserted {
                    array: path.clone(),
                    index,
                })
            }
            Container::Array(array, _) => Err(no_such_element(
                &path.join(&index.to_string()),
                path.depth(),
                array.len(),
            )),
            Container::Object(..) => Err(StateError::NotAnArray {
                path: path.clone(),
                found: JsonKind::Object,
            }),
        })
    }

    /// Makes a change to the container at the first `depth` segments of `path`. A change that
    /// fails leaves nothing behind.
    fn change(
        &mut self,
        base: &Value,
        path: &Pointer,
        depth: usize,
        change: impl FnOnce(Container<'_>) -> Result<Undo, StateError>,
    ) -> Result<(), StateError> {
        let mut opened = None;
        let changed = self.open(base, path, depth, &mut opened).and_then(change);
        let outermost = |(depth, former)| Undo::Entry {
            path: path.prefix(depth),
            former,
        };
        match changed {
            Ok(undo) => {
                self.record(|| opened.map_or(undo, outermost));
                Ok(())
            }
            Err(error) => {
                if let Some(undo) = opened.map(outermost) {
                    self.undo(base, undo);
                }
                Err(error)
            }
        }
    }

    /// Makes the container at the first `depth` segments of `path` changeable.
    fn open<'a>(
        &'a mut self,
        base: &'a Value,
        path: &Pointer,
        depth: usize,
        opened: &mut Opened,
    ) -> Result<Container<'a>, StateError> {
        if self.is_untouched() {
            *opened = Some((0, Former(None)));
        }
        let mut node = &mut self.root;
        let mut covered = Some(base);
        for (at, segment) in path.segments().take(depth).enumerate() {
            let former;
            (node, covered, former) = match open_node(node, covered, path, at)? {
                Container::Object(object, base) => object.child_mut(segment.into_owned(), base),
                Container::Array(array, base) => {
                    let len = array.len();
                    let child =
                        array_index(&segment).and_then(|index| array.child_mut(index, base));
                    let Some((node, covered, fresh)) = child else {
                        return Err(no_such_element(path, at, len));
                    };
                    (node, covered, fresh.then_some(Former(None)))
                }
            };
            if let (None, Some(former)) = (&opened, former) {
                *opened = Some((at + 1, former));
            }
        }
        open_node(node, covered, path, depth)
    }
}

fn open_node<'a>(
    node: &'a mut Node,
    base: Option<&'a Value>,
    path: &Pointer,
    depth: usize,
) -> Result<Container<'a>, StateError> {
    let found = View::of(node, base).map_or(JsonKind::Null, View::kind);
    node.open(base).ok_or_else(|| StateError::NotAContainer {
        path: path.clone(),
        at: path.prefix(depth),
        found,
    })
}

fn no_such_element(path: &Pointer, depth: usize, len: usize) -> StateError {
    StateError::NoSuchElement {
        path: path.clone(),
        array: path.prefix(depth),
        len,
    }
}
