//! What a host tells the loop.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{At, OpenRef, Standing};
use crate::error::ErrorRecord;
use crate::session::{CallPhase, OpenCall, OpenStep, RunStatus};
use crate::store::ModelFailure;
use crate::stored::Stored;
use crate::time::Timestamp;

/// The longest text of an error that travels in an event.
const MAX_TEXT: usize = 2048;

/// What became of an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Event {
    /// The number of the effect that it answers; 0 for the start of a run.
    pub n: u32,
    /// The step of the effect.
    #[serde(default)]
    pub step: u32,
    /// Whether somebody asked the run to stop.
    #[serde(default)]
    pub stop: bool,
    /// What happened.
    #[serde(flatten)]
    pub what: Happened,
}

impl Stored for Event {
    const KIND: &'static str = "event";
    const VERSION: u32 = 2;

    fn upgrade(from: u32, mut data: Value) -> Result<Value, String> {
        if from != 1 {
            return Err(format!("there is no upgrade from version {from}"));
        }
        // A call that came to something had its result, or waited for a client.
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

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "what",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum Happened {
    /// The run starts, or is taken over.
    Started {},
    /// The model replied with calls that are not all settled; the reply is durable.
    Replied {
        /// The open step.
        open: OpenRef,
    },
    /// The model call failed. Nothing is durable.
    ModelFailed {
        /// Why.
        error: ErrorRecord,
        /// When.
        now: Timestamp,
        /// How long the provider asks to wait, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
    /// A call came to something that is durable.
    Called {
        /// Its place in the reply.
        index: u32,
        /// Where it stands: it has its result, somebody is waited for, or a child works on it.
        standing: Standing,
        /// How large its result is, in bytes.
        size: u64,
        /// Whether it ends the run.
        #[serde(default)]
        fatal: bool,
        /// Whether its result ends the turn, so that no further call of its phase is run.
        #[serde(default)]
        finishes: bool,
    },
    /// The effect cannot be performed, however often it is tried. Nothing of it is durable.
    Broke {
        /// Why.
        error: ErrorRecord,
        /// The place of the call in the reply, when it was one: it may have taken effect.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<u32>,
    },
    /// The step is in the history: by itself, with its reply, or with its last call.
    Settled(Settled),
    /// The wait is over.
    Slept {},
    /// Answers came before the run could pause; they are taken.
    Answered {
        /// The open step, with them.
        open: OpenRef,
    },
    /// The run has ended.
    Ended {
        /// As what.
        status: RunStatus,
    },
}

/// A step that is in the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Settled {
    /// How many steps of the turn are in the history.
    pub steps: u32,
    /// How often the model was asked for an output that it owes.
    pub corrections: u32,
    /// As what the run ended, when it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<RunStatus>,
}

impl Settled {
    /// A step that is in the history.
    #[must_use]
    pub fn new(steps: u32, corrections: u32, ended: Option<RunStatus>) -> Self {
        Self {
            steps,
            corrections,
            ended,
        }
    }
}

impl Event {
    /// The event with which every run begins.
    #[must_use]
    pub fn started() -> Self {
        Self {
            n: 0,
            step: 0,
            stop: false,
            what: Happened::Started {},
        }
    }

    /// The answer to an effect.
    #[must_use]
    pub fn of(at: &At, what: Happened) -> Self {
        Self {
            n: at.n,
            step: at.step,
            stop: false,
            what,
        }
    }

    /// Adds that somebody asked the run to stop.
    #[must_use]
    pub fn with_stop(mut self, stop: bool) -> Self {
        self.stop = stop;
        self
    }
}

impl Happened {
    /// A failed model call, with texts that fit into an event.
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

    /// What a call came to, by what is stored of its step.
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
            standing: Standing::of(call),
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

/// The same error with texts that fit into an event.
fn shortened(mut error: ErrorRecord) -> ErrorRecord {
    for text in [&mut error.message, &mut error.detail] {
        if text.len() > MAX_TEXT {
            let end = (0..=MAX_TEXT).rev().find(|at| text.is_char_boundary(*at));
            text.truncate(end.unwrap_or(0));
            text.push('…');
        }
    }
    error
}
