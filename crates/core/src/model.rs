//! The port for language models.
//!
//! A model turns a request into a stream of [`ModelEvent`]s. [`ReplyBuilder`] assembles them into
//! one [`ModelReply`], the same way for every provider: parts in their order, call ids unique in
//! the session before they are shown anywhere.

mod error;
mod format;
mod function;
mod reply;
mod request;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures_core::Stream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::IdSource;
use crate::maybe_send::MaybeSend;
use crate::step::StopReason;

pub use error::{ModelError, ModelErrorKind};
pub use format::MessageFormat;
pub use function::ModelInput;
pub use reply::ModelReply;
// Used by the loop to assemble what a model streams.
#[doc(hidden)]
pub use reply::{ReplyBuilder, ReplyDelta};
pub use request::{ModelConfig, ModelRequest, ToolChoice, ToolSchema};

/// A stream of model events; it need not be `Send` on wasm32.
///
/// ```
/// use helix_agents::{EventStream, ModelEvent, StopReason, TokenUsage};
///
/// fn says(text: &str) -> EventStream<'static> {
///     let finished = ModelEvent::Finished { stop_reason: StopReason::EndTurn, usage: TokenUsage::default() };
///     let events = [ModelEvent::Text(text.to_owned()), finished];
///     Box::pin(futures_util::stream::iter(events.map(Ok)))
/// }
/// ```
#[cfg(not(target_arch = "wasm32"))]
pub type EventStream<'a> = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + Send + 'a>>;
/// A stream of model events; it need not be `Send` on wasm32.
#[cfg(target_arch = "wasm32")]
pub type EventStream<'a> = Pin<Box<dyn Stream<Item = Result<ModelEvent, ModelError>> + 'a>>;

/// A language model.
///
/// An implementation streams one attempt and reports errors as they are; the loop does the retries.
/// The stream ends with [`ModelEvent::Finished`] or with an error. A stream that ends otherwise
/// counts as a dropped connection. [`Model::stream`] is the only required method; an async function
/// that returns a whole reply is a model, too ([`Model::from_fn`]).
///
/// ```
/// use helix_agents::prelude::*;
/// use helix_agents::{EventStream, ModelError, ModelErrorKind, ModelRequest};
///
/// struct Offline;
///
/// impl Model for Offline {
///     fn stream<'a>(&'a self, _request: ModelRequest<'a>) -> EventStream<'a> {
///         let error = ModelError::new(ModelErrorKind::Transport, "there is no network");
///         Box::pin(futures_util::stream::iter([Err(error)]))
///     }
/// }
///
/// let agent = Agent::builder("assistant").model(Offline).build()?;
/// # Ok::<(), Error>(())
/// ```
pub trait Model: Send + Sync {
    /// Starts one attempt of a model call.
    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a>;

    /// Returns the name for usage records: `provider/model`.
    fn name(&self) -> &str {
        "custom/model"
    }

    /// Whether the provider can produce an output of a given schema natively, without a tool.
    fn supports_native_output(&self) -> bool {
        false
    }

    /// Returns the limits of the model, where they are known.
    fn limits(&self) -> ModelLimits {
        ModelLimits::default()
    }

    /// Returns the price of these tokens in micro-dollars (millionths of a US dollar), if it is known.
    fn cost(&self, _tokens: &TokenUsage) -> Option<u64> {
        None
    }

    /// Makes a model of an async function that returns a whole reply.
    ///
    /// ```
    /// use helix_agents_core::Agent;
    /// use helix_agents_core::model::{Model, ModelReply};
    ///
    /// let model = Model::from_fn(|input| async move {
    ///     Ok(ModelReply::text(format!("You said: {}", input.last_user_text())))
    /// });
    /// let echo = Agent::builder("echo").model(model).build()?;
    /// # Ok::<(), helix_agents_core::Error>(())
    /// ```
    fn from_fn<Fut>(reply: Self) -> Self
    where
        Self: Fn(ModelInput) -> Fut + Sized,
        Fut: Future<Output = Result<ModelReply, ModelError>> + MaybeSend + 'static,
    {
        reply
    }
}

impl fmt::Debug for dyn Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Model").field(&self.name()).finish()
    }
}

