//! The format of stored records: `["kind", version, data]`.
//!
//! The version is that of the data's format. A reader upgrades an older version; it reports a newer one
//! and changes nothing. For each version of each kind a golden file is kept, and a test reads them all.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::error::{Coded, ErrorCode};
use crate::message::Message;
use crate::state::StepWrites;
use crate::stream::Chunk;
use crate::usage::UsageEntry;

/// A type that can be stored.
pub trait Stored: Serialize + DeserializeOwned {
    /// The name of the kind in the store.
    const KIND: &'static str;
    /// The current format version.
    const VERSION: u32;

    /// Upgrades data of an older version to the next one. Called once for each version between.
    ///
    /// # Errors
    /// A sentence that explains why the data cannot be upgraded.
    fn upgrade(from: u32, data: Value) -> Result<Value, String> {
        let _ = data;
        Err(format!("no upgrade from version {from}"))
    }
}

/// Why a stored record could not be read, or a value could not be stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoredError {
    /// The record is not valid.
    #[error("a stored {kind} cannot be read: {reason}; restore it from a backup or delete it")]
    Corrupt {
        /// The kind that was expected.
        kind: &'static str,
        /// The reason why the record is not valid.
        reason: String,
    },
    /// A newer version of this program wrote the record.
    #[error(
        "a stored {kind} has format version {found}, this program reads up to {known}; upgrade this program"
    )]
    TooNew {
        /// The kind of the record.
        kind: &'static str,
        /// The version of the record.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// The value cannot be written in a form that can be read again.
    #[error("a {kind} cannot be stored: {reason}; leave that part out")]
    NotStorable {
        /// The kind of the value.
        kind: &'static str,
        /// Why it cannot be stored.
        reason: String,
    },
}

impl Coded for StoredError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Corrupt { .. } => ErrorCode::StateCorrupt,
            Self::TooNew { .. } => ErrorCode::StateUnsupportedVersion,
            Self::NotStorable { .. } => ErrorCode::StateInvalid,
        }
    }
}

/// The deepest nesting that is written. JSON parsers stop at 128 levels.
const MAX_NESTING: usize = 120;

/// Most records are smaller, so their text need not grow while it is written.
const USUAL_SIZE: usize = 1024;

/// Encodes a value in its stored form.
///
/// # Errors
/// [`StoredError::NotStorable`] if the value is not JSON, or is nested too deeply to be read again.
pub fn encode<T: Stored>(value: &T) -> Result<String, StoredError> {
    to_text(T::KIND, &(T::KIND, T::VERSION, value))
}

/// Encodes a value as JSON text that can be read again, for a backend with its own format.
///
/// # Errors
/// The same as for [`encode`].
pub fn to_text<T: Serialize + ?Sized>(
    kind: &'static str,
    value: &T,
) -> Result<String, StoredError> {
    let not_storable = |reason: String| StoredError::NotStorable { kind, reason };
    let mut text = Vec::with_capacity(USUAL_SIZE);
    serde_json::to_writer(&mut text, value).map_err(|error| not_storable(error.to_string()))?;
    let text = String::from_utf8(text).map_err(|error| not_storable(error.to_string()))?;
    if is_nested_too_deep(&text) {
        return Err(not_storable(format!(
            "it is nested deeper than {MAX_NESTING} levels"
        )));
    }
    Ok(text)
}

fn is_nested_too_deep(json: &str) -> bool {
    // Nearly always there are too few brackets for deep nesting. A small sum over a short piece
    // lets the compiler vectorize the loop.
    let opening = json.as_bytes().chunks(usize::from(u8::MAX)).map(|piece| {
        let opening = piece
            .iter()
            .map(|byte| u8::from(matches!(byte, b'[' | b'{')));
        usize::from(opening.sum::<u8>())
    });
    if opening.sum::<usize>() <= MAX_NESTING {
        return false;
    }
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in json.bytes() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest > MAX_NESTING
}

/// Reads a field that is present as `Some`, even if it is `null`.
pub(crate) fn present<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(field).map(Some)
}

/// Decodes a stored value, of this version or an older one.
///
/// # Errors
/// [`StoredError`] if it is of another kind, not valid, or newer than this program.
pub fn decode<T: Stored>(text: &str) -> Result<T, StoredError> {
    let corrupt = |reason: String| StoredError::Corrupt {
        kind: T::KIND,
        reason,
    };
    // The common case deserializes straight into the type.
    if let Ok((kind, version, value)) = serde_json::from_str::<(&str, u32, T)>(text)
        && kind == T::KIND
        && version == T::VERSION
    {
        return Ok(value);
    }
    let (kind, mut version, mut data): (String, u32, Value) =
        serde_json::from_str(text).map_err(|error| corrupt(error.to_string()))?;
    if kind != T::KIND {
        return Err(corrupt(format!("it is a {kind}")));
    }
    if version > T::VERSION {
        return Err(StoredError::TooNew {
            kind: T::KIND,
            found: version,
            known: T::VERSION,
        });
    }
    while version < T::VERSION {
        data = T::upgrade(version, data).map_err(corrupt)?;
        version += 1;
    }
    T::deserialize(data).map_err(|error| corrupt(error.to_string()))
}

impl Stored for Message {
    const KIND: &'static str = "message";
    const VERSION: u32 = 1;
}

impl Stored for StepWrites {
    const KIND: &'static str = "writes";
    const VERSION: u32 = 1;
}

impl Stored for UsageEntry {
    const KIND: &'static str = "usage";
    const VERSION: u32 = 1;
}

impl Stored for Chunk {
    const KIND: &'static str = "chunk";
    const VERSION: u32 = 1;
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!("[[{"), |inner, _| json!([inner]))
    }

    #[test]
    fn a_value_nested_too_deeply_to_be_read_again_is_not_written() {
        let deepest = nested(MAX_NESTING);
        let text = to_text("value", &deepest).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), deepest);
        assert!(to_text("value", &nested(MAX_NESTING + 1)).is_err());
        let wide = json!(vec![json!({ "a\\\"[": [1, { "b": "]]\\" }] }); MAX_NESTING]);
        assert!(to_text("value", &wide).is_ok());
    }
}
