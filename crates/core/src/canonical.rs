//! The canonical text of a JSON value, and digests over it.
//!
//! Approvals, idempotency keys and repeated requests compare digests, so equal values must have
//! equal texts in every process and for ever.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::id::{CallId, RunId, SessionId};

/// The room that is made for a text at first.
const USUAL_BYTES: usize = 32;

/// Returns the canonical text of a value: object keys sorted by their bytes, no white space,
/// numbers as `serde_json` prints them.
#[must_use]
#[doc(hidden)]
pub fn canonical_json(value: &Value) -> String {
    let mut out = String::with_capacity(USUAL_BYTES);
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Object(map) => {
            // A user's build may enable serde_json's `preserve_order`, so the keys are sorted here.
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_bytes());
            out.push('{');
            for (index, (key, item)) in entries.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_text(key, out);
                out.push(':');
                write_canonical(item, out);
            }
            out.push('}');
        }
        Value::String(text) => write_text(text, out),
        // Writing to a string does not fail.
        scalar => drop(write!(out, "{scalar}")),
    }
}

/// Writes a text as JSON. Most have nothing to escape.
fn write_text(text: &str, out: &mut String) {
    let is_escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    if text.bytes().any(is_escaped) {
        out.push_str(&Value::from(text).to_string());
    } else {
        out.push('"');
        out.push_str(text);
        out.push('"');
    }
}

/// A SHA-256 digest, written as 64 hexadecimal characters.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// Computes the digest of several parts. The length of each part is hashed too, so that parts
    /// cannot run into each other.
    #[must_use]
    #[doc(hidden)]
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        Self(hash.finalize().into())
    }

    /// Computes the digest to which an approval is bound: the tool and its canonical arguments.
    #[must_use]
    #[doc(hidden)]
    pub fn of_call(tool: &str, arguments: &Value) -> Self {
        Self::of_parts(["call", tool, &canonical_json(arguments)])
    }
}

/// Returns the idempotency key of a call, the same for every attempt.
///
/// `run` is the one whose model made the call. Session and call alone would not suffice: a session
/// created under the id of a deleted one may have calls with the same ids.
#[must_use]
#[doc(hidden)]
pub fn idempotency_key(session: &SessionId, run: &RunId, call: &CallId) -> String {
    let (session, run, call) = (session.as_str(), run.as_str(), call.as_str());
    Digest::of_parts(["idempotency", session, run, call]).to_string()
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |nibble: u8| match nibble {
            0..=9 => b'0' + nibble,
            _ => b'a' + nibble - 10,
        };
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[hex(byte >> 4), hex(byte & 15)]);
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let bad = || format!("{text:?} is not a digest; it has 64 hexadecimal characters");
        if text.len() != 64 || !text.is_ascii() {
            return Err(bad());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| bad())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| bad())?;
        }
        Ok(Self(bytes))
    }
}
