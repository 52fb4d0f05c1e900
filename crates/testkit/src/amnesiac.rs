//! A host that keeps nothing in memory.

use std::fmt::Debug;

use async_trait::async_trait;
use helix_agents_core::machine::{Effect, Event, RunState};
use helix_agents_core::perform::{Attempt, PerformError, Ports, perform};
use helix_agents_core::stored::{Stored, decode, encode};

use crate::Host;

/// The largest size of one event or effect as JSON.
pub const MAX_MESSAGE_BYTES: usize = 32 * 1024;
/// The largest size of a run state as JSON.
pub const MAX_STATE_BYTES: usize = 16 * 1024;

/// A host that remembers no more than a workflow engine does: between any two effects, run state,
/// events and effects are written as JSON and read back, each within its limit, and every effect is
/// performed by a worker without memory. An agent that passes here runs on any engine, however long
/// its sessions are.
///
/// # Panics
/// When a value is larger than its limit, or differs when it is read back.
#[derive(Debug, Clone, Copy, Default)]
pub struct AmnesiacHost;

#[async_trait]
impl Host for AmnesiacHost {
    async fn perform(&self, effect: Effect, ports: &Ports) -> Result<Event, PerformError> {
        let effect = on_paper(effect, MAX_MESSAGE_BYTES);
        let worker = ports.clone().forgetful();
        let event = perform(&effect, Attempt::First, &worker).await?;
        Ok(on_paper(event, MAX_MESSAGE_BYTES))
    }

    fn keep(&self, state: RunState) -> RunState {
        on_paper(state, MAX_STATE_BYTES)
    }
}

/// Writes a value as JSON and reads it back.
pub(crate) fn on_paper<T: Stored + PartialEq + Debug>(value: T, limit: usize) -> T {
    let kind = T::KIND;
    let text = encode(&value).unwrap_or_default();
    let bytes = text.len();
    assert!(
        bytes <= limit,
        "a {kind} has {bytes} bytes, more than {limit}: {text}"
    );
    let read = decode(&text);
    assert_eq!(
        read.as_ref().ok(),
        Some(&value),
        "a {kind} is not the same when it is read back from {text}"
    );
    read.unwrap_or(value)
}
