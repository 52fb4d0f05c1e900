//! The port to language models.
//!
//! A model turns a request into a stream of [`ModelEvent`]s. [`ReplyBuilder`] makes one
//! [`ModelReply`] of them, the same way for every provider: parts in their order, call ids unique
//! in the session before anything shows them.

mod error;
mod reply;
mod request;

use std::fmt;
use std::pin::Pin;

use async_trait::async_trait;
use futures_core::Stream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::IdSource;
use crate::step::StopReason;

pub use error::{ModelError, ModelErrorKind};
pub use reply::{ModelReply, ReplyBuilder, ReplyDelta};
pub use request::{ModelConfig, ModelRequest, ToolChoice, ToolSchema};

/// A stream of events; it need not be `Send` on wasm32.
#[cfg(not(target_arch = "wasm32"))]
pub type EventStream<'a> = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send + 'a>>;
/// A stream of events; it need not be `Send` on wasm32.
#[cfg(target_arch = "wasm32")]
pub type EventStream<'a> = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + 'a>>;

/// A language model.
///
/// An implementation streams one attempt and reports errors as they are; retries belong to the
/// loop. The stream ends with [`ModelEvent::Finished`] or with an error. A stream that just ends is
/// a dropped connection.
pub trait Model: Send + Sync + fmt::Debug {
    /// Its name as usage records have it: `provider/model`.
    fn name(&self) -> &str;

    /// Starts one attempt.
    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a>;

    /// Whether the provider can be made to answer with an output of a given schema, without a tool.
    fn supports_native_output(&self) -> bool;
}

/// One thing that happened while a model replied.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ModelEvent {
    /// More text.
    Text(String),
    /// More reasoning.
    Thinking(String),
    /// A block of reasoning is complete.
    ThinkingEnd {
        /// The provider's proof.
        signature: Option<String>,
        /// An encrypted block.
        redacted: Option<String>,
        /// What else the provider wants back.
        provider_metadata: Option<Value>,
    },
    /// A call begins. Calls are counted from 0 in the order of their beginnings.
    CallStart {
        /// The provider's id, where it gives one.
        id: Option<String>,
        /// The tool.
        name: String,
    },
    /// More of a call's arguments.
    CallArguments {
        /// Which call.
        call: usize,
        /// The next piece of JSON text.
        delta: String,
    },
    /// A call's arguments are complete.
    CallEnd {
        /// Which call.
        call: usize,
        /// What else the provider wants back.
        provider_metadata: Option<Value>,
    },
    /// The reply is complete.
    Finished {
        /// Why the model stopped.
        stop_reason: StopReason,
        /// What it cost.
        usage: TokenUsage,
    },
}

/// Tokens of one model call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TokenUsage {
    /// Tokens read.
    pub input: u64,
    /// Tokens written.
    pub output: u64,
    /// Tokens read from the provider's cache; part of `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
    /// Tokens of reasoning; part of `output`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

impl TokenUsage {
    /// Usage without cache and reasoning.
    #[must_use]
    pub fn new(input: u64, output: u64) -> Self {
        Self {
            input,
            output,
            ..Self::default()
        }
    }

    /// Input and output together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

impl std::ops::AddAssign for TokenUsage {
    fn add_assign(&mut self, other: Self) {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cached = sum(self.cached, other.cached);
        self.reasoning = sum(self.reasoning, other.reasoning);
    }
}

/// Conveniences on every model.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait ModelExt: Model {
    /// Runs one attempt to its end and gives the whole reply.
    ///
    /// # Errors
    /// The attempt's [`ModelError`].
    async fn reply(
        &self,
        request: ModelRequest<'_>,
        ids: &dyn IdSource,
    ) -> Result<ModelReply, ModelError> {
        let mut builder = ReplyBuilder::new(request.prompt.history());
        let mut events = self.stream(request);
        while let Some(event) = std::future::poll_fn(|cx| events.as_mut().poll_next(cx)).await {
            builder.push(event?, ids)?;
        }
        builder.finish()
    }
}

impl<M: Model + ?Sized> ModelExt for M {}
