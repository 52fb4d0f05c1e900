//! The durable record of a call's effect on the outside world.

use serde::{Deserialize, Serialize};

use super::IdempotencyKey;
use crate::time::Timestamp;

/// The progress of a call that the runtime runs.
///
/// Usually nothing is written when a call starts: a call whose intent is durable and whose turn it was
/// counts as started. So after a crash a call that should have run and has no result is `Unknown`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EffectState {
    /// The call is going to be run, or is running.
    #[default]
    Intended,
    /// An attempt that cannot rule out an earlier one has recorded that it begins.
    Started,
    /// The call ran; its result is stored with it.
    Done,
    /// The call may or may not have taken effect.
    Unknown,
}

/// The record of one call's effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EffectRecord {
    /// The progress of the call.
    pub state: EffectState,
    /// The idempotency key that the tool passes to other systems.
    pub idempotency_key: IdempotencyKey,
    /// The number of attempts so far, across crashes.
    pub attempts: u32,
    /// When the intent to run the call became durable.
    pub intended_at: Timestamp,
    /// The attempt that claimed the call, if a claim was needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
}

impl EffectRecord {
    /// Creates the record of a call that is going to be run.
    #[must_use]
    pub fn intended(idempotency_key: impl Into<IdempotencyKey>, intended_at: Timestamp) -> Self {
        Self {
            state: EffectState::Intended,
            idempotency_key: idempotency_key.into(),
            attempts: 0,
            intended_at,
            claim: None,
        }
    }
}