/// A model that is shared is the same model.
impl<M: Model + ?Sized> Model for Arc<M> {
    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        (**self).stream(request)
    }

    fn name(&self) -> &str {
        (**self).name()
    }

    fn supports_native_output(&self) -> bool {
        (**self).supports_native_output()
    }

    fn limits(&self) -> ModelLimits {
        (**self).limits()
    }

    fn cost(&self, tokens: &TokenUsage) -> Option<u64> {
        (**self).cost(tokens)
    }
}

/// One event of a streamed reply.
///
/// ```
/// use helix_agents::ModelEvent;
///
/// fn text(events: &[ModelEvent]) -> String {
///     let pieces = events.iter().filter_map(|event| match event {
///         ModelEvent::Text(piece) => Some(piece.as_str()),
///         _ => None,
///     });
///     pieces.collect()
/// }
/// assert_eq!(text(&[ModelEvent::Text("He".into()), ModelEvent::Text("llo".into())]), "Hello");
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ModelEvent {
    /// The next piece of text.
    Text(String),
    /// A text is complete. Needed only between two texts, and where the provider expects data back with
    /// one.
    TextEnd {
        /// Other data that the provider expects back.
        provider_metadata: Option<Value>,
    },
    /// The next piece of reasoning.
    Thinking(String),
    /// A block of reasoning is complete.
    ThinkingEnd {
        /// The provider's signature of the block.
        signature: Option<String>,
        /// An encrypted block that only the provider can read.
        redacted: Option<String>,
        /// Other data that the provider expects back.
        provider_metadata: Option<Value>,
    },
    /// A call begins. Calls are numbered from 0 in the order in which they begin.
    CallStart {
        /// The provider's id, if it gives one.
        id: Option<String>,
        /// The name of the tool.
        name: String,
    },
    /// The next piece of a call's arguments.
    CallArguments {
        /// The number of the call.
        call: usize,
        /// The JSON text to append.
        delta: String,
    },
    /// A call's arguments are complete.
    CallEnd {
        /// The number of the call.
        call: usize,
        /// Other data that the provider expects back.
        provider_metadata: Option<Value>,
    },
    /// The tokens that the call has used so far, all of them. They are recorded if the call fails or is cut
    /// off.
    Usage(TokenUsage),
    /// The reply is complete.
    Finished {
        /// Why the model stopped.
        stop_reason: StopReason,
        /// The tokens that the call used.
        usage: TokenUsage,
    },
}

/// The tokens of one model call.
///
/// ```
/// use helix_agents::TokenUsage;
///
/// let mut sum = TokenUsage::new(100, 20);
/// sum += TokenUsage::new(50, 5);
/// assert_eq!(sum.total(), 175);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TokenUsage {
    /// The number of input tokens.
    pub input: u64,
    /// The number of output tokens.
    pub output: u64,
    /// The input tokens read from the provider's cache; included in `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
    /// The output tokens used for reasoning; included in `output`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// The input tokens written to the provider's cache; included in `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
}

impl TokenUsage {
    /// Creates usage without cache and reasoning.
    #[must_use]
    pub fn new(input: u64, output: u64) -> Self {
        Self {
            input,
            output,
            ..Self::default()
        }
    }

    /// Returns the sum of input and output tokens.
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
        self.cache_write = sum(self.cache_write, other.cache_write);
    }
}

/// The limits of a model, where they are known.
///
/// ```
/// use helix_agents::ModelLimits;
///
/// let limits = ModelLimits::new(200_000, 64_000);
/// assert_eq!(limits.context_tokens, Some(200_000));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ModelLimits {
    /// The maximum number of tokens of a prompt and its reply.
    pub context_tokens: Option<u64>,
    /// The maximum number of tokens of a reply.
    pub max_output_tokens: Option<u64>,
}

impl ModelLimits {
    /// Creates known limits.
    #[must_use]
    pub fn new(context_tokens: u64, max_output_tokens: u64) -> Self {
        Self {
            context_tokens: Some(context_tokens),
            max_output_tokens: Some(max_output_tokens),
        }
    }
}

/// Convenience methods of every model.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait ModelExt: Model {
    /// Runs one attempt to its end and returns the whole reply.
    ///
    /// # Errors
    /// The [`ModelError`] of the attempt.
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
