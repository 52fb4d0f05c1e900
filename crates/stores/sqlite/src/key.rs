//! Row keys, and conversions between our types and SQLite's.

use helix_agents_core::stream::Incarnation;
use helix_agents_core::time::Timestamp;
use rusqlite::ToSql;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::operation_error::OperationError;

const HALF: u32 = 32;

/// The number of the row of a session or a stream. The rows that belong to it have keys that begin with
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct OwnerId(pub(crate) i64);

impl ToSql for OwnerId {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.into())
    }
}

impl FromSql for OwnerId {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(Self)
    }
}

impl OwnerId {
    /// The incarnation of the stream of this number. SQLite never reuses a number.
    pub(crate) fn incarnation(self) -> Incarnation {
        Incarnation(unsigned(self.0))
    }

    /// The key of the row with this number, from 0, of one table.
    ///
    /// # Errors
    /// When the number does not fit into 32 bits.
    pub(crate) fn row(self, number: u64) -> Result<i64, OperationError> {
        match u32::try_from(number) {
            Ok(number) => Ok(self.first() + i64::from(number)),
            Err(_) => Err(OperationError::internal(
                "a session has more than 2^32 rows of a kind",
            )),
        }
    }

    /// As [`OwnerId::row`], for a bound of a query: a number that does not fit gives the largest key.
    pub(crate) fn bound(self, number: u64) -> i64 {
        self.first() + i64::from(u32::try_from(number).unwrap_or(u32::MAX))
    }

    /// The smallest key that a row of this owner can have.
    pub(crate) fn first(self) -> i64 {
        self.0 << HALF
    }

    /// The largest key that a row of this owner can have.
    pub(crate) fn last(self) -> i64 {
        self.first() + i64::from(u32::MAX)
    }

    /// The number of the row with this key; the reverse of [`OwnerId::row`].
    pub(crate) fn number(self, key: i64) -> u64 {
        unsigned(key - self.first())
    }

    /// The key of the row of a generated id: it grows with the time in the id, so that rows that are
    /// written one after another lie so. Two ids rarely have the same one.
    pub(crate) fn timed_key(self, uuid: u128) -> i64 {
        // Below the milliseconds are bits of the id that differ within one.
        let time = (uuid >> 80) << 6 | uuid & 0x3f;
        self.first() + i64::from(u32::try_from(time & u128::from(u32::MAX)).unwrap_or_default())
    }

    /// A key made of a hash of the name. Two names rarely have the same one.
    pub(crate) fn hashed_key(self, name: &str) -> i64 {
        let hash = Sha256::digest(name.as_bytes());
        let low = hash.iter().take(4);
        let low = low.fold(0_i64, |all, byte| (all << 8) | i64::from(*byte));
        self.first() + low
    }
}

pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(crate) fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

pub(crate) fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

pub(crate) fn millis(time: Timestamp) -> i64 {
    signed(time.as_millis())
}

pub(crate) fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(unsigned(millis))
}

/// The serialised name of a variant of an enum without fields.
pub(crate) fn variant_name<T: Serialize>(
    kind: &'static str,
    value: T,
) -> Result<String, OperationError> {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => Ok(name),
        Ok(_) => Err(OperationError::corrupt(kind, "it is not stored as a name")),
        Err(error) => Err(OperationError::not_storable(kind, error.to_string())),
    }
}

/// The variant of this serialised name, or a value that is parsed from a text.
pub(crate) fn from_name<T: DeserializeOwned>(
    kind: &'static str,
    name: String,
) -> Result<T, OperationError> {
    serde_json::from_value(Value::String(name))
        .map_err(|error| OperationError::corrupt(kind, error.to_string()))
}

/// Parses a text column as an id.
pub(crate) fn parse_column<T>(value: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T: for<'a> TryFrom<&'a str, Error = helix_agents_core::IdError>,
{
    let text = value.get_ref(column)?.as_str()?;
    T::try_from(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(
            column,
            rusqlite::types::Type::Text,
            Box::new(FromSqlError::Other(Box::new(error))),
        )
    })
}
