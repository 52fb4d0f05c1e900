//! A model whose attempts follow a list of steps, and which records its requests.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use futures_util::stream::{self, BoxStream, StreamExt};
use helix_agents_core::model::{
    EventStream, Model, ModelConfig, ModelError, ModelErrorKind, ModelEvent, ModelRequest,
};
use helix_agents_core::time::Timestamp;

use super::agents::Gate;

/// One step of an attempt.
#[derive(Debug)]
pub(in crate::contract) enum ModelStep {
    Emit(ModelEvent),
    Wait(Gate),
    Fail(ModelError),
}

/// A model with a list of steps for each attempt.
#[derive(Debug, Default)]
pub(in crate::contract) struct StepwiseModel {
    attempts: Mutex<VecDeque<Vec<ModelStep>>>,
    asked: Mutex<Vec<SeenAttempt>>,
}

/// A request that the model has seen.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SeenAttempt {
    pub(super) attempt: u32,
    pub(super) at: Timestamp,
    pub(super) config: ModelConfig,
}

impl StepwiseModel {
    pub(in crate::contract) fn new(attempts: impl IntoIterator<Item = Vec<ModelStep>>) -> Self {
        Self {
            attempts: Mutex::new(attempts.into_iter().collect()),
            asked: Mutex::default(),
        }
    }

    pub(super) fn asked(&self) -> Vec<SeenAttempt> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.clone()
    }
}

impl Model for StepwiseModel {
    fn name(&self) -> &str {
        "test/teller"
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.push(SeenAttempt {
            attempt: request.attempt,
            at: request.clock.now(),
            config: request.config.clone(),
        });
        drop(asked);
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let nothing = || {
            vec![ModelStep::Fail(ModelError::new(
                ModelErrorKind::Invalid,
                "no more",
            ))]
        };
        let tells = attempts.pop_front().unwrap_or_else(nothing);
        let events: BoxStream<'a, _> = stream::iter(tells)
            .filter_map(|tell| async {
                match tell {
                    ModelStep::Emit(event) => Some(Ok(event)),
                    ModelStep::Fail(error) => Some(Err(error)),
                    ModelStep::Wait(gate) => {
                        gate.pass().await;
                        None
                    }
                }
            })
            .boxed();
        events
    }

    fn supports_native_output(&self) -> bool {
        false
    }
}
