//! The packed form of a batch of chunks that were written at once.
//!
//! A batch is `[1, [base, ...], item, ...]`: the format's version, the bases, and the chunks in their
//! order. An item is a string, more text; an object, another payload; or `[base, time]`, the
//! writer and the time of the chunks after it.

use std::fmt;
use std::sync::Arc;

use helix_agents_core::stream::{Chunk, ChunkOrigin, ChunkPayload};
use helix_agents_core::time::Timestamp;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};

use crate::json;
use crate::operation_error::OperationError;

const VERSION: u32 = 1;

/// Packs a batch of chunks.
pub(crate) fn pack(chunks: &[Chunk]) -> Result<String, OperationError> {
    json::text("chunk", &Packed(chunks))
}

/// Unpacks the chunks of a batch.
pub(crate) fn unpack(text: &str) -> Result<Vec<Chunk>, OperationError> {
    serde_json::from_str::<Unpacked>(text)
        .map(|batch| batch.0)
        .map_err(|error| OperationError::corrupt("chunk", error.to_string()))
}

struct Packed<'a>(&'a [Chunk]);

impl Serialize for Packed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bases: Vec<&Arc<ChunkOrigin>> = Vec::new();
        let numbers: Vec<usize> = self
            .0
            .iter()
            .map(|chunk| {
                // Most often it is the very same one.
                let is_same = |base: &&Arc<ChunkOrigin>| {
                    Arc::ptr_eq(base, &chunk.base) || **base == chunk.base
                };
                let known = bases.iter().rposition(is_same);
                known.unwrap_or_else(|| {
                    bases.push(&chunk.base);
                    bases.len() - 1
                })
            })
            .collect();
        let mut all = serializer.serialize_seq(None)?;
        all.serialize_element(&VERSION)?;
        all.serialize_element(&bases)?;
        let mut context = None;
        for (chunk, base) in self.0.iter().zip(numbers) {
            if context != Some((base, chunk.timestamp)) {
                all.serialize_element(&(base, chunk.timestamp))?;
                context = Some((base, chunk.timestamp));
            }
            match &chunk.payload {
                ChunkPayload::TextDelta { delta } => all.serialize_element(delta)?,
                payload => all.serialize_element(payload)?,
            }
        }
        all.end()
    }
}

struct Unpacked(Vec<Chunk>);

impl<'de> Deserialize<'de> for Unpacked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(BatchVisitor)
    }
}

struct BatchVisitor;

impl<'de> Visitor<'de> for BatchVisitor {
    type Value = Unpacked;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a batch of chunks")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Unpacked, A::Error> {
        let version: Option<u32> = seq.next_element()?;
        if version != Some(VERSION) {
            let text = format!("its format is {version:?}, this program reads {VERSION}");
            return Err(A::Error::custom(text));
        }
        let bases: Vec<Arc<ChunkOrigin>> = seq.next_element()?.unwrap_or_default();
        let mut context: Option<(Arc<ChunkOrigin>, Timestamp)> = None;
        let mut chunks = Vec::new();
        while let Some(item) = seq.next_element()? {
            match item {
                Item::Context(base, time) => {
                    context = bases.get(base).map(|base| (Arc::clone(base), time));
                }
                Item::Payload(payload) => {
                    let Some((base, time)) = &context else {
                        return Err(A::Error::custom("a chunk has no context"));
                    };
                    chunks.push(Chunk::new(Arc::clone(base), *time, payload));
                }
            }
        }
        Ok(Unpacked(chunks))
    }
}

enum Item {
    Context(usize, Timestamp),
    Payload(ChunkPayload),
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemVisitor)
    }
}

struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Item;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a chunk")
    }

    fn visit_str<E: serde::de::Error>(self, delta: &str) -> Result<Item, E> {
        self.visit_string(delta.to_owned())
    }

    fn visit_string<E: serde::de::Error>(self, delta: String) -> Result<Item, E> {
        Ok(Item::Payload(ChunkPayload::TextDelta { delta }))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Item, A::Error> {
        ChunkPayload::deserialize(MapAccessDeserializer::new(map)).map(Item::Payload)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Item, A::Error> {
        match (seq.next_element()?, seq.next_element()?) {
            (Some(base), Some(time)) => Ok(Item::Context(base, time)),
            _ => Err(A::Error::custom("a context is incomplete")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Rows that were written stay readable: this text is never changed, only joined by others when
    /// the version is raised.
    const FIRST: &str = concat!(
        r#"[1,[{"agentId":"s","agentType":"a","sessionId":"s","runId":"r","step":1},"#,
        r#"{"agentId":"s","agentType":"a","sessionId":"s","runId":"r","step":2}],"#,
        r#"[0,5],"He","llo",{"type":"run_resumed"},[1,7],"!"]"#
    );

    #[test]
    fn rows_of_the_first_format_are_read_and_written_unchanged() {
        let chunk = |step: u32, time: u64, payload: serde_json::Value| {
            let mut chunk = json!({
                "agentId": "s", "agentType": "a", "sessionId": "s", "runId": "r",
                "step": step, "timestamp": time,
            });
            let (all, more) = (chunk.as_object_mut().unwrap(), payload.as_object().unwrap());
            all.extend(more.clone());
            serde_json::from_value::<Chunk>(chunk).unwrap()
        };
        let text = |delta: &str| json!({"type": "text_delta", "delta": delta});
        let expected = vec![
            chunk(1, 5, text("He")),
            chunk(1, 5, text("llo")),
            chunk(1, 5, json!({"type": "run_resumed"})),
            chunk(2, 7, text("!")),
        ];
        assert_eq!(unpack(FIRST).unwrap(), expected);
        assert_eq!(pack(&expected).unwrap(), FIRST);
        assert!(unpack(&FIRST.replacen("[1,", "[2,", 1)).is_err());
    }
}
