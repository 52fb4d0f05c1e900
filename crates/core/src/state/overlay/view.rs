//! Reading a document through its overlay.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{
    array::ArrayNode,
    node::{self, Node, ObjectNode},
};
use crate::state::{JsonKind, pointer::array_index};

/// A value as it is now: the changes of the overlay over the base.
#[derive(Debug, Clone, Copy)]
pub(in crate::state) enum View<'a> {
    /// A value in one piece.
    Plain(&'a Value),
    /// A changed object and the visible part of the base.
    Object(&'a ObjectNode, Option<&'a Map<String, Value>>),
    /// A changed array and the base elements it refers to.
    Array(&'a ArrayNode, &'a [Value]),
}

impl<'a> View<'a> {
    /// Combines a node with the base below it; `None` if the place is empty.
    pub(super) fn of(node: &'a Node, base: Option<&'a Value>) -> Option<Self> {
        match node {
            Node::Base => base.map(Self::Plain),
            Node::Removed => None,
            Node::Value(value) => Some(Self::Plain(value)),
            Node::Object(object) => Some(Self::Object(object, object.covered(base))),
            Node::Array(array) => Some(Self::Array(array, node::elements(base))),
        }
    }

    pub(in crate::state) fn kind(self) -> JsonKind {
        match self {
            Self::Plain(value) => JsonKind::from(value),
            Self::Object(..) => JsonKind::Object,
            Self::Array(..) => JsonKind::Array,
        }
    }

    pub(in crate::state) fn is_array(self) -> bool {
        self.kind() == JsonKind::Array
    }

    /// Returns the number of elements or keys; `None` for a scalar.
    pub(in crate::state) fn len(self) -> Option<usize> {
        match self {
            Self::Plain(Value::Array(items)) => Some(items.len()),
            Self::Plain(Value::Object(map)) => Some(map.len()),
            Self::Plain(_) => None,
            Self::Object(object, _) => Some(object.len()),
            Self::Array(array, _) => Some(array.len()),
        }
    }

    /// Returns the child that a segment of a pointer names.
    pub(in crate::state) fn child(self, segment: &str) -> Option<Self> {
        match self {
            Self::Plain(Value::Object(map)) => map.get(segment).map(Self::Plain),
            Self::Object(object, base) => object.get(segment, base),
            Self::Plain(_) | Self::Array(..) => self.item(array_index(segment)?),
        }
    }

    /// Returns the element of an array at an index.
    pub(in crate::state) fn item(self, index: usize) -> Option<Self> {
        match self {
            Self::Plain(value) => value.get(index).map(Self::Plain),
            Self::Array(array, base) => array.get(index, base),
            Self::Object(..) => None,
        }
    }

    /// Returns the value, borrowed if it is in one piece.
    pub(in crate::state) fn to_cow(self) -> Cow<'a, Value> {
        match self {
            Self::Plain(value) => Cow::Borrowed(value),
            Self::Object(object, base) => Cow::Owned(Value::Object(object.to_map(base))),
            Self::Array(array, base) => Cow::Owned(Value::Array(array.to_values(base))),
        }
    }

    pub(in crate::state) fn to_value(self) -> Value {
        self.to_cow().into_owned()
    }
}
