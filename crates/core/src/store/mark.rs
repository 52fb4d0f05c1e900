//! The progress of a run's effects, by which the commit of an effect is judged.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Fence;
use crate::error::ErrorRecord;
use crate::id::StepId;
use crate::machine::{CallRef, CallStatus, Calls};
use crate::session::{OpenCall, OpenStep};
use crate::stream::{DeltaSource, Sequence, StreamError, StreamWriter};
use crate::time::Timestamp;

/// The progress of a run's effects, as the header keeps it.
///
/// Engines perform an effect at least once: perhaps twice at the same time, perhaps late. Its
/// commit must count once. An exclusive effect (ask the model, settle a step, end the run) has a
/// number that grows within a fence: its commit is refused once the mark has reached that number.
/// The calls of a step run concurrently, so a number would not do: each has a letter, and the
/// commit of a call requires that its letter is one of a call without a result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EffectMark {
    /// The number of the last exclusive effect committed under the current fence; 0 if none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub effect: u32,
    /// The effect that was begun again, if one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<RepeatedAttempt>,
    /// The failure of the last effect, if it was a model call that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Box<ModelFailure>>,
    /// The open step of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<OpenStepMark>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// A repeated attempt at an effect, because the attempt before it may have died.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RepeatedAttempt {
    /// The number of the effect.
    pub effect: u32,
    /// The number of the current attempt. The first attempt, which is not recorded, is 0.
    pub attempt: u32,
    /// The end of the stream when the first recorded attempt began.
    #[serde(default, skip_serializing_if = "Sequence::is_start")]
    pub after: Sequence,
    /// Distinguishes two attempts that begin at the same time.
    pub by: String,
}

impl RepeatedAttempt {
    /// Creates the record of an attempt at an effect.
    #[must_use]
    pub fn new(effect: u32, attempt: u32, after: Sequence, by: impl Into<String>) -> Self {
        Self {
            effect,
            attempt,
            after,
            by: by.into(),
        }
    }
}

/// A failed model call, as its event reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelFailure {
    /// The error of the model call.
    pub error: ErrorRecord,
    /// When the call failed.
    pub now: Timestamp,
    /// The wait that the provider asks for, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl ModelFailure {
    /// Creates the record of a failed model call.
    #[must_use]
    pub(crate) fn new(error: ErrorRecord, now: Timestamp, retry_after_ms: Option<u64>) -> Self {
        Self {
            error,
            now,
            retry_after_ms,
        }
    }
}

/// The open step, with a letter for each of its calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OpenStepMark {
    /// The id of the step.
    pub id: StepId,
    /// The number of the step in its turn, from 1.
    pub step: u32,
    /// The state of each call.
    pub calls: Calls,
    /// How many times calls were begun again, by index; calls that were not are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attempts: BTreeMap<u32, u32>,
}

impl OpenStepMark {
    /// Summarizes an open step.
    #[must_use]
    pub fn of(step: &OpenStep) -> Self {
        Self {
            id: step.id.clone(),
            step: step.step,
            calls: Calls::of(&step.calls),
            attempts: (0u32..)
                .zip(&step.calls)
                .filter_map(|(index, call)| Some((index, attempts(call)?)))
                .collect(),
        }
    }

    /// Returns the number of the current attempt at a call.
    #[must_use]
    pub(crate) fn attempt_at(&self, index: u32) -> u32 {
        self.attempts.get(&index).copied().unwrap_or_default()
    }

    /// Records the state of one call.
    pub(super) fn set(&mut self, index: u32, call: &OpenCall) {
        self.calls.set(index, CallStatus::of(call));
        match attempts(call) {
            Some(attempts) => drop(self.attempts.insert(index, attempts)),
            None => drop(self.attempts.remove(&index)),
        }
    }
}

fn attempts(call: &OpenCall) -> Option<u32> {
    Some(call.attempts()).filter(|attempts| *attempts > 0)
}

impl EffectMark {
    /// Whether there is nothing to store.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the current attempt at an effect, if it was recorded.
    #[must_use]
    pub(crate) fn begun_at(&self, effect: u32) -> Option<&RepeatedAttempt> {
        self.begun.as_ref().filter(|begun| begun.effect == effect)
    }

    /// Returns the number of the current attempt at an effect.
    #[must_use]
    pub(crate) fn attempt_at(&self, effect: u32) -> u32 {
        self.begun_at(effect).map_or(0, |begun| begun.attempt)
    }

    /// Returns the state of a call of the open step and the number of its current attempt; `None`
    /// if that step is not open.
    #[must_use]
    pub(crate) fn call(&self, step: &StepId, index: u32) -> Option<(CallStatus, u32)> {
        let open = self.open.as_ref().filter(|open| open.id == *step)?;
        let call = open.calls.get(index)?;
        Some((call.standing, open.attempt_at(index)))
    }

    /// Whether a call of the open step has no result and this attempt is its current one.
    pub(super) fn is_unfinished(&self, step: &StepId, index: u32, attempt: u32) -> bool {
        let call = self.call(step, index);
        call.is_some_and(|(standing, at)| standing.is_unfinished() && at == attempt)
    }

    /// Checks whether a writer of deltas may write to a session with this fence.
    pub(crate) fn admit(&self, fence: Fence, writer: &StreamWriter) -> Result<(), StreamError> {
        let session = || writer.session.clone();
        if fence != writer.fence {
            return Err(StreamError::Superseded { session: session() });
        }
        let is_open = match &writer.by {
            None => true,
            Some(DeltaSource::Effect { n, attempt }) => {
                self.effect < *n && self.attempt_at(*n) == *attempt
            }
            Some(DeltaSource::Call {
                step,
                index,
                attempt,
            }) => self.is_unfinished(step, *index, *attempt),
        };
        if is_open {
            Ok(())
        } else {
            Err(StreamError::Overtaken { session: session() })
        }
    }

    /// Whether a call of the open step waits for a child that was suspended.
    pub(super) fn awaits_child(&self) -> bool {
        let open = self.open.as_ref();
        let is_awaiting = |call: &CallRef| call.standing == CallStatus::AwaitingChild;
        open.is_some_and(|open| open.calls.as_slice().iter().any(is_awaiting))
    }

    /// Resets the effect counters for a new fence. The open step stays open.
    pub(super) fn fenced(&mut self) {
        *self = Self {
            open: self.open.take(),
            ..Self::default()
        };
    }
}
