//! The errors of reading and changing a state.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{MAX_DEPTH, Pointer};
use crate::bounds::Exceeded;

/// Why a state could not be read or changed.
///
/// Every operation that fails leaves the state as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The text is not a JSON pointer (RFC 6901).
    #[error(
        "`{pointer}` is not a JSON pointer: {reason}; write it like `/items/0`, with `~0` for `~` and `~1` for `/` inside a key"
    )]
    InvalidPointer {
        /// The text as it was given.
        pointer: String,
        /// The rule it breaks.
        reason: &'static str,
    },

    /// The root of a state is not, or would no longer be, an object.
    #[error("a state cannot be {found}; keep an object at its root and put the value under a key")]
    RootNotObject {
        /// The kind of value at the root.
        found: JsonKind,
    },

    /// Code that changes the state accessed the state outside its draft.
    #[error("the state is being changed by the code that asks for it; use the draft it was given")]
    Reentrant,

    /// The root of a state cannot be removed.
    #[error("a state's root cannot be removed; set it to an empty object instead")]
    RootRemoved,

    /// The path leads through a value that has no children.
    #[error("`{path}` leads through {found} at `{at}`; replace that value by an object first")]
    NotAContainer {
        /// The path that was requested.
        path: Pointer,
        /// The place at which it stops.
        at: Pointer,
        /// The kind of value at that place.
        found: JsonKind,
    },

    /// A value was appended to or inserted into something that is not an array.
    #[error("`{path}` is {found}, not an array; set it to an array first")]
    NotAnArray {
        /// Where an array was expected.
        path: Pointer,
        /// The kind of value that is there.
        found: JsonKind,
    },

    /// A number was added to a value that is not a number.
    #[error("`{path}` is {found}, not a number; set it to a number first")]
    NotANumber {
        /// Where a number was expected.
        path: Pointer,
        /// The kind of value that is there.
        found: JsonKind,
    },

    /// The segment does not name an element of the array that it addresses.
    #[error(
        "`{path}` names no element of the array at `{array}`, which has {len}; use an index below that, or push"
    )]
    NoSuchElement {
        /// The path that was requested.
        path: Pointer,
        /// The array that it addresses.
        array: Pointer,
        /// The number of elements in the array.
        len: usize,
    },

    /// The sum does not fit a JSON number.
    #[error("incrementing `{path}` overflows a JSON number; keep counters within 64 bits")]
    Overflow {
        /// The number that was incremented.
        path: Pointer,
    },

    /// A required value is missing: one to patch, or an array to insert into.
    #[error("nothing is at `{path}`; create it first, and apply patches in order")]
    NotFound {
        /// The path of the missing value.
        path: Pointer,
    },

    /// A value has no JSON form: NaN, an infinity, a map key that is not a string, ...
    #[error("the value at `{path}` has no JSON form: {reason}; store a value that JSON can hold")]
    NotJson {
        /// The path of the invalid part in the given value.
        path: Pointer,
        /// Why it has no JSON form.
        reason: String,
    },

    /// The state would be nested too deeply to be read again.
    #[error(
        "the value at `{path}` is nested deeper than {MAX_DEPTH} levels, or contains itself; flatten it"
    )]
    TooDeep {
        /// The path at which the value was to be set.
        path: Pointer,
    },

    /// A value exceeds its limit.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),

    /// The value does not have the requested type.
    #[error(
        "the value at `{path}` does not have the expected type; read it as a JSON value to see what it is"
    )]
    Mismatch {
        /// The path that was read.
        path: Pointer,
        /// The error of the deserialization.
        #[source]
        source: serde_json::Error,
    },
}

/// The six kinds of JSON values, as errors name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JsonKind {
    /// The JSON value `null`.
    Null,
    /// The values `true` and `false`.
    Bool,
    /// A JSON number.
    Number,
    /// A JSON string.
    String,
    /// A JSON array.
    Array,
    /// A JSON object.
    Object,
}

impl From<&Value> for JsonKind {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Bool,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        }
    }
}

impl std::fmt::Display for JsonKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        })
    }
}
