//! The limits on depth and size of values that come from outside.
//!
//! Tools, hooks, models, clients and callers pass values that are stored, and sent inside other
//! values: a result inside an open step, a change inside a chunk, a chunk inside a batch. Whatever
//! is accepted must be storable and readable again on every store, in all of its wrappers. So it is
//! checked against these limits where it enters, and the source of a value that exceeds them gets
//! an error; nothing is discovered too late, in a commit.

mod patches;
mod text;

use std::io;

use serde::Serialize;
use serde_json::Value;

use crate::error::{Coded, ErrorCode};
use crate::message::Metadata;
use crate::state::{StateError, StepWrites};
use crate::stream::{ChunkPayload, StreamLimits};

pub use text::MAX_TEXT_BYTES;
pub(crate) use text::{cut_off, cut_reason, shortened, up_to};

/// The maximum number of levels of arrays and objects in a value, its root included.
///
/// JSON parsers, that of `serde_json` among them, stop somewhere above 120 levels, and values are
/// stored and sent inside others. What can be written must be readable again.
pub const MAX_DEPTH: usize = 100;

/// The maximum size of a value, in bytes of its JSON, if the stream accepts chunks of twice that
/// size. A stream with a lower limit lowers it.
pub const MAX_BYTES: usize = 8 * 1024 * 1024;

/// The limit on the size of values.
///
/// The JSON text is measured as it is written, escapes included, so escaping cannot make a chunk
/// exceed the limit of its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    max_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            max_bytes: MAX_BYTES,
        }
    }
}

impl Bounds {
    /// Derives the limit from that of a stream: a chunk also contains its origin and its references.
    #[must_use]
    pub fn of(limits: StreamLimits) -> Self {
        Self {
            max_bytes: MAX_BYTES.min(limits.max_chunk_bytes / 2),
        }
    }

    /// Returns the maximum size of a value, in bytes of its JSON.
    #[must_use]
    pub fn max_bytes(self) -> usize {
        self.max_bytes
    }

    /// Checks that a value is within the limits. `what` names it in the error.
    ///
    /// # Errors
    /// [`Exceeded`] if it is too deep or too large.
    pub(crate) fn check(self, what: &'static str, value: &Value) -> Result<(), Exceeded> {
        if !fits(value, MAX_DEPTH) {
            return Err(Exceeded::TooDeep { what });
        }
        self.check_size(what, value)
    }

    /// Returns the result of a call, or the text for the model if it exceeds the limits.
    pub(crate) fn take_result(self, result: Value) -> Result<Value, String> {
        match self.check("a result", &result) {
            Ok(()) => Ok(result),
            Err(exceeded) => {
                drop_iteratively(result);
                Err(exceeded.of_result())
            }
        }
    }

    /// Checks a value together with its name.
    pub(crate) fn check_named(
        self,
        what: &'static str,
        name: &str,
        value: &Value,
    ) -> Result<(), Exceeded> {
        if !fits(value, MAX_DEPTH) {
            return Err(Exceeded::TooDeep { what });
        }
        self.check_size(what, &(name, value))
    }

    /// Checks the free-form data of a message.
    pub(crate) fn check_metadata(self, metadata: &Metadata) -> Result<(), Exceeded> {
        let what = "the metadata of a message";
        if !metadata.values().all(|value| fits(value, MAX_DEPTH - 1)) {
            return Err(Exceeded::TooDeep { what });
        }
        self.check_size(what, metadata)
    }

    /// Checks the size of a value whose depth is known.
    pub(crate) fn check_size(
        self,
        what: &'static str,
        value: &impl Serialize,
    ) -> Result<(), Exceeded> {
        at_most(what, json_bytes(value), self.max_bytes)
    }

    /// Returns the chunks that report these changes: one, or as many as needed for each to fit.
    pub(crate) fn state_patches(
        self,
        patches: Vec<crate::state::PatchOp>,
    ) -> impl Iterator<Item = ChunkPayload> {
        patches::in_chunks(patches, self.max_bytes)
            .into_iter()
            .map(|patches| ChunkPayload::StatePatch { patches })
    }
}

fn at_most(what: &'static str, bytes: usize, limit: usize) -> Result<(), Exceeded> {
    if bytes > limit {
        return Err(Exceeded::TooLarge { what, bytes, limit });
    }
    Ok(())
}

/// Why a value is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Exceeded {
    /// The value is nested deeper than [`MAX_DEPTH`] levels, so it could not be read again.
    #[error("{what} is nested deeper than {MAX_DEPTH} levels; flatten it")]
    TooDeep {
        /// The kind of value, as the message names it.
        what: &'static str,
    },
    /// The JSON of the value has more bytes than the limit.
    #[error(
        "{what} has {bytes} bytes of JSON; the limit is {limit}, so keep it elsewhere and give a reference"
    )]
    TooLarge {
        /// The kind of value, as the message names it.
        what: &'static str,
        /// The size of the value, in bytes of its JSON.
        bytes: usize,
        /// The maximum size, in bytes.
        limit: usize,
    },
}

impl Exceeded {
    /// Returns the text for the model about a call whose result exceeds the limits.
    pub(crate) fn of_result(&self) -> String {
        let why = match self {
            Self::TooDeep { .. } => format!("it is nested deeper than {MAX_DEPTH} levels"),
            Self::TooLarge { bytes, limit, .. } => {
                format!("it has {bytes} bytes of JSON, and at most {limit} are kept")
            }
        };
        format!("The call ran, but its result could not be kept: {why}.")
    }
}

