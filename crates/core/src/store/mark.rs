//! How far the effects of a run have come: what the commit of an effect is judged by.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::ErrorRecord;
use crate::id::StepId;
use crate::machine::{Calls, Standing};
use crate::session::{OpenCall, OpenStep};
use crate::stream::Sequence;
use crate::time::Timestamp;

/// What the header of a session keeps of its run's effects.
///
/// Engines perform an effect at least once: perhaps twice at the same time, perhaps late. Its commit
/// must count once. An effect that nothing goes on beside (ask the model, settle a step, end the run)
/// has a number that grows within a fence: its commit is refused when the mark has reached it. The
/// calls of a step are run beside each other, so a number would not do: each has a letter, and the
/// commit of a call needs its letter to be one of a call without a result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EffectMark {
    /// The last effect, of those that nothing goes on beside, that was committed under the present
    /// fence; 0: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub effect: u32,
    /// The effect that was begun again, where one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Begun>,
    /// How the last effect failed, when it was a model call that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Box<ModelFailure>>,
    /// The open step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<OpenMark>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// An effect that was begun again, because the attempt before it may have died.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Begun {
    /// The number of the effect.
    pub effect: u32,
    /// Which attempt has it now. The first one, which notes nothing, is 0.
    pub attempt: u32,
    /// The end of the stream when the first attempt that noted anything began.
    #[serde(default, skip_serializing_if = "Sequence::is_start")]
    pub after: Sequence,
    /// Tells two attempts apart that begin at the same time.
    pub by: String,
}

impl Begun {
    /// An attempt at an effect.
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

/// A model call that failed, as its event tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelFailure {
    /// Why.
    pub error: ErrorRecord,
    /// When.
    pub now: Timestamp,
    /// How long the provider asks to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl ModelFailure {
    /// A model call that failed.
    #[must_use]
    pub fn new(error: ErrorRecord, now: Timestamp, retry_after_ms: Option<u64>) -> Self {
        Self {
            error,
            now,
            retry_after_ms,
        }
    }
}

/// The open step, a letter for each of its calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OpenMark {
    /// Names it.
    pub id: StepId,
    /// Its number in the turn, from 1.
    pub step: u32,
    /// Where its calls stand.
    pub calls: Calls,
    /// How often calls were begun again, by their places; those that were not are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attempts: BTreeMap<u32, u32>,
}

impl OpenMark {
    /// What is kept of a step.
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

    /// Which attempt has a call now.
    #[must_use]
    pub fn attempt_at(&self, index: u32) -> u32 {
        self.attempts.get(&index).copied().unwrap_or_default()
    }

    /// Notes what is known of one call.
    pub(super) fn set(&mut self, index: u32, call: &OpenCall) {
        self.calls.set(index, Standing::of(call));
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
    /// Whether there is nothing to keep.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The attempt that has an effect now, where it noted that.
    #[must_use]
    pub fn begun_at(&self, effect: u32) -> Option<&Begun> {
        self.begun.as_ref().filter(|begun| begun.effect == effect)
    }

    /// Which attempt has an effect now.
    #[must_use]
    pub fn attempt_at(&self, effect: u32) -> u32 {
        self.begun_at(effect).map_or(0, |begun| begun.attempt)
    }

    /// Where a call of an open step stands, and which attempt has it; `None`: that step is not open.
    #[must_use]
    pub fn call(&self, step: &StepId, index: u32) -> Option<(Standing, u32)> {
        let open = self.open.as_ref().filter(|open| open.id == *step)?;
        let call = open.calls.get(index)?;
        Some((call.standing, open.attempt_at(index)))
    }

    /// A new fence: effects are counted anew. What is open stays open.
    pub(super) fn fenced(&mut self) {
        *self = Self {
            open: self.open.take(),
            ..Self::default()
        };
    }
}
