//! Values of any size: small ones in their row, the large parts of others once for the whole file.
//!
//! A value is JSON text. Up to [`LARGE`] bytes it is stored in its row, as TEXT. In a larger value every
//! string over that size moves to the table `blob`, under its SHA-256, and so does the rest if it is still
//! large. The row then holds a BLOB, an index of the parts. `blob_use` records which row uses which blob;
//! a blob is deleted with its last use.

use rusqlite::types::{ToSqlOutput, Value as SqlValue, ValueRef};
use rusqlite::{Connection, OptionalExtension, ToSql, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::key::OwnerId;
use crate::operation_error::OperationError;

/// The size in bytes above which strings are stored in the table `blob`.
const LARGE: usize = 64 * 1024;

/// The table that a value belongs to. The numbers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    Chunk = 0,
    Header = 1,
    Entry = 2,
    State = 3,
    OpenStep = 4,
    Pending = 5,
    Run = 6,
    Usage = 7,
    Staged = 8,
    Child = 9,
}

/// The row that a value is stored in, as `blob_use` names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowRef {
    pub(crate) owner: OwnerId,
    pub(crate) kind: ValueKind,
    pub(crate) key: i64,
}

impl RowRef {
    pub(crate) fn new(owner: OwnerId, kind: ValueKind, key: i64) -> Self {
        Self { owner, kind, key }
    }
}

/// The content of the column of a value.
#[derive(Debug)]
pub(crate) enum Cell {
    /// The whole value, as JSON text.
    Plain(String),
    /// The [`Index`] of a value whose large parts are in the table `blob`.
    Split(Vec<u8>),
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Plain(text) => ValueRef::Text(text.as_bytes()),
            Self::Split(index) => ValueRef::Blob(index),
        }))
    }
}

/// The JSON in a BLOB: the rest of the value, and the JSON pointer and hash of each large string.
#[derive(Debug, Serialize, Deserialize)]
struct Index {
    version: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parts: Vec<(String, String)>,
    rest: Rest,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Rest {
    Here(Value),
    Blob(String),
}

const VERSION: u32 = 1;

/// Whether a value of this text is stored with an index.
pub(crate) fn is_large(text: &str) -> bool {
    text.len() > LARGE
}

/// Stores the large parts of a value, and returns the content of its column.
pub(crate) fn put(conn: &Connection, holder: RowRef, text: String) -> Result<Cell, OperationError> {
    if !is_large(&text) {
        return Ok(Cell::Plain(text));
    }
    let kind = "value";
    let mut value: Value = serde_json::from_str(&text)
        .map_err(|error| OperationError::not_storable(kind, error.to_string()))?;
    let mut parts = Vec::new();
    let mut place = String::new();
    take_large(&mut value, &mut place, &mut |place, string| {
        parts.push((place.to_owned(), keep(conn, holder, &string)?));
        Ok(())
    })?;
    let json = |value: &Index| {
        serde_json::to_vec(value)
            .map_err(|error| OperationError::not_storable(kind, error.to_string()))
    };
    let index = Index {
        version: VERSION,
        parts,
        rest: Rest::Here(value),
    };
    let bytes = json(&index)?;
    if bytes.len() <= LARGE {
        return Ok(Cell::Split(bytes));
    }
    let Rest::Here(value) = &index.rest else {
        return Ok(Cell::Split(bytes));
    };
    let rest = Rest::Blob(keep(conn, holder, &value.to_string())?);
    json(&Index { rest, ..index }).map(Cell::Split)
}

/// Replaces every large string by `null`, and calls `taken` with its JSON pointer and the string.
fn take_large(
    value: &mut Value,
    place: &mut String,
    taken: &mut impl FnMut(&str, String) -> Result<(), OperationError>,
) -> Result<(), OperationError> {
    match value {
        Value::String(string) if string.len() > LARGE => {
            let string = std::mem::take(string);
            *value = Value::Null;
            taken(place, string)
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                inside(place, &index.to_string(), |place| {
                    take_large(item, place, taken)
                })?;
            }
            Ok(())
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let escaped = name.replace('~', "~0").replace('/', "~1");
                inside(place, &escaped, |place| take_large(field, place, taken))?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn inside<T>(place: &mut String, name: &str, inner: impl FnOnce(&mut String) -> T) -> T {
    let length = place.len();
    place.push('/');
    place.push_str(name);
    let result = inner(place);
    place.truncate(length);
    result
}

fn keep(conn: &Connection, holder: RowRef, text: &str) -> Result<String, OperationError> {
    let hash = Sha256::digest(text.as_bytes());
    conn.prepare_cached("INSERT OR IGNORE INTO blob (hash, data) VALUES (?, ?)")?
        .execute(params![hash.as_slice(), text])?;
    conn.prepare_cached("INSERT OR IGNORE INTO blob_use VALUES (?, ?, ?, ?)")?
        .execute(params![
            holder.owner,
            holder.kind as i64,
            holder.key,
            hash.as_slice()
        ])?;
    Ok(hash.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Reads the JSON text of a value, whose column has this content.
pub(crate) fn get(conn: &Connection, cell: SqlValue) -> Result<String, OperationError> {
    let index = match cell {
        SqlValue::Text(text) => return Ok(text),
        SqlValue::Blob(index) => index,
        _ => return Err(OperationError::corrupt("value", "it is a number")),
    };
    let corrupt = |reason: String| OperationError::corrupt("value", reason);
    let index: Index =
        serde_json::from_slice(&index).map_err(|error| corrupt(error.to_string()))?;
    if index.version != VERSION {
        return Err(corrupt(format!("its index has version {}", index.version)));
    }
    let mut value = match index.rest {
        Rest::Here(value) => value,
        Rest::Blob(hash) => {
            let text = fetch(conn, &hash)?;
            serde_json::from_str(&text).map_err(|error| corrupt(error.to_string()))?
        }
    };
    for (place, hash) in index.parts {
        let slot = value
            .pointer_mut(&place)
            .ok_or_else(|| corrupt(format!("it has no part {place}")))?;
        *slot = Value::String(fetch(conn, &hash)?);
    }
    Ok(value.to_string())
}

fn fetch(conn: &Connection, hash: &str) -> Result<String, OperationError> {
    conn.prepare_cached("SELECT data FROM blob WHERE hash = unhex(?)")?
        .query_row([hash], |row| row.get(0))
        .optional()?
        .ok_or_else(|| OperationError::corrupt("value", format!("its part {hash} is missing")))
}

/// Removes the uses of blobs by a row that was deleted or is about to be overwritten.
pub(crate) fn release(conn: &Connection, holder: RowRef) -> Result<(), OperationError> {
    let RowRef { owner, kind, key } = holder;
    release_range(conn, owner, kind, key, key)
}

/// As [`release`], for all rows of an owner and a kind whose keys are within these bounds.
pub(crate) fn release_range(
    conn: &Connection,
    owner: OwnerId,
    kind: ValueKind,
    from: i64,
    to: i64,
) -> Result<(), OperationError> {
    let hashes: Vec<Vec<u8>> = conn
        .prepare_cached(
            "DELETE FROM blob_use WHERE owner = ? AND kind = ? AND key BETWEEN ? AND ? \
             RETURNING hash",
        )?
        .query_map(params![owner, kind as i64, from, to], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for hash in hashes {
        conn.prepare_cached(
            "DELETE FROM blob WHERE hash = ?1 \
             AND NOT EXISTS (SELECT 1 FROM blob_use WHERE hash = ?1)",
        )?
        .execute([hash])?;
    }
    Ok(())
}
