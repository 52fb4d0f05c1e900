//! The packed form of a batch of chunks that were written at once.
//!
//! A batch is `[2, author, step, item, ...]`: the format's version, who wrote its first chunk (a number
//! of the table `origin`) and in which step, and the chunks in their order. Their time is that of the
//! row, until an item says otherwise. An item is
//!
//! - a string: more text.
//! - a number: the chunks after it are this many milliseconds later.
//! - `[0, effect, attempt, step, author]`: the origin of the chunks after it. Without the last two they
//!   are as before; `[0]` is no effect.
//! - `[1, content]`: thinking, with a `1` behind it when it is complete.
//! - `[2, call, name]`, `[3, call, delta]`, `[4, call]`: a call's streamed arguments.
//! - `[5, call, name, arguments]`: a call is running.
//! - `[6, call, name, result]`: a call succeeded. One that did not has a `0` behind it, and its error.
//! - `[7, id]`: a checkpoint. `[8, count]`: a committed step; with an id behind it, and then its
//!   checkpoint.
//! - `[9]`: the chunks after it are of the next step and of no effect.
//! - `[10, count]`, `[9, count]`: so many chunks are missing here; their sequences are left out.
//! - an object: any other payload in its stored form.
//!
//! The id of a call and the name of a tool are texts where they occur first, and then numbers: how many
//! others of the batch first occurred after them.

mod first;
mod payloads;
mod reading;

use std::sync::Arc;

use helix_agents_core::stream::{Chunk, ChunkOrigin, Sequence, StoredChunk};
use helix_agents_core::time::Timestamp;
use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};

use crate::json;
use crate::operation_error::OperationError;
use payloads::Words;

const VERSION: u32 = 2;

/// The codes of items that are arrays.
mod code {
    pub(super) const ORIGIN: u8 = 0;
    pub(super) const THINKING: u8 = 1;
    pub(super) const ARGUMENTS_START: u8 = 2;
    pub(super) const ARGUMENTS_DELTA: u8 = 3;
    pub(super) const ARGUMENTS_END: u8 = 4;
    pub(super) const TOOL_START: u8 = 5;
    pub(super) const TOOL_END: u8 = 6;
    pub(super) const CHECKPOINT: u8 = 7;
    pub(super) const STEP: u8 = 8;
    pub(super) const NEXT_STEP: u8 = 9;
    pub(super) const GAP: u8 = 10;
}

/// The chunks of a row.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    pub(crate) chunks: &'a [Chunk],
    /// The number of each chunk's author.
    pub(crate) authors: &'a [u64],
    /// How many chunks are missing before each; empty when none are.
    pub(crate) gaps: &'a [u64],
    /// The time of the row.
    pub(crate) time: Timestamp,
}

/// Packs a batch of chunks.
pub(crate) fn pack(batch: &Batch<'_>) -> Result<String, OperationError> {
    json::text("chunk", batch)
}

/// Unpacks the chunks of a batch whose row has this first sequence and this time. `author` gives the
/// origin of a number, without its step.
pub(crate) fn unpack(
    text: &str,
    first: Sequence,
    time: Timestamp,
    author: impl FnMut(u64) -> Result<Arc<ChunkOrigin>, OperationError>,
) -> Result<Vec<StoredChunk>, OperationError> {
    reading::read(text, first, time, author)
}

/// The origin of a chunk, with its author by number.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Place {
    author: u64,
    step: u32,
    effect: u32,
    attempt: u32,
}

impl Place {
    fn of(chunk: &Chunk, author: u64) -> Self {
        let ChunkOrigin {
            step,
            effect,
            attempt,
            ..
        } = *chunk.base;
        Self {
            author,
            step,
            effect,
            attempt,
        }
    }
}

impl Place {
    /// The beginning of the step after it.
    fn next_step(self) -> Option<Self> {
        Some(Self {
            author: self.author,
            step: self.step.checked_add(1)?,
            effect: 0,
            attempt: 0,
        })
    }

    /// Writes the item that says where the chunks after it are from, unless it is the same.
    fn write_change<S: SerializeSeq>(self, all: &mut S, next: Self) -> Result<(), S::Error> {
        let Self {
            author,
            step,
            effect,
            attempt,
        } = next;
        if next == self {
            Ok(())
        } else if (author, step) != (self.author, self.step) {
            all.serialize_element(&(code::ORIGIN, effect, attempt, step, author))
        } else if (effect, attempt) == (0, 0) {
            all.serialize_element(&(code::ORIGIN,))
        } else {
            all.serialize_element(&(code::ORIGIN, effect, attempt))
        }
    }
}

impl Serialize for Batch<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let chunks = || self.chunks.iter().zip(self.authors.iter().copied());
        let first = chunks()
            .next()
            .map(|(chunk, author)| Place::of(chunk, author));
        let (author, step) = first.map_or((0, 0), |first| (first.author, first.step));
        let mut place = Place {
            author,
            step,
            effect: 0,
            attempt: 0,
        };
        let mut time = self.time.as_millis();
        let mut words = Words::default();
        let mut all = serializer.serialize_seq(None)?;
        all.serialize_element(&VERSION)?;
        all.serialize_element(&author)?;
        all.serialize_element(&step)?;
        let gaps = self.gaps.iter().copied().chain(std::iter::repeat(0));
        let mut chunks = chunks().zip(gaps).peekable();
        while let Some(((chunk, author), gap)) = chunks.next() {
            let next = Place::of(chunk, author);
            if place.next_step() == Some(next) {
                match gap {
                    0 => all.serialize_element(&(code::NEXT_STEP,))?,
                    gap => all.serialize_element(&(code::NEXT_STEP, gap))?,
                }
            } else {
                if gap > 0 {
                    all.serialize_element(&(code::GAP, gap))?;
                }
                place.write_change(&mut all, next)?;
            }
            place = next;
            let millis = chunk.timestamp.as_millis();
            if millis != time {
                all.serialize_element(&millis.wrapping_sub(time).cast_signed())?;
                time = millis;
            }
            let with = chunks.next_if(|((after, author), gap)| {
                *gap == 0 && payloads::are_pair(chunk, after) && Place::of(after, *author) == place
            });
            let with = with.map(|((after, _), _)| &after.payload);
            words.write(&mut all, &chunk.payload, with, millis)?;
        }
        all.end()
    }
}

#[cfg(test)]
mod tests;
