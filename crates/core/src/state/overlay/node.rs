//! The nodes of an overlay.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    mem,
};

use serde_json::{Map, Value};

use super::{array::ArrayNode, view::View};

/// The changes of one place of the document.
#[derive(Debug)]
pub(in crate::state) enum Node {
    /// The place reads as the base does.
    Base,
    /// The place is empty, whatever the base has. Only ever the entry of an object.
    Removed,
    /// The place was written whole; the base is not visible.
    Value(Value),
    /// An object with changes inside.
    Object(Box<ObjectNode>),
    /// An array with changes inside.
    Array(Box<ArrayNode>),
}

/// A node whose children can be changed, with the part of the base that it covers.
pub(super) enum Container<'a> {
    Object(&'a mut ObjectNode, Option<&'a Map<String, Value>>),
    Array(&'a mut ArrayNode, &'a [Value]),
}

impl Node {
    /// Makes the children of this place changeable; `None` if it cannot have children.
    ///
    /// A base container costs nothing here. A value that was written whole is split
    /// one level deep, once.
    pub(super) fn open<'a>(&'a mut self, base: Option<&'a Value>) -> Option<Container<'a>> {
        match (&mut *self, base) {
            (Self::Base, Some(Value::Object(map))) => {
                *self = Self::Object(Box::new(ObjectNode::over(map)));
            }
            (Self::Base, Some(Value::Array(items))) => {
                *self = Self::Array(Box::new(ArrayNode::over(items.len())));
            }
            (Self::Value(Value::Object(map)), _) => {
                *self = Self::Object(Box::new(ObjectNode::owned(mem::take(map))));
            }
            (Self::Value(Value::Array(items)), _) => {
                *self = Self::Array(Box::new(ArrayNode::owned(mem::take(items))));
            }
            _ => {}
        }
        match self {
            Self::Object(object) => {
                let covered = object.covered(base);
                Some(Container::Object(object, covered))
            }
            Self::Array(array) => Some(Container::Array(array, elements(base))),
            Self::Base | Self::Removed | Self::Value(_) => None,
        }
    }

    /// Applies the changes to the base value itself.
    pub(super) fn write_to(self, base: &mut Value) {
        match self {
            Self::Base => {}
            Self::Removed => *base = Value::Null,
            Self::Value(value) => *base = value,
            Self::Object(object) => object.write_to(base),
            Self::Array(array) => {
                // An array that covers no base array uses none of its elements.
                if !base.is_array() {
                    *base = Value::Array(Vec::new());
                }
                if let Value::Array(items) = base {
                    array.write_to(items);
                }
            }
        }
    }

    /// Returns the value of a node that covers no base.
    pub(super) fn into_value(self) -> Value {
        let mut value = Value::Null;
        self.write_to(&mut value);
        value
    }
}

/// Returns the elements that an array node covers.
pub(super) fn elements(base: Option<&Value>) -> &[Value] {
    base.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// An object with changes on top.
#[derive(Debug)]
pub(in crate::state) struct ObjectNode {
    /// Whether keys without an entry read as in the base.
    over_base: bool,
    entries: BTreeMap<String, Node>,
    len: usize,
}

impl ObjectNode {
    /// Creates the unchanged object over `base`.
    fn over(base: &Map<String, Value>) -> Self {
        Self {
            over_base: true,
            entries: BTreeMap::new(),
            len: base.len(),
        }
    }

    /// Creates an object that does not refer to a base.
    fn owned(map: Map<String, Value>) -> Self {
        let len = map.len();
        let entries = map
            .into_iter()
            .map(|(key, value)| (key, Node::Value(value)))
            .collect();
        Self {
            over_base: false,
            entries,
            len,
        }
    }

    /// Returns the visible part of the base.
    pub(super) fn covered<'a>(&self, base: Option<&'a Value>) -> Option<&'a Map<String, Value>> {
        if self.over_base {
            base.and_then(Value::as_object)
        } else {
            None
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Iterates over the keys that were changed or removed.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Returns the value at `key`.
    pub(super) fn get<'a>(
        &'a self,
        key: &str,
        base: Option<&'a Map<String, Value>>,
    ) -> Option<View<'a>> {
        let covered = base.and_then(|map| map.get(key));
        match self.entries.get(key) {
            Some(node) => View::of(node, covered),
            None => covered.map(View::Plain),
        }
    }

    /// Returns the value at `key` to be changed, created as an empty object if missing, and its
    /// value in the base. The last part is the former entry, if this call had to change it.
    pub(super) fn child_mut<'a>(
        &'a mut self,
        key: String,
        base: Option<&'a Map<String, Value>>,
    ) -> (&'a mut Node, Option<&'a Value>, Option<Former>) {
        let covered = base.and_then(|map| map.get(&key));
        let missing = || Node::Value(Value::Object(Map::new()));
        match self.entries.entry(key) {
            Entry::Occupied(entry) => {
                let node = entry.into_mut();
                if matches!(node, Node::Removed) {
                    self.len += 1;
                    let former = mem::replace(node, missing());
                    return (node, None, Some(Former(Some(former))));
                }
                (node, covered, None)
            }
            Entry::Vacant(entry) => {
                let node = if covered.is_some() {
                    Node::Base
                } else {
                    self.len += 1;
                    missing()
                };
                (entry.insert(node), covered, Some(Former(None)))
            }
        }
    }

    /// Changes the entry of `key` and returns the former one. `None` means no entry: the key reads
    /// as in the base.
    pub(super) fn set(
        &mut self,
        key: &str,
        entry: Option<Node>,
        base: Option<&Map<String, Value>>,
    ) -> Option<Node> {
        let before = self.get(key, base).is_some();
        let former = match entry {
            Some(node) => self.entries.insert(key.to_owned(), node),
            None => self.entries.remove(key),
        };
        let after = self.get(key, base).is_some();
        self.len = self.len + usize::from(after) - usize::from(before);
        former
    }

    /// Removes `key` and returns its former entry.
    pub(super) fn remove(&mut self, key: &str, base: Option<&Map<String, Value>>) -> Option<Node> {
        let tombstone = base
            .is_some_and(|map| map.contains_key(key))
            .then_some(Node::Removed);
        self.set(key, tombstone, base)
    }

    /// Returns the whole object.
    pub(super) fn to_map(&self, base: Option<&Map<String, Value>>) -> Map<String, Value> {
        let own = self
            .entries
            .keys()
            .filter(|key| !base.is_some_and(|map| map.contains_key(*key)));
        let keys = base.into_iter().flat_map(Map::keys).chain(own);
        keys.filter_map(|key| Some((key.clone(), self.get(key, base)?.to_value())))
            .collect()
    }

    fn write_to(self, base: &mut Value) {
        if !self.over_base {
            *base = Value::Object(Map::new());
        }
        let Value::Object(map) = base else { return };
        for (key, node) in self.entries {
            if matches!(node, Node::Removed) {
                map.remove(&key);
            } else {
                node.write_to(map.entry(key).or_insert(Value::Null));
            }
        }
    }
}

/// The entry of a place before it was opened: `None` if it had none.
#[derive(Debug)]
pub(super) struct Former(pub(super) Option<Node>);