impl Coded for Exceeded {
    fn code(&self) -> ErrorCode {
        ErrorCode::ValidationError
    }
}

/// Whether a value has at most this many levels of arrays and objects.
///
/// It looks no deeper than that, so a hostile value does not exhaust the stack.
#[must_use]
pub fn fits(value: &Value, levels: usize) -> bool {
    match (value, levels.checked_sub(1)) {
        (Value::Array(items), Some(inside)) => items.iter().all(|item| fits(item, inside)),
        (Value::Object(map), Some(inside)) => map.values().all(|value| fits(value, inside)),
        (Value::Array(_) | Value::Object(_), None) => false,
        _ => true,
    }
}

/// Returns the length of a value's JSON. Takes as long as writing it, and no memory.
pub(crate) fn json_bytes(value: &impl Serialize) -> usize {
    struct Counting(usize);

    impl io::Write for Counting {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut counting = Counting(0);
    // A value without a JSON form must not count as small.
    match serde_json::to_writer(&mut counting, value) {
        Ok(()) => counting.0,
        Err(_) => usize::MAX,
    }
}

/// Drops a refused value level by level: a deeply nested one could exhaust the stack.
fn drop_iteratively(value: Value) {
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        match value {
            Value::Array(items) => rest.extend(items),
            Value::Object(map) => rest.extend(map.into_iter().map(|(_, value)| value)),
            _ => {}
        }
    }
}

/// Counts what one writer writes to the state.
#[derive(Debug, Default)]
pub(crate) struct WriteBudget {
    bounds: Bounds,
    /// An upper bound on the size of its writes.
    bytes: usize,
}

impl WriteBudget {
    pub(crate) fn within(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// Returns the room for a change, before it is made. `writes` returns everything written so
    /// far; it is called when counted writes may have been replaced since.
    pub(crate) fn room(&mut self, writes: impl FnOnce() -> StepWrites) -> Room {
        if self.bytes > self.bounds.max_bytes / 2 {
            self.bytes = json_bytes(&writes());
        }
        Room {
            bounds: self.bounds,
            written: self.bytes,
        }
    }

    /// Counts a change that was made.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// The room for one change of the state: half of all that one writer may write in a step, so that a
/// large value can replace another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    bounds: Bounds,
    written: usize,
}

impl Room {
    /// Checks that a change may be made. Returns its size.
    pub(crate) fn take(self, patches: &[crate::state::PatchOp]) -> Result<usize, StateError> {
        let bytes = json_bytes(&patches);
        let Bounds { max_bytes } = self.bounds;
        at_most("a change of the state", bytes, max_bytes / 2)?;
        let written = self.written.saturating_add(bytes);
        at_most(
            "what a call or hook writes to the state",
            written,
            max_bytes,
        )?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::state::PatchOp;

    fn small() -> Bounds {
        Bounds::of(StreamLimits::new(200))
    }

    #[test]
    fn json_is_counted_as_it_is_written() {
        let value = json!({ "a\n\u{1}": ["\"\\€", 1.5, null, true, -3] });
        assert_eq!(json_bytes(&value), value.to_string().len());
        for (bytes, taken) in [(98, true), (99, false)] {
            let value = Value::String("x".repeat(bytes));
            assert_eq!(small().check("it", &value).is_ok(), taken, "{bytes}");
        }
        let escaped = Value::String("\u{1}".repeat(17));
        let limit = small().max_bytes();
        assert_eq!(
            small().check("it", &escaped),
            Err(Exceeded::TooLarge {
                what: "it",
                bytes: 104,
                limit
            })
        );
        assert_eq!(Bounds::of(StreamLimits::new(usize::MAX)), Bounds::default());
    }

    #[test]
    fn empty_and_filled_innermost_levels_are_counted_alike() {
        for innermost in [json!([]), json!({}), json!([1]), json!({ "a": 1 })] {
            let value = json!({ "a": [1, { "b": innermost }] });
            assert!(fits(&value, 4) && !fits(&value, 3), "{value}");
        }
        assert!(fits(&json!("text"), 0) && !fits(&json!([]), 0));
        let endless = (0..200_000).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
        let error = Bounds::default().take_result(endless).unwrap_err();
        assert!(error.starts_with("The call ran, but"), "{error}");
    }

    #[test]
    fn the_writes_of_one_writer_are_limited_by_their_net_size() {
        let change = |bytes: usize| -> Vec<PatchOp> {
            let value = "x".repeat(bytes - 41);
            let patches = json!([{ "op": "replace", "path": "/a", "value": value }]);
            serde_json::from_value(patches).unwrap()
        };
        let wrote = |bytes: usize| -> StepWrites {
            let path = format!("/{}", "x".repeat(bytes - 28));
            serde_json::from_value(json!([{ "op": "delete", "path": path }])).unwrap()
        };
        let mut written = WriteBudget::default();
        written.within(small());
        let room = |written: &mut WriteBudget, net| written.room(|| wrote(net));
        assert_eq!(json_bytes(&(change(50), wrote(60))), 50 + 60 + 3);
        assert!(room(&mut written, 30).take(&change(51)).is_err());
        for _ in 0..10 {
            // Each change replaces the one before.
            let bytes = room(&mut written, 50).take(&change(50)).unwrap();
            written.add(bytes);
        }
        assert!(room(&mut written, 51).take(&change(50)).is_err());
        assert!(room(&mut written, 50).take(&change(50)).is_ok());
    }
}
