//! The events that a host reports to the loop.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CallStatus, EffectAddress, OpenStepRef};
use crate::bounds::up_to;
use crate::error::ErrorRecord;
use crate::id::SessionId;
use crate::session::{CallPhase, OpenCall, OpenStep, RunStatus};
use crate::store::ModelFailure;
use crate::stored::Stored;
use crate::time::Timestamp;

/// The maximum length of an error text in an event.
const MAX_TEXT: usize = 2048;

/// The outcome of an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Event {
    /// The number of the effect; 0 for the start of a run.
    pub n: u32,
    /// The step of the effect.
    #[serde(default)]
    pub step: u32,
    /// Whether a stop of the run is requested.
    #[serde(default)]
    pub stop: bool,
    /// Whether messages wait for the next run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub messages_wait: bool,
    /// A session of the tree in which messages wait for a run that nobody waits for. The host starts it in a way of
    /// its own, beside this run. If it does not, a sweeper does: the messages are due work. An effect that is
    /// performed again does not tell it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wakes: Option<SessionId>,
    /// The outcome that the event reports.
    #[serde(flatten)]
    pub what: EventKind,
}

impl Stored for Event {
    const KIND: &'static str = "event";
    const VERSION: u32 = 2;

    fn upgrade(from: u32, mut data: Value) -> Result<Value, String> {
        if from != 1 {
            return Err(format!("no upgrade from version {from}"));
        }
        // In version 1 a call had its result, or waited for a client.
        if let Some(event) = data.as_object_mut()
            && let Some(terminal) = event.remove("terminal")
        {
            let letter = if terminal == Value::Bool(true) {
                "t"
            } else {
                "c"
            };
            event.insert("standing".to_owned(), letter.into());
        }
        Ok(data)
    }
}

/// The outcome that an event reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "what",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum EventKind {
    /// The run starts, or is taken over.
    Started {},
    /// The model replied with calls that are not all settled; the reply is durable.
    Replied {
        /// The open step of the reply.
        open: OpenStepRef,
    },
    /// The model call failed. Nothing of it is durable.
    ModelFailed {
        /// The error of the model call.
        error: ErrorRecord,
        /// When the call failed.
        now: Timestamp,
        /// The wait that the provider asks for, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
    /// The run was asked to stop during the model call, or its time was over. Nothing of it is durable.
    Cut {},
    /// The model was not asked, because a budget leaves no room for the call.
    BudgetExhausted {},
    /// A call has a durable outcome.
    Called {
        /// The index of the call in the reply.
        index: u32,
        /// The state of the call: it has its result, is pending, or a child works on it.
        standing: CallStatus,
        /// The size of its result, in bytes.
        size: u64,
        /// Whether the call ends the run.
        #[serde(default)]
        fatal: bool,
        /// Whether its result ends the turn, so that no further call of its phase is run.
        #[serde(default)]
        finishes: bool,
    },
    /// The effect cannot be performed, however often it is tried. Nothing of it is durable.
    Broke {
        /// The error that prevents it.
        error: ErrorRecord,
        /// The index of the call in the reply, for a call: it may have taken effect.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<u32>,
    },
    /// The step is in the history: committed alone, with its reply, or with its last call.
    Settled(TurnProgress),
    /// The wait is over.
    Slept {},
    /// Answers arrived before the run could suspend; they are taken.
    Answered {
        /// The open step with the answers.
        open: OpenStepRef,
    },
    /// The run has ended.
    Ended {
        /// The status with which it ended.
        status: RunStatus,
    },
}

/// The progress of a turn after a step was settled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TurnProgress {
    /// The number of steps of the turn in the history.
    pub steps: u32,
    /// How many times the model was asked for a missing output.
    pub corrections: u32,
    /// The status with which the run ended, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<RunStatus>,
}

impl TurnProgress {
    /// Creates the progress after a settled step.
    #[must_use]
    pub(crate) fn new(steps: u32, corrections: u32, ended: Option<RunStatus>) -> Self {
        Self {
            steps,
            corrections,
            ended,
        }
    }
}

impl Event {
    /// Returns the event with which every run begins.
    #[must_use]
    pub fn started() -> Self {
        Self {
            n: 0,
            step: 0,
            stop: false,
            messages_wait: false,
            wakes: None,
            what: EventKind::Started {},
        }
    }

    /// Creates the event of an effect.
    #[must_use]
    #[doc(hidden)]
    pub fn of(at: &EffectAddress, what: EventKind) -> Self {
        Self {
            n: at.n,
            step: at.step,
            stop: false,
            messages_wait: false,
            wakes: None,
            what,
        }
    }

    /// Sets the session in which messages wait for a run that nobody waits for.
    #[must_use]
    pub(crate) fn waking(mut self, session: Option<SessionId>) -> Self {
        self.wakes = session;
        self
    }

    /// Sets whether messages wait for the next run.
    #[must_use]
    pub(crate) fn with_messages(mut self, wait: bool) -> Self {
        self.messages_wait = wait;
        self
    }

    /// Sets whether a stop of the run is requested.
    #[must_use]
    #[doc(hidden)]
    pub fn with_stop(mut self, stop: bool) -> Self {
        self.stop = stop;
        self
    }
}

impl EventKind {
    /// Creates the record of a failed model call, with texts that fit into an event.
    pub(crate) fn failure(
        error: ErrorRecord,
        now: Timestamp,
        retry_after: Option<std::time::Duration>,
    ) -> ModelFailure {
        let millis = |wait: std::time::Duration| u64::try_from(wait.as_millis());
        let retry_after = retry_after.map(|wait| millis(wait).unwrap_or(u64::MAX));
        ModelFailure::new(shortened(error), now, retry_after)
    }

    pub(crate) fn model_failed(failure: ModelFailure) -> Self {
        Self::ModelFailed {
            error: failure.error,
            now: failure.now,
            retry_after_ms: failure.retry_after_ms,
        }
    }

    /// Creates the event of a call from its stored step.
    pub(crate) fn called(step: &OpenStep, index: u32) -> Option<Self> {
        let call = step.calls.get(usize::try_from(index).ok()?)?;
        let size = call.result.as_ref();
        let size = size.map_or(0, |result| result.content.len());
        let succeeded = |call: &OpenCall| {
            let result = call.result.as_ref();
            result.is_some_and(|result| result.status.is_success())
        };
        Some(Self::Called {
            index,
            standing: CallStatus::of(call),
            size: u64::try_from(size).unwrap_or(u64::MAX),
            fatal: call.fatal.is_some(),
            finishes: call.phase == CallPhase::Finish && succeeded(call),
        })
    }

    pub(crate) fn broke(error: ErrorRecord, index: Option<u32>) -> Self {
        Self::Broke {
            error: shortened(error),
            index,
        }
    }
}

/// Shortens the texts of an error to fit into an event.
fn shortened(mut error: ErrorRecord) -> ErrorRecord {
    for text in [&mut error.message, &mut error.detail] {
        if text.len() > MAX_TEXT {
            text.truncate(up_to(text, MAX_TEXT).len());
            text.push('…');
        }
    }
    error
}
