//! The JSON text of stored values.

use helix_agents_core::stored::{self, Stored};
use serde::Serialize;

use crate::operation_error::OperationError;

/// The JSON text of a value, if it can be read again.
pub(crate) fn text<T: Serialize + ?Sized>(
    kind: &'static str,
    value: &T,
) -> Result<String, OperationError> {
    Ok(stored::to_text(kind, value)?)
}

/// The stored form of a value: its kind, version and data.
pub(crate) fn stored<T: Stored>(value: &T) -> Result<String, OperationError> {
    Ok(stored::encode(value)?)
}
