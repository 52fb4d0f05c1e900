//! A complete step: every call has its result.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Coded, ErrorCode};
use crate::id::CallId;
use crate::message::{AssistantMessage, ToolMessage};

/// An assistant message with exactly one result for each of its calls, in the model's
/// order. Clones share them.
#[derive(Debug, Clone, PartialEq)]
pub struct PairedStep(Arc<Parts>);

#[derive(Debug, Clone, PartialEq)]
struct Parts {
    assistant: AssistantMessage,
    results: Vec<ToolMessage>,
}

/// Why an assistant message and results do not form a step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PairingError {
    /// A call has no result.
    #[error("tool call {call} has no result; a step is stored when every call has one")]
    MissingResult {
        /// The id of the call.
        call: CallId,
    },
    /// A result answers no call of this message.
    #[error("a result answers tool call {call}, which this message does not make; drop it")]
    UnknownCall {
        /// The call id of the result.
        call: CallId,
    },
    /// Two results answer one call.
    #[error("tool call {call} has two results; keep the first")]
    TwoResults {
        /// The id of the call.
        call: CallId,
    },
    /// Two calls of this message have one id.
    #[error("two calls have the id {call}; make ids unique with `Transcript::call_ids`")]
    RepeatedCall {
        /// The repeated id.
        call: CallId,
    },
}

impl Coded for PairingError {
    fn code(&self) -> ErrorCode {
        ErrorCode::StateInvalid
    }
}

/// The number of calls up to which they are compared with each other instead of with a set.
const FEW_CALLS: usize = 8;

/// Whether there are few calls, each with its result at its place, as a step of the loop has them.
fn is_in_order(assistant: &AssistantMessage, results: &[ToolMessage]) -> bool {
    let calls = assistant.tool_calls().map(|call| &call.id);
    let ids = || results.iter().map(|result| &result.tool_call_id);
    results.len() <= FEW_CALLS
        && calls.eq(ids())
        && ids()
            .enumerate()
            .all(|(place, id)| ids().take(place).all(|before| before != id))
}

impl PairedStep {
    /// Pairs a message with the results of its calls, which may come in any order.
    ///
    /// # Errors
    /// [`PairingError`] if a call does not have exactly one result, or a result has no call.
    pub fn new(
        assistant: AssistantMessage,
        results: impl IntoIterator<Item = ToolMessage>,
    ) -> Result<Self, PairingError> {
        let mut given = Vec::with_capacity(assistant.tool_calls().count());
        given.extend(results);
        if is_in_order(&assistant, &given) {
            return Ok(Self(Arc::new(Parts {
                assistant,
                results: given,
            })));
        }
        let mut by_call = HashMap::new();
        for result in given {
            let call = result.tool_call_id.clone();
            if by_call.insert(call.clone(), result).is_some() {
                return Err(PairingError::TwoResults { call });
            }
        }
        let mut ordered = Vec::with_capacity(by_call.len());
        for call in assistant.tool_calls() {
            match by_call.remove(&call.id) {
                Some(result) => ordered.push(result),
                None if ordered.iter().any(|done| done.tool_call_id == call.id) => {
                    return Err(PairingError::RepeatedCall {
                        call: call.id.clone(),
                    });
                }
                None => {
                    return Err(PairingError::MissingResult {
                        call: call.id.clone(),
                    });
                }
            }
        }
        if let Some(call) = by_call.into_keys().min() {
            return Err(PairingError::UnknownCall { call });
        }
        Ok(Self(Arc::new(Parts {
            assistant,
            results: ordered,
        })))
    }

    /// Returns the model's message.
    #[must_use]
    pub fn assistant(&self) -> &AssistantMessage {
        &self.0.assistant
    }

    /// Returns the results, in the order of the calls.
    #[must_use]
    pub fn results(&self) -> &[ToolMessage] {
        &self.0.results
    }

    /// Returns the number of messages in the step.
    #[must_use]
    #[doc(hidden)]
    pub fn message_count(&self) -> usize {
        1 + self.0.results.len()
    }

    /// Returns the message and its results.
    #[must_use]
    pub(crate) fn into_parts(self) -> (AssistantMessage, Vec<ToolMessage>) {
        let Parts { assistant, results } = Arc::unwrap_or_clone(self.0);
        (assistant, results)
    }
}
