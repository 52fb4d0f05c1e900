//! A model whose every event is written down, and which says when it was asked.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use futures_util::stream::{self, BoxStream, StreamExt};
use helix_agents_core::model::{
    EventStream, Model, ModelConfig, ModelError, ModelErrorKind, ModelEvent, ModelRequest,
};
use helix_agents_core::time::Timestamp;

use super::agents::Gate;

/// One thing that an attempt does.
#[derive(Debug)]
pub(in crate::contract) enum Tell {
    Say(ModelEvent),
    Wait(Gate),
    Fail(ModelError),
}

/// A model whose attempts do what they are told.
#[derive(Debug, Default)]
pub(in crate::contract) struct Teller {
    attempts: Mutex<VecDeque<Vec<Tell>>>,
    asked: Mutex<Vec<Asked>>,
}

/// An attempt as the model saw it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    pub(super) attempt: u32,
    pub(super) at: Timestamp,
    pub(super) config: ModelConfig,
}

impl Teller {
    pub(in crate::contract) fn new(attempts: impl IntoIterator<Item = Vec<Tell>>) -> Self {
        Self {
            attempts: Mutex::new(attempts.into_iter().collect()),
            asked: Mutex::default(),
        }
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.clone()
    }
}

impl Model for Teller {
    fn name(&self) -> &str {
        "test/teller"
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.push(Asked {
            attempt: request.attempt,
            at: request.clock.now(),
            config: request.config.clone(),
        });
        drop(asked);
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let nothing = || {
            vec![Tell::Fail(ModelError::new(
                ModelErrorKind::Invalid,
                "no more",
            ))]
        };
        let tells = attempts.pop_front().unwrap_or_else(nothing);
        let events: BoxStream<'a, _> = stream::iter(tells)
            .filter_map(|tell| async {
                match tell {
                    Tell::Say(event) => Some(Ok(event)),
                    Tell::Fail(error) => Some(Err(error)),
                    Tell::Wait(gate) => {
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
