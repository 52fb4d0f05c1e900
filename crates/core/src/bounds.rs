//! How deep and how large a value may be that comes from outside.
//!
//! Tools, hooks, models, clients and callers give values that are stored, and sent inside of other
//! values: a result inside of an open step, a change inside of a chunk, a chunk inside of a batch.
//! Whatever is taken must be storable and readable again on every store, in all of its wrappers. So
//! it is held against these limits where it enters, and what is too much is refused to whoever gave
//! it; nothing is found out when it is too late, in a commit.

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
pub(crate) use text::{cut_off, cut_reason, shortened};

/// How many levels of arrays and objects a value may have, its root included.
///
/// JSON readers, that of `serde_json` among them, give up somewhere above 120 levels, and values are
/// stored and sent inside of others. What can be written must be readable again.
pub const MAX_DEPTH: usize = 100;

/// The largest value that is taken, in bytes of its JSON, where the stream takes chunks of twice
/// that. A stream that takes less lowers it.
pub const MAX_BYTES: usize = 8 * 1024 * 1024;

/// How large a value may be.
///
/// What is counted is JSON text as it is written, escapes included, so no escape makes a chunk larger
/// than its stream takes.
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
    /// The bounds of what is told in a stream: a chunk also says who wrote it, and of what it speaks.
    #[must_use]
    pub fn of(limits: StreamLimits) -> Self {
        Self {
            max_bytes: MAX_BYTES.min(limits.max_chunk_bytes / 2),
        }
    }

    /// The largest value that is taken, in bytes of its JSON.
    #[must_use]
    pub fn max_bytes(self) -> usize {
        self.max_bytes
    }

    /// Whether a value may be taken. `what` names it in the error.
    ///
    /// # Errors
    /// [`Exceeded`].
    pub fn check(self, what: &'static str, value: &Value) -> Result<(), Exceeded> {
        if !fits(value, MAX_DEPTH) {
            return Err(Exceeded::TooDeep { what });
        }
        self.check_size(what, value)
    }

    /// The result of a call that ran, or what the model reads instead of one that cannot be kept.
    pub(crate) fn take_result(self, result: Value) -> Result<Value, String> {
        match self.check("a result", &result) {
            Ok(()) => Ok(result),
            Err(exceeded) => {
                take_apart(result);
                Err(exceeded.of_result())
            }
        }
    }

    /// Whether a value may be taken that has a name.
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

    /// Whether the free-form data of a message may be taken.
    pub(crate) fn check_metadata(self, metadata: &Metadata) -> Result<(), Exceeded> {
        let what = "the metadata of a message";
        if !metadata.values().all(|value| fits(value, MAX_DEPTH - 1)) {
            return Err(Exceeded::TooDeep { what });
        }
        self.check_size(what, metadata)
    }

    /// Whether something whose depth is known may be taken.
    pub(crate) fn check_size(
        self,
        what: &'static str,
        value: &impl Serialize,
    ) -> Result<(), Exceeded> {
        at_most(what, json_bytes(value), self.max_bytes)
    }

    /// The chunks that tell of these changes: one, or as many as it takes for each to fit.
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

/// Why a value is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Exceeded {
    /// The value is nested deeper than [`MAX_DEPTH`] levels, so it could not be read again.
    #[error("{what} is nested deeper than {MAX_DEPTH} levels; flatten it")]
    TooDeep {
        /// What kind of value it is, as the message names it.
        what: &'static str,
    },
    /// The value has more bytes of JSON than are taken in one piece.
    #[error(
        "{what} has {bytes} bytes of JSON; at most {limit} are taken, so keep it elsewhere and give a reference"
    )]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The largest that is taken.
        limit: usize,
    },
}

impl Exceeded {
    /// What the model reads about a call whose result is not taken.
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

/// Whether a value has at most so many levels of arrays and objects.
///
/// It looks no deeper than that, so a hostile value does not use up the stack.
#[must_use]
pub fn fits(value: &Value, levels: usize) -> bool {
    match (value, levels.checked_sub(1)) {
        (Value::Array(items), Some(inside)) => items.iter().all(|item| fits(item, inside)),
        (Value::Object(map), Some(inside)) => map.values().all(|value| fits(value, inside)),
        (Value::Array(_) | Value::Object(_), None) => false,
        _ => true,
    }
}

/// How long the JSON of a value is. Costs as much as writing it, and no memory.
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
    // What has no JSON is not taken for small.
    match serde_json::to_writer(&mut counting, value) {
        Ok(()) => counting.0,
        Err(_) => usize::MAX,
    }
}

/// Frees a value that was refused level by level: the stack is not deep enough for all that a tool
/// may give.
fn take_apart(value: Value) {
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
pub(crate) struct Written {
    bounds: Bounds,
    /// At least as much as its writes have.
    bytes: usize,
}

impl Written {
    pub(crate) fn within(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// Room for a change, before it is made. `writes` gives what was written up to now; it is asked
    /// when what was counted may have been replaced since.
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

/// Room for one change of the state: half of all that one writer may write in a step, so that a large
/// value can be put in the place of another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    bounds: Bounds,
    written: usize,
}

impl Room {
    /// Whether a change may be made. Gives its size.
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
    fn levels_are_counted_with_and_without_something_in_the_innermost() {
        for innermost in [json!([]), json!({}), json!([1]), json!({ "a": 1 })] {
            let value = json!({ "a": [1, { "b": innermost }] });
            assert!(fits(&value, 4) && !fits(&value, 3), "{value}");
        }
        assert!(fits(&json!("text"), 0) && !fits(&json!([]), 0));
        let endless = (0..200_000).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
        let told = Bounds::default().take_result(endless).unwrap_err();
        assert!(told.starts_with("The call ran, but"), "{told}");
    }

    #[test]
    fn a_writer_is_held_to_what_its_writes_come_to() {
        let change = |bytes: usize| -> Vec<PatchOp> {
            let value = "x".repeat(bytes - 41);
            let patches = json!([{ "op": "replace", "path": "/a", "value": value }]);
            serde_json::from_value(patches).unwrap()
        };
        let wrote = |bytes: usize| -> StepWrites {
            let path = format!("/{}", "x".repeat(bytes - 28));
            serde_json::from_value(json!([{ "op": "delete", "path": path }])).unwrap()
        };
        let mut written = Written::default();
        written.within(small());
        let room = |written: &mut Written, net| written.room(|| wrote(net));
        assert_eq!(json_bytes(&(change(50), wrote(60))), 50 + 60 + 3);
        assert!(room(&mut written, 30).take(&change(51)).is_err());
        for _ in 0..10 {
            // Each takes the place of the one before.
            let bytes = room(&mut written, 50).take(&change(50)).unwrap();
            written.add(bytes);
        }
        assert!(room(&mut written, 51).take(&change(50)).is_err());
        assert!(room(&mut written, 50).take(&change(50)).is_ok());
    }
}
