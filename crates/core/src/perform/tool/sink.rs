//! Collects the events of a tool while it runs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::id::CallId;
use crate::notify::Notify;
use crate::perform::deltas::Deltas;
use crate::stream::ChunkPayload;
use crate::tool::{ToolEvent, ToolEvents};
use crate::usage::CustomUsage;

/// Takes the events of a tool, from any thread.
#[derive(Default)]
pub(super) struct Sink {
    said: Mutex<Said>,
    bell: Notify,
}

#[derive(Default)]
struct Said {
    payloads: Vec<ChunkPayload>,
    usage: Vec<CustomUsage>,
}

impl ToolEvents for Sink {
    fn emit(&self, _: &CallId, event: ToolEvent) {
        match event {
            ToolEvent::StatePatch(patches) => self.tell(ChunkPayload::StatePatch { patches }),
            ToolEvent::Custom {
                name: event_name,
                data,
            } => self.tell(ChunkPayload::Custom { event_name, data }),
            ToolEvent::Usage(usage) => self.lock().usage.push(usage),
        }
    }
}

impl Sink {
    fn lock(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, payload: ChunkPayload) {
        self.lock().payloads.push(payload);
        self.bell.ring();
    }

    /// Takes the usage that the tool reported.
    pub(super) fn take_usage(&self) -> Vec<CustomUsage> {
        std::mem::take(&mut self.lock().usage)
    }

    /// Resolves when something was said.
    pub(super) async fn something(&self) {
        loop {
            let heard = self.bell.heard();
            if !self.lock().payloads.is_empty() {
                return;
            }
            heard.await;
        }
    }

    /// Moves what was said to the deltas.
    pub(super) fn drain(&self, deltas: &mut Deltas<'_>) {
        let payloads = std::mem::take(&mut self.lock().payloads);
        deltas.extend(payloads);
    }
}
