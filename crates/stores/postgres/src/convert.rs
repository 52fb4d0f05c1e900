//! Conversions between our types and those of the columns.

use helix_agents_core::stored::{Stored, StoredError, decode, encode};
use helix_agents_core::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::operation_error::OperationError;

pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(crate) fn size(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}

pub(crate) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn millis(time: Timestamp) -> i64 {
    signed(time.as_millis())
}

pub(crate) fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(unsigned(millis))
}

/// The stored form of a value.
pub(crate) fn document<T: Stored>(value: &T) -> Result<Vec<u8>, StoredError> {
    Ok(encode(value)?.into_bytes())
}

/// The stored forms of several values, one line each: JSON has no line breaks of its own.
pub(crate) fn lines<T: Stored>(values: &[T]) -> Result<Vec<u8>, StoredError> {
    let mut all = Vec::new();
    for value in values {
        if !all.is_empty() {
            all.push(b'\n');
        }
        all.extend(encode(value)?.into_bytes());
    }
    Ok(all)
}

/// A stored value.
pub(crate) fn parse<T: Stored>(bytes: &[u8]) -> Result<T, StoredError> {
    decode(text(T::KIND, bytes)?)
}

/// The values of lines, as [`lines`] writes them.
pub(crate) fn parse_lines<T: Stored>(bytes: &[u8]) -> Result<Vec<T>, StoredError> {
    let lines = text(T::KIND, bytes)?.lines();
    lines.filter(|line| !line.is_empty()).map(decode).collect()
}

/// A column as text.
pub(crate) fn text<'a>(kind: &'static str, bytes: &'a [u8]) -> Result<&'a str, StoredError> {
    std::str::from_utf8(bytes).map_err(|error| corrupt(kind, error.to_string()))
}

/// Parses a column as an id.
pub(crate) fn id<T>(kind: &'static str, bytes: &[u8]) -> Result<T, StoredError>
where
    T: for<'a> TryFrom<&'a str, Error = helix_agents_core::IdError>,
{
    T::try_from(text(kind, bytes)?).map_err(|error| corrupt(kind, error.to_string()))
}

pub(crate) fn corrupt(kind: &'static str, reason: impl Into<String>) -> StoredError {
    let reason = reason.into();
    StoredError::Corrupt { kind, reason }
}

/// The serialised name of a variant of an enum without fields.
pub(crate) fn variant_name<T: Serialize>(
    kind: &'static str,
    value: T,
) -> Result<String, OperationError> {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => Ok(name),
        Ok(_) => Err(corrupt(kind, "it is not stored as a name").into()),
        Err(error) => Err(corrupt(kind, error.to_string()).into()),
    }
}

/// The variant of this serialised name.
pub(crate) fn from_name<T: DeserializeOwned>(
    kind: &'static str,
    name: String,
) -> Result<T, StoredError> {
    serde_json::from_value(Value::String(name)).map_err(|error| corrupt(kind, error.to_string()))
}
