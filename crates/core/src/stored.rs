//! The form in which things are stored: `["kind", version, data]`.
//!
//! The version is of the data's format. A reader that meets an older version brings it up to date;
//! one that meets a newer version says so and touches nothing. For each version of each kind a
//! golden file is kept, and a test reads them all.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::error::{Coded, ErrorCode};
use crate::message::Message;
use crate::state::StepWrites;
use crate::stream::Chunk;
use crate::usage::UsageEntry;

/// A type that is stored.
pub trait Stored: Serialize + DeserializeOwned {
    /// What it is called in the store.
    const KIND: &'static str;
    /// The format that is written now.
    const VERSION: u32;

    /// Brings data of an older version up to the next one. Called once for each version between.
    ///
    /// # Errors
    /// A sentence that says why the data cannot be brought up to date.
    fn upgrade(from: u32, data: Value) -> Result<Value, String> {
        let _ = data;
        Err(format!("there is no upgrade from version {from}"))
    }
}

/// Why something stored could not be read, or something could not be stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoredError {
    /// It is not what it should be.
    #[error("a stored {kind} cannot be read: {reason}; restore it from a backup or delete it")]
    Corrupt {
        /// What it should be.
        kind: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A newer version of this program wrote it.
    #[error(
        "a stored {kind} has format version {found}, this program reads up to {known}; upgrade this program"
    )]
    TooNew {
        /// What it is.
        kind: &'static str,
        /// Its version.
        found: u32,
        /// The newest version that is known here.
        known: u32,
    },
    /// It cannot be written so that it could be read again.
    #[error("a {kind} cannot be stored: {reason}; leave that part out")]
    NotStorable {
        /// What it is.
        kind: &'static str,
        /// Why.
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

/// The deepest nesting that is written. What reads JSON stops at 128 levels.
const MAX_NESTING: usize = 120;

/// Most of what is stored is smaller, so its text need not grow while it is written.
const USUAL_SIZE: usize = 1024;

/// The stored form of a value.
///
/// # Errors
/// [`StoredError::NotStorable`] when the value is not JSON, or is nested so deep that it could not
/// be read again.
pub fn encode<T: Stored>(value: &T) -> Result<String, StoredError> {
    to_text(T::KIND, &(T::KIND, T::VERSION, value))
}

/// The JSON text of a value that can be read again, for a backend with a form of its own.
///
/// # Errors
/// As [`encode`].
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
    // Nearly always there are too few of them to be nested deep. A small sum over a short piece is
    // what processors add up many at a time.
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

/// Reads a field that is there as `Some`, also when it is `null`.
pub(crate) fn present<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(field).map(Some)
}

/// Reads a stored value, of this version or an older one.
///
/// # Errors
/// [`StoredError`] when it is something else, broken, or newer than this program.
pub fn decode<T: Stored>(text: &str) -> Result<T, StoredError> {
    let corrupt = |reason: String| StoredError::Corrupt {
        kind: T::KIND,
        reason,
    };
    // The common case reads straight into the type.
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
    fn what_could_not_be_read_again_is_not_written() {
        let deepest = nested(MAX_NESTING);
        let text = to_text("value", &deepest).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), deepest);
        assert!(to_text("value", &nested(MAX_NESTING + 1)).is_err());
        let wide = json!(vec![json!({ "a\\\"[": [1, { "b": "]]\\" }] }); MAX_NESTING]);
        assert!(to_text("value", &wide).is_ok());
    }
}
