//! JSON values that are shared: a clone copies nothing, and the text is made once.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::canonical::canonical_json;

/// A JSON value that cannot be changed. Clones share the value and its text.
///
/// It dereferences to [`Value`], and compares with one:
///
/// ```
/// use helix_agents_core::json::Json;
/// use serde_json::json;
///
/// let arguments = Json::from(json!({ "cents": 5000 }));
/// assert_eq!(arguments["cents"], 5000);
/// assert_eq!(arguments, json!({ "cents": 5000 }));
/// assert_eq!(arguments.text(), r#"{"cents":5000}"#);
/// ```
#[derive(Clone)]
pub struct Json(Arc<Shared>);

/// At least one of the two is there; the other is made of it.
#[derive(Default)]
struct Shared {
    value: OnceLock<Value>,
    text: OnceLock<String>,
}

/// The number of brackets up to which a text is certainly not nested too deeply to be read.
const FEW_BRACKETS: usize = 100;

impl Json {
    /// Returns the canonical text of the value: the same for equal values.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.text.get_or_init(|| canonical_json(self))
    }

    /// Returns the same value as its text alone, which takes less memory. It is read again when
    /// somebody looks into it.
    #[must_use]
    pub(crate) fn packed(&self) -> Self {
        let has_parts = self.0.value.get().is_some_and(|value| match value {
            Value::Array(items) => !items.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            _ => false,
        });
        if !has_parts {
            return self.clone();
        }
        let text = self.0.text.get().cloned();
        let text = text.unwrap_or_else(|| canonical_json(self));
        if text.matches(['{', '[']).count() > FEW_BRACKETS {
            return self.clone();
        }
        Self(Arc::new(Shared {
            text: OnceLock::from(text),
            ..Shared::default()
        }))
    }

    /// Returns the length of its text, estimated while there is none.
    pub(crate) fn size(&self) -> usize {
        match self.0.text.get() {
            Some(text) => text.len(),
            None => value_size(self),
        }
    }

    /// Returns the value, which is copied only if another clone is left.
    #[must_use]
    pub fn into_value(self) -> Value {
        match Arc::try_unwrap(self.0) {
            Ok(shared) => {
                let read = || read(&shared.text);
                shared.value.into_inner().unwrap_or_else(read)
            }
            Err(shared) => Value::clone(&Self(shared)),
        }
    }
}

/// Estimates the length of a value's text.
pub(crate) fn value_size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| value_size(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => {
            let fields = fields.iter();
            let sizes = fields.map(|(name, value)| name.len() + 4 + value_size(value));
            sizes.sum::<usize>() + 2
        }
    }
}

/// Reads the text of a value.
fn read(text: &OnceLock<String>) -> Value {
    let text = text.get().map_or("", String::as_str);
    // It was written by us, and is not nested deeply.
    serde_json::from_str(text).unwrap_or_default()
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Self(Arc::new(Shared {
            value: OnceLock::from(value),
            ..Shared::default()
        }))
    }
}

/// `null`, which all share.
impl Default for Json {
    fn default() -> Self {
        static NULL: LazyLock<Json> = LazyLock::new(|| Value::Null.into());
        NULL.clone()
    }
}

impl Deref for Json {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.0.value.get_or_init(|| read(&self.0.text))
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || **self == **other
    }
}

impl PartialEq<Value> for Json {
    fn eq(&self, other: &Value) -> bool {
        **self == *other
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Value::fmt(self, f)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Value::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_packed_value_is_the_same_value() {
        let values = [
            json!(null),
            json!("text"),
            json!({}),
            json!({ "b": [1, 2.5, "\u{1}\"x"], "a": { "c": null } }),
        ];
        for value in values {
            let json = Json::from(value.clone());
            let packed = json.packed();
            assert_eq!(packed, json);
            assert_eq!(packed.text(), json.text());
            assert_eq!(packed.packed(), value);
            assert_eq!(json.packed().into_value(), value);
        }
    }

    #[test]
    fn a_packed_value_is_kept_as_text_until_somebody_looks() {
        let packed = Json::from(json!({ "a": 1 })).packed();
        assert_eq!(packed.0.value.get(), None);
        assert_eq!(packed["a"], 1);
        assert!(packed.0.value.get().is_some());
    }

    #[test]
    fn a_value_that_could_not_be_read_again_is_not_packed() {
        let deep = (0..500).fold(json!(1), |inner, _| json!([inner]));
        let json = Json::from(deep.clone());
        assert_eq!(json.packed(), deep);
    }
}
