//! Reads the stream of a run, and shows it.

use std::pin::pin;

use anyhow::Context;
use helix_agents_core::runtime::Handle;
use helix_agents_core::stream::{ChunkPayload, Sequence, StreamItem};
use serde_json::Value;

use crate::live::Live;

/// Where a run was taken over: after this place of its stream.
#[derive(Debug)]
pub(crate) struct TakenOver {
    pub(crate) after: Sequence,
}

/// Shows a run until it has ended. One that was taken over is shown from there on: what its former
/// process said is not said again.
pub(crate) async fn show(
    handle: &Handle<Value>,
    taken_over: Option<TakenOver>,
    live: &mut Live,
) -> anyhow::Result<()> {
    let mut is_past = taken_over.is_some();
    let mut reader = match taken_over {
        Some(TakenOver { after }) => handle.stream_after(after),
        None => handle.stream().await?,
    };
    let mut ended = pin!(handle.ended());
    let mut over = false;
    loop {
        tokio::select! {
            biased;
            item = reader.next() => match item? {
                Some(StreamItem::Chunk(stored)) => {
                    let chunk = &stored.chunk;
                    is_past &= !matches!(chunk.payload, ChunkPayload::ExecutorSuperseded {});
                    if !is_past {
                        live.chunk(chunk)?;
                    }
                }
                Some(StreamItem::Trimmed { .. }) => {}
                Some(_) | None => return Ok(()),
            },
            // What it said last is still to be shown; a run that stands still says nothing more.
            record = &mut ended, if !over => {
                record.context("the run did not come to its end here")?;
                over = true;
            }
        }
    }
}
