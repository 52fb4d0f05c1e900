//! The rules about what follows a step.

use serde_json::Value;

use super::ending::Ending;
use crate::message::{ToolMessage, UserMessage};
use crate::session::{CallPhase, OpenStep, RunStatus};
use crate::step::{NextAction, StopCause, correction_message};

/// The continuation of a run after a step.
pub(super) enum AfterStep {
    /// The next step.
    Continue,
    /// The next step, in which the model is shown what was wrong.
    Correct(UserMessage),
    /// The end of the run.
    End(Ending),
}

impl AfterStep {
    /// Applies the rules to a step whose calls all have results. `output` is the one that the reply
    /// itself gave.
    pub(super) fn of(open: &OpenStep, output: Option<Value>) -> Self {
        if let Some(error) = open.calls.iter().find_map(|call| call.fatal.clone()) {
            return Self::End(Ending::Failed { error });
        }
        if let Some(result) = finishing_result(open) {
            return Self::End(Ending::Completed {
                cause: StopCause::StructuredOutput,
                output: Some(result.value()),
            });
        }
        match &open.after {
            NextAction::Continue => Self::Continue,
            NextAction::Correct(correction) => Self::Correct(correction_message(correction)),
            NextAction::Fail(error) => Self::End(Ending::Failed {
                error: error.clone(),
            }),
            NextAction::Complete => Self::End(Ending::Completed {
                cause: if output.is_some() {
                    StopCause::StructuredOutput
                } else if open.calls.is_empty() {
                    StopCause::Text
                } else {
                    StopCause::StopWhen
                },
                output,
            }),
        }
    }

    /// Whether the run ends.
    pub(super) fn is_end(&self) -> bool {
        matches!(self, Self::End(_))
    }

    /// The status of a run that ends.
    pub(super) fn ended(&self) -> Option<RunStatus> {
        match self {
            Self::End(ending) => Some(ending.status()),
            Self::Continue | Self::Correct(_) => None,
        }
    }

    /// A run that was asked to stop does not end by itself: the step is kept, and the run ends as it
    /// was asked.
    pub(super) fn heed_stop(&mut self) {
        if self.is_end() {
            *self = Self::Continue;
        }
    }
}

/// The result that ends the turn.
pub(super) fn finishing_result(open: &OpenStep) -> Option<&ToolMessage> {
    let finishing = open
        .calls
        .iter()
        .filter(|call| call.phase == CallPhase::Finish);
    let mut results = finishing.filter_map(|call| call.result.as_ref());
    results.find(|result| result.status.is_success())
}
