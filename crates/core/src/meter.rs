//! The port that receives measurements of runs.
//!
//! Runs, steps, tokens and tool calls are in the commits that make them durable, so a layer around
//! the store can count those. This port receives the rest.

use std::fmt;
use std::time::Duration;

use crate::error::ErrorCode;

/// Receives measurements that no commit holds.
///
/// It is called between a model's reply and its commit, so it must return at once.
pub trait Meter: Send + Sync + fmt::Debug {
    /// Reports that a model call has ended.
    fn model_called(&self, call: &ModelCall<'_>);
}

/// A model call that has ended, in a reply or in an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelCall<'a> {
    /// The name of the agent.
    pub agent: &'a str,
    /// The name of the model.
    pub model: &'a str,
    /// The time from the request to the end of the reply, or to the error.
    pub duration: Duration,
    /// The error code, if the call failed.
    pub failure: Option<ErrorCode>,
}
