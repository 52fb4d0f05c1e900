//! What a host is asked to do.

use serde::{Deserialize, Serialize};

use crate::error::ErrorRecord;
use crate::id::{RunId, SessionId};
use crate::store::{Fence, SessionKey};
use crate::stored::Stored;
use crate::time::Timestamp;

/// Where an effect belongs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct At {
    /// The session.
    pub session_id: SessionId,
    /// Its root.
    pub root_session_id: SessionId,
    /// The run.
    pub run_id: RunId,
    /// The agent.
    pub agent_type: String,
    /// What its commit carries.
    pub fence: Fence,
    /// The step, from 1 in each turn.
    pub step: u32,
    /// The number of the effect in the run, from 1. Its event carries it.
    pub n: u32,
}

impl At {
    /// How its session is named to a store.
    #[must_use]
    pub fn key(&self) -> SessionKey<'_> {
        SessionKey::new(&self.root_session_id, &self.session_id)
    }
}

/// One thing to do: one durable call of an engine, ending in at most one commit.
///
/// Performing one again whose commit was made gives the same event and does nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Effect {
    /// Where it belongs.
    pub at: At,
    /// Whether it is the first of its run, which tells hooks that the run begins or goes on.
    #[serde(default)]
    pub first: bool,
    /// What is to be done.
    #[serde(flatten)]
    pub kind: EffectKind,
}

impl Stored for Effect {
    const KIND: &'static str = "effect";
    const VERSION: u32 = 1;
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum EffectKind {
    /// Ask the model, and commit its reply.
    Model {
        /// Which attempt it is, from 1.
        attempt: u32,
        /// Whether the turn may have no further step.
        last_step: bool,
        /// Whether only the final output is accepted.
        forced: bool,
        /// How often the model may still be asked for an output that it owes.
        corrections_left: u32,
        /// Whether an unfinished reply may lie in the stream.
        resync: bool,
    },
    /// Run one call.
    Tool {
        /// Its place in the reply.
        index: u32,
        /// Whether it was started before, so that nobody knows whether it took effect.
        unknown: bool,
    },
    /// Move the open step, whose calls all have results, into the history.
    Settle {},
    /// Start and await children. Reserved.
    Children {},
    /// Wait.
    Sleep {
        /// Until when.
        until: Timestamp,
    },
    /// End the run.
    End {
        /// As what.
        #[serde(rename = "as")]
        as_: EndAs,
    },
}

/// As what a run ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EndAs {
    /// Paused: calls wait for somebody.
    Suspended {},
    /// Failed.
    Failed {
        /// Why.
        error: ErrorRecord,
    },
    /// Stopped, as the request that lies in the store says.
    Stopped {},
}
