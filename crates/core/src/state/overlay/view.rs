//! Reading through an overlay.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{
    array::ArrayNode,
    node::{self, Node, ObjectNode},
};
use crate::state::{JsonKind, pointer::array_index};

/// A value as it is now: what the overlay changed, and the base where it changed nothing.
#[derive(Debug, Clone, Copy)]
pub(in crate::state) enum View<'a> {
    /// A value in one piece.
    Plain(&'a Value),
    /// A changed object and what shows through of the base.
    Object(&'a ObjectNode, Option<&'a Map<String, Value>>),
    /// A changed array and the base elements it refers to.
    Array(&'a ArrayNode, &'a [Value]),
}

impl<'a> View<'a> {
    /// What a node and the base below it make together; `None` when nothing is there.
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

    /// The number of elements or keys; `None` for a scalar.
    pub(in crate::state) fn len(self) -> Option<usize> {
        match self {
            Self::Plain(Value::Array(items)) => Some(items.len()),
            Self::Plain(Value::Object(map)) => Some(map.len()),
            Self::Plain(_) => None,
            Self::Object(object, _) => Some(object.len()),
            Self::Array(array, _) => Some(array.len()),
        }
    }

    /// The child that a segment of a pointer names.
    pub(in crate::state) fn child(self, segment: &str) -> Option<Self> {
        match self {
            Self::Plain(Value::Object(map)) => map.get(segment).map(Self::Plain),
            Self::Object(object, base) => object.get(segment, base),
            Self::Plain(_) | Self::Array(..) => self.item(array_index(segment)?),
        }
    }

    /// The element of an array.
    pub(in crate::state) fn item(self, index: usize) -> Option<Self> {
        match self {
            Self::Plain(value) => value.get(index).map(Self::Plain),
            Self::Array(array, base) => array.get(index, base),
            Self::Object(..) => None,
        }
    }

    /// The value, borrowed when it is in one piece.
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
