//! Reads batches of every version.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::sync::Arc;

use helix_agents_core::id::{CallId, CheckpointId};
use helix_agents_core::json::Json;
use helix_agents_core::shared_str::SharedStr;
use helix_agents_core::stream::{Chunk, ChunkOrigin, ChunkPayload, Sequence, StoredChunk};
use helix_agents_core::time::Timestamp;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::{Place, VERSION, code, first};
use crate::operation_error::OperationError;
use crate::short_id;

pub(super) fn read(
    text: &str,
    first: Sequence,
    time: Timestamp,
    author: impl FnMut(u64) -> Result<Arc<ChunkOrigin>, OperationError>,
) -> Result<Vec<StoredChunk>, OperationError> {
    let mut failure = None;
    let batch = BatchReader {
        first,
        time,
        author,
        failure: &mut failure,
    };
    let mut json = serde_json::Deserializer::from_str(text);
    let read = batch
        .deserialize(&mut json)
        .and_then(|chunks| json.end().map(|()| chunks));
    match (read, failure) {
        (Ok(chunks), _) => Ok(chunks),
        (Err(_), Some(failure)) => Err(failure),
        (Err(error), None) => Err(OperationError::corrupt("chunk", error.to_string())),
    }
}

struct BatchReader<'a, F> {
    first: Sequence,
    time: Timestamp,
    author: F,
    /// Why an author could not be read.
    failure: &'a mut Option<OperationError>,
}

impl<'de, F> DeserializeSeed<'de> for BatchReader<'_, F>
where
    F: FnMut(u64) -> Result<Arc<ChunkOrigin>, OperationError>,
{
    type Value = Vec<StoredChunk>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, F> Visitor<'de> for BatchReader<'_, F>
where
    F: FnMut(u64) -> Result<Arc<ChunkOrigin>, OperationError>,
{
    type Value = Vec<StoredChunk>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a batch of chunks")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Self::Value, A::Error> {
        match need(&mut seq)? {
            1 => {
                let chunks = first::read(&mut seq)?.into_iter();
                let numbered = (self.first.0..).map(Sequence).zip(chunks);
                let stored = numbered.map(|(number, chunk)| StoredChunk::new(number, chunk));
                return Ok(stored.collect());
            }
            VERSION => {}
            version => {
                let text = format!("its format is {version}, this program reads up to {VERSION}");
                return Err(A::Error::custom(text));
            }
        }
        let place = Place {
            author: need(&mut seq)?,
            step: need(&mut seq)?,
            effect: 0,
            attempt: 0,
        };
        let mut base: Option<(Place, Arc<ChunkOrigin>)> = None;
        let mut reading = Reading {
            place,
            number: self.first.0,
            with: None,
            millis: self.time.as_millis(),
            calls: Vec::new(),
            names: Vec::new(),
        };
        let mut chunks = Vec::new();
        while let Some(item) = seq.next_element_seed(&mut reading)? {
            let Some(payload) = item else {
                continue;
            };
            let shared = match &base {
                Some((place, shared)) if *place == reading.place => shared,
                _ => {
                    let origin = self.origin(reading.place)?;
                    &base.insert((reading.place, origin)).1
                }
            };
            chunks.push(reading.chunk(shared, payload));
            if let Some(with) = reading.with.take() {
                chunks.push(reading.chunk(shared, with));
            }
        }
        Ok(chunks)
    }
}

impl<F> BatchReader<'_, F>
where
    F: FnMut(u64) -> Result<Arc<ChunkOrigin>, OperationError>,
{
    fn origin<E: serde::de::Error>(&mut self, place: Place) -> Result<Arc<ChunkOrigin>, E> {
        let author = (self.author)(place.author).map_err(|error| {
            *self.failure = Some(error);
            E::custom("an author cannot be read")
        })?;
        let mut origin = ChunkOrigin::clone(&author);
        origin.step = place.step;
        Ok(Arc::new(origin.of_attempt(place.effect, place.attempt)))
    }
}

/// What the items so far have set.
struct Reading {
    place: Place,
    /// The sequence of the next chunk.
    number: u64,
    /// The second payload of the item.
    with: Option<ChunkPayload>,
    millis: u64,
    calls: Vec<CallId>,
    names: Vec<SharedStr>,
}

impl Reading {
    /// The next chunk.
    #[inline]
    fn chunk(&mut self, base: &Arc<ChunkOrigin>, payload: ChunkPayload) -> StoredChunk {
        let sequence = Sequence(self.number);
        // Sequences have 32 bits in a row's key; a broken gap is refused where it is read.
        self.number = self.number.saturating_add(1);
        let time = Timestamp::from_millis(self.millis);
        StoredChunk::new(sequence, Chunk::new(Arc::clone(base), time, payload))
    }

    fn checkpoint<E: serde::de::Error>(&self, id: &str) -> Result<ChunkPayload, E> {
        let id = short_id::unpack(id, "cp", self.millis);
        let id = id.ok_or_else(|| E::custom("an id is broken"))?;
        Ok(ChunkPayload::CheckpointCreated {
            checkpoint_id: CheckpointId::new(id).map_err(E::custom)?,
        })
    }

