//! Reads the stream of a run and shows it.

use std::pin::pin;

use anyhow::Context;
use helix_agents_core::runtime::Handle;
use helix_agents_core::stream::{ChunkPayload, Sequence, StreamItem};
use serde_json::Value;

use crate::live::Live;

/// The position in the stream after which a run was taken over.
#[derive(Debug)]
pub(crate) struct TakenOver {
    pub(crate) after: Sequence,
}

/// Shows a run until it has ended. A run that was taken over is shown from there on: the output of
/// its former process is not repeated.
pub(crate) async fn show(
    handle: &Handle<Value>,
    taken_over: Option<TakenOver>,
    live: &mut Live,
) -> anyhow::Result<()> {
    live.session = Some(handle.session_id().clone());
    let mut shown = Shown {
        is_past: taken_over.is_some(),
        live,
    };
    let mut reader = match taken_over {
        Some(TakenOver { after }) => handle.reader(after),
        None => handle.reader(None),
    };
    let mut ended = pin!(handle.ended());
    let mut over = false;
    loop {
        tokio::select! {
            biased;
            item = reader.next() => {
                if !shown.show(item?)? {
                    return Ok(());
                }
            }
            record = &mut ended, if !over => {
                over = true;
                if let Err(error) = record {
                    // The run has stalled; its last chunks are still to be shown.
                    while let Some(item) = reader.next_at_hand().await? {
                        shown.show(Some(item))?;
                    }
                    return Err(error).context("the run did not end here");
                }
            }
        }
    }
}

/// Where chunks are shown, and from which sequence on.
struct Shown<'a> {
    is_past: bool,
    live: &'a mut Live,
}

impl Shown<'_> {
    /// Shows an item. Returns false for the last one.
    fn show(&mut self, item: Option<StreamItem>) -> anyhow::Result<bool> {
        match item {
            Some(StreamItem::Chunk(stored)) => {
                let chunk = &stored.chunk;
                self.is_past &= !matches!(chunk.payload, ChunkPayload::ExecutorSuperseded {});
                if !self.is_past {
                    self.live.chunk(chunk)?;
                }
                Ok(true)
            }
            Some(StreamItem::Trimmed { .. }) => Ok(true),
            Some(_) | None => Ok(false),
        }
    }
}
