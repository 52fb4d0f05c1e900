//! The first packed form of a batch, which is only read.
//!
//! A batch is `[1, [base, ...], item, ...]`: the format's version, the bases, and the chunks in their
//! order. An item is a string, more text; an object, another payload; or `[base, time]`, the
//! writer and the time of the chunks after it.

use std::fmt;
use std::sync::Arc;

use helix_agents_core::stream::{Chunk, ChunkOrigin, ChunkPayload};
use helix_agents_core::time::Timestamp;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// Reads what follows the version.
pub(super) fn read<'de, A: SeqAccess<'de>>(seq: &mut A) -> Result<Vec<Chunk>, A::Error> {
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
    Ok(chunks)
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
