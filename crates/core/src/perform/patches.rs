//! Brings readers to the committed state.

use std::sync::Arc;

use serde_json::Value;

use super::PerformError;
use super::patience::patiently;
use super::scope::Scope;
use crate::state::{ArrayMode, PatchOp, StateTracker, apply_all};
use crate::stream::{Chunk, ChunkPayload, Sequence};

/// Where the patches of a step are that readers have, or get with the commit.
#[derive(Clone, Copy)]
pub(super) struct Streamed<'a> {
    /// A place in the stream before the patches of the step; `None`: there are none.
    pub(super) after: Option<Sequence>,
    /// The chunks of the effect that go with the commit.
    pub(super) unsent: &'a [Chunk],
}

impl<'a> Streamed<'a> {
    /// Patches that calls may have streamed after a place, and those that go with the commit.
    pub(super) fn since(after: Sequence, unsent: &'a [Chunk]) -> Self {
        let after = Some(after);
        Self { after, unsent }
    }
}

/// The patches that turn what readers of the stream have into what is committed.
///
/// Parallel calls stream their patches as they come, calls that crash leave some behind, and hooks
/// stream none. So what readers have is found out by reading what they read: the patches of this
/// step since `after`, and those that go with the commit, on top of `base`, the state before the step.
pub(super) async fn corrections(
    scope: Scope<'_>,
    streamed: Streamed<'_>,
    base: &Arc<Value>,
    committed: &StateTracker,
) -> Result<Vec<PatchOp>, PerformError> {
    let mut seen = StateTracker::over(Arc::clone(base), ArrayMode::Delta);
    let mut apply = |patches: &[PatchOp]| {
        if let Err(error) = seen.update(|draft| apply_all(draft, patches)) {
            tracing::warn!(event = "state.patch_does_not_apply", session = %scope.at().session_id, %error);
        }
    };
    // Without a place to begin at, the end of the stream is read.
    let after = streamed.after.unwrap_or(Sequence(u64::MAX));
    let patches = patches_since(scope, after).await?;
    patches.iter().for_each(|patches| apply(patches));
    for chunk in streamed.unsent {
        if let ChunkPayload::StatePatch { patches } = &chunk.payload {
            apply(patches);
        }
    }
    Ok(seen.patches_to(committed)?)
}

/// The patches that calls of this step streamed since readers last had the committed state.
async fn patches_since(
    scope: Scope<'_>,
    after: Sequence,
) -> Result<Vec<Vec<PatchOp>>, PerformError> {
    const PAGE: usize = 512;
    let (at, ports) = (scope.at(), scope.ports);
    let mut cursor = after;
    let mut calls_began = false;
    let mut all = Vec::new();
    let root = &at.root_session_id;
    // A sibling whose result was read from the store may not have reached the stream yet.
    patiently(ports, || ports.streams.catch_up(root)).await?;
    loop {
        let page = patiently(ports, || ports.streams.read(root, cursor, PAGE)).await?;
        let is_last = page.len() < PAGE;
        for stored in page {
            cursor = stored.sequence;
            let base = &stored.chunk.base;
            if base.session_id != at.session_id || base.step != at.step {
                continue;
            }
            match stored.chunk.payload {
                // A patch before the calls came with the reply: it is part of the state before.
                ChunkPayload::StatePatch { patches } if calls_began => all.push(patches),
                ChunkPayload::ToolStart { .. }
                | ChunkPayload::ToolApprovalRequest { .. }
                | ChunkPayload::ToolInputError { .. } => calls_began = true,
                // Pausing brought readers to the committed state.
                ChunkPayload::RunPaused { .. } => all.clear(),
                _ => {}
            }
        }
        if is_last {
            return Ok(all);
        }
    }
}
