//! The effects that a host performs.

use serde::{Deserialize, Serialize};

use crate::error::ErrorRecord;
use crate::id::{RunId, SessionId};
use crate::shared_str::SharedStr;
use crate::store::{Fence, SessionKey};
use crate::stored::Stored;
use crate::time::Timestamp;

/// The address of an effect: its session, run, step and number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EffectAddress {
    /// The session of the run.
    pub session_id: SessionId,
    /// The root of the session.
    pub root_session_id: SessionId,
    /// The run to which it belongs.
    pub run_id: RunId,
    /// The agent of the session.
    pub agent_type: SharedStr,
    /// The fence that its commit carries.
    pub fence: Fence,
    /// The number of the step in its turn, from 1.
    pub step: u32,
    /// The number of the effect in the run, from 1. Its event carries it.
    pub n: u32,
}

impl EffectAddress {
    /// Returns the key of its session.
    #[must_use]
    pub fn key(&self) -> SessionKey<'_> {
        SessionKey::new(&self.root_session_id, &self.session_id)
    }
}

/// One thing for a host to do: one durable call of an engine, ending in at most one commit.
///
/// Performing an effect again whose commit was made returns the same event and does nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Effect {
    /// The address of the effect.
    pub at: EffectAddress,
    /// Whether it is the first of its run, which notifies hooks that the run begins or continues.
    #[serde(default)]
    pub first: bool,
    /// The action to perform.
    #[serde(flatten)]
    pub kind: EffectKind,
}

impl Stored for Effect {
    const KIND: &'static str = "effect";
    const VERSION: u32 = 1;
}

/// The action of an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum EffectKind {
    /// Asks the model, and commits its reply.
    Model {
        /// The number of the attempt, from 1.
        attempt: u32,
        /// Whether the turn may have no further step.
        last_step: bool,
        /// Whether only the final output is accepted.
        forced: bool,
        /// How many times the model may still be asked for a missing output.
        corrections_left: u32,
        /// Whether the stream may contain an unfinished reply.
        resync: bool,
    },
    /// Runs one call.
    Tool {
        /// The index of the call in the reply.
        index: u32,
        /// Whether it was started before, so that it may have taken effect.
        unknown: bool,
    },
    /// Moves the open step, whose calls all have results, into the history.
    Settle {},
    /// Starts and awaits children. Reserved.
    Children {},
    /// Takes the outcome of the child session that works on a call. A host performs it when the run of the
    /// child has ended or is suspended; until then it waits in a way of its own.
    Child {
        /// The index of the call in the reply.
        index: u32,
    },
    /// Waits until an instant.
    Sleep {
        /// When the wait ends.
        until: Timestamp,
    },
    /// Ends the run.
    End {
        /// The outcome with which it ends.
        #[serde(rename = "as")]
        as_: RunEnd,
    },
}

/// The outcome with which a run ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunEnd {
    /// Suspended: calls wait for a client or a person.
    Suspended {},
    /// Failed with an error.
    Failed {
        /// The error that ended the run.
        error: ErrorRecord,
    },
    /// Stopped, as the stop request in the store specifies.
    Stopped {},
    /// Interrupted, because a budget leaves no room for the next model call.
    BudgetExhausted {},
}