    /// Leaves out so many sequences.
    fn skip<E: serde::de::Error>(&mut self, count: u64) -> Result<(), E> {
        let number = self.number.checked_add(count);
        self.number = number.ok_or_else(|| E::custom("a gap is too large"))?;
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for &mut Reading {
    type Value = Option<ChunkPayload>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// An item: a payload, or none when it says something about those after it.
impl<'de> Visitor<'de> for &mut Reading {
    type Value = Option<ChunkPayload>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a chunk")
    }

    fn visit_str<E: serde::de::Error>(self, delta: &str) -> Result<Self::Value, E> {
        self.visit_string(delta.to_owned())
    }

    fn visit_string<E: serde::de::Error>(self, delta: String) -> Result<Self::Value, E> {
        Ok(Some(ChunkPayload::TextDelta { delta }))
    }

    fn visit_i64<E: serde::de::Error>(self, later: i64) -> Result<Self::Value, E> {
        self.millis = self.millis.wrapping_add_signed(later);
        Ok(None)
    }

    fn visit_u64<E: serde::de::Error>(self, later: u64) -> Result<Self::Value, E> {
        self.visit_i64(later.cast_signed())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        ChunkPayload::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        self.array(&mut seq)
    }
}

impl Reading {
    /// Reads an item that is an array. Most items of a long batch are texts, which need none of this.
    #[inline(never)]
    fn array<'de, A: SeqAccess<'de>>(
        &mut self,
        seq: &mut A,
    ) -> Result<Option<ChunkPayload>, A::Error> {
        let payload = match need(seq)? {
            code::ORIGIN => {
                self.place.effect = seq.next_element()?.unwrap_or_default();
                self.place.attempt = seq.next_element()?.unwrap_or_default();
                if let Some(step) = seq.next_element()? {
                    self.place.step = step;
                    self.place.author = need(seq)?;
                }
                return Ok(None);
            }
            code::NEXT_STEP => {
                let next = self.place.next_step();
                self.place = next.ok_or_else(|| A::Error::custom("there is no next step"))?;
                self.skip(seq.next_element()?.unwrap_or_default())?;
                return Ok(None);
            }
            code::GAP => {
                self.skip(need(seq)?)?;
                return Ok(None);
            }
            code::THINKING => ChunkPayload::Thinking {
                content: need(seq)?,
                is_complete: seq.next_element::<u8>()?.is_some(),
            },
            code::ARGUMENTS_START => ChunkPayload::ToolArgStreamStart {
                tool_call_id: word(seq, &mut self.calls)?,
                tool_name: word(seq, &mut self.names)?,
            },
            code::ARGUMENTS_DELTA => ChunkPayload::ToolArgStreamDelta {
                tool_call_id: word(seq, &mut self.calls)?,
                delta: need(seq)?,
            },
            code::ARGUMENTS_END => ChunkPayload::ToolArgStreamEnd {
                tool_call_id: word(seq, &mut self.calls)?,
            },
            code::TOOL_START => ChunkPayload::ToolStart {
                tool_call_id: word(seq, &mut self.calls)?,
                tool_name: word(seq, &mut self.names)?,
                arguments: need::<Json, A>(seq)?,
            },
            code::TOOL_END => ChunkPayload::ToolEnd {
                tool_call_id: word(seq, &mut self.calls)?,
                tool_name: word(seq, &mut self.names)?,
                result: need(seq)?,
                success: seq.next_element::<u8>()?.is_none(),
                error: seq.next_element()?,
            },
            code::CHECKPOINT => self.checkpoint(&need::<Cow<'_, str>, A>(seq)?)?,
            code::STEP => {
                let message_count = need(seq)?;
                if let Some(id) = seq.next_element::<Cow<'_, str>>()? {
                    self.with = Some(self.checkpoint(&id)?);
                }
                ChunkPayload::StepCommitted { message_count }
            }
            other => return Err(A::Error::custom(format!("there is no chunk {other}"))),
        };
        Ok(Some(payload))
    }
}

fn need<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(seq: &mut A) -> Result<T, A::Error> {
    seq.next_element()?
        .ok_or_else(|| A::Error::custom("the batch is incomplete"))
}

/// Reads a text, or the number of those that became known after it.
fn word<'de, T, A>(seq: &mut A, known: &mut Vec<T>) -> Result<T, A::Error>
where
    T: Clone + for<'a> TryFrom<&'a str, Error: Display>,
    A: SeqAccess<'de>,
{
    match need::<Word<T>, A>(seq)? {
        Word::New(text) => {
            known.push(text.clone());
            Ok(text)
        }
        Word::Number(number) => {
            let found = known.iter().rev().nth(number).cloned();
            found.ok_or_else(|| A::Error::custom(format!("there is no text {number}")))
        }
    }
}

enum Word<T> {
    New(T),
    Number(usize),
}

impl<'de, T: for<'a> TryFrom<&'a str, Error: Display>> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordVisitor(PhantomData))
    }
}

struct WordVisitor<T>(PhantomData<T>);

impl<T: for<'a> TryFrom<&'a str, Error: Display>> Visitor<'_> for WordVisitor<T> {
    type Value = Word<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or its number")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Word<T>, E> {
        T::try_from(text).map(Word::New).map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Word<T>, E> {
        usize::try_from(number).map(Word::Number).map_err(E::custom)
    }
}
