//! What is known of a call's effect on the outside world.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// How far a call that we run has come.
///
/// Usually nothing is written when a call starts: one whose intent is durable and whose turn it was
/// counts as started. So after a crash a call that should have run and has no result is `Unknown`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EffectState {
    /// It is going to be run, or is running.
    #[default]
    Intended,
    /// Somebody who does not know whether others began it before said that it begins now.
    Started,
    /// It ran; its result is with the call.
    Done,
    /// It may or may not have taken effect.
    Unknown,
}

/// The record of one call's effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EffectRecord {
    /// How far it has come.
    pub state: EffectState,
    /// The key under which the outside world sees it.
    pub idempotency_key: String,
    /// How often it was tried, across crashes.
    pub attempts: u32,
    /// When its intent became durable.
    pub intended_at: Timestamp,
    /// Who said that it begins, where that had to be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
}

impl EffectRecord {
    /// A call that is going to be run.
    #[must_use]
    pub fn intended(idempotency_key: impl Into<String>, intended_at: Timestamp) -> Self {
        Self {
            state: EffectState::Intended,
            idempotency_key: idempotency_key.into(),
            attempts: 0,
            intended_at,
            claim: None,
        }
    }
}
