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

struct Shared {
    value: Value,
    text: OnceLock<String>,
}

impl Json {
    /// Returns the canonical text of the value: the same for equal values.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.text.get_or_init(|| canonical_json(&self.0.value))
    }

    /// Returns the value, which is copied only if another clone is left.
    #[must_use]
    pub fn into_value(self) -> Value {
        match Arc::try_unwrap(self.0) {
            Ok(shared) => shared.value,
            Err(shared) => shared.value.clone(),
        }
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        let text = OnceLock::new();
        Self(Arc::new(Shared { value, text }))
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
        &self.0.value
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.value == other.0.value
    }
}

impl PartialEq<Value> for Json {
    fn eq(&self, other: &Value) -> bool {
        self.0.value == *other
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.value.fmt(f)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.value.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}
