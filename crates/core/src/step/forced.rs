//! Forced completion: an agent with an output schema must produce an output.

use serde::{Deserialize, Serialize};

use crate::message::UserMessage;

/// Why the last reply is not a valid output, for the model to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Correction {
    /// The model ended its turn with text.
    TextInsteadOfOutput,
    /// The reply was cut off for length.
    Truncated,
    /// The step limit was reached, or the user's own rule stopped the turn.
    OutOfSteps,
    /// The output does not fit the schema.
    Invalid {
        /// The validation errors, one sentence each.
        errors: Vec<String>,
    },
}

/// Builds the hidden message that asks the model for its output.
#[must_use]
pub fn correction_message(correction: &Correction) -> UserMessage {
    let why = match correction {
        Correction::TextInsteadOfOutput => {
            "Your reply did not contain the final output.".to_owned()
        }
        Correction::Truncated => {
            "Your reply was cut off because it was too long. Leave out explanations.".to_owned()
        }
        Correction::OutOfSteps => "There are no more steps for tool calls.".to_owned(),
        Correction::Invalid { errors } => format!(
            "The final output is not valid:\n{}",
            errors
                .iter()
                .map(|error| format!("- {error}"))
                .collect::<Vec<_>>()
                .join("\n")
        ),
    };
    UserMessage::hidden(format!(
        "{why}\nGive the final output now, and nothing else. It must match the output schema exactly."
    ))
}
