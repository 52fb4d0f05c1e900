//! A model that `genai` reaches.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use ::genai::adapter::AdapterKind;
use ::genai::chat::ChatStream;
use ::genai::{Client as GenaiClient, ModelIden};
use futures_util::{StreamExt, stream};
use helix_agents_core::model::{
    EventStream, Model, ModelError, ModelEvent, ModelLimits, ModelRequest, TokenUsage,
};

use super::builder::GenaiModelBuilder;
use super::quiet::Quiet;
use super::reply::GenaiReply;
use super::support::Support;
use super::{failure, request};
use crate::price::Price;
use crate::provider::endpoint::Client;
use crate::provider::failure::Confidential;
use crate::provider::secret::Secret;

/// A model of any provider that the crate `genai` has an adapter for.
///
/// It streams, sends nothing twice (the loop retries), and closes its connection when the stream is dropped.
/// Neither its key nor a prompt is in an error, a log or a debug print.
///
/// ```
/// use helix_agents_core::Agent;
/// use helix_agents_models::genai::GenaiModel;
///
/// let model = GenaiModel::builder("groq::openai/gpt-oss-120b").api_key("a key").build()?;
/// let agent = Agent::builder("assistant").model(model).build()?;
/// # Ok::<(), helix_agents_core::Error>(())
/// ```
pub struct GenaiModel {
    pub(super) name: String,
    pub(super) adapter: AdapterKind,
    /// The name of the model with its adapter, as `genai` knows it.
    pub(super) model: String,
    pub(super) client: GenaiClient,
    pub(super) http: Client,
    pub(super) key: Option<Secret>,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) limits: ModelLimits,
    pub(super) price: Option<Price>,
    pub(super) native_output: bool,
}

impl GenaiModel {
    /// Begins a model. Its name is that of the adapter and that of the model at its provider, as `genai` writes
    /// them: `groq::openai/gpt-oss-120b`, `cohere::command-a`, `bedrock_api::amazon.nova-pro-v1:0`.
    pub fn builder(model: impl Into<String>) -> GenaiModelBuilder {
        GenaiModelBuilder::new(model.into())
    }
}

/// One attempt of a call.
struct Attempt<'a> {
    model: &'a GenaiModel,
    request: ModelRequest<'a>,
    phase: Phase,
    reply: GenaiReply<'a>,
    /// Events that were read and not yet given.
    events: VecDeque<ModelEvent>,
}

enum Phase {
    Begin,
    Reading(ChatStream),
    Failed(ModelError),
    Done,
}

impl Attempt<'_> {
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(Ok(event));
            }
            self.phase = match std::mem::replace(&mut self.phase, Phase::Done) {
                Phase::Begin => match self.begin().await {
                    Ok(stream) => Phase::Reading(stream),
                    Err(error) => Phase::Failed(error),
                },
                Phase::Reading(stream) => self.read(stream).await,
                Phase::Failed(error) => return Some(Err(error)),
                Phase::Done => return None,
            };
        }
    }

    async fn begin(&mut self) -> Result<ChatStream, ModelError> {
        let support = Support::of(self.model.adapter);
        let conversation = request::conversation(&self.request, &self.model.model, support)?;
        let options = request::options(&self.request, &self.model.headers, support)?;
        let model = ModelIden::new(self.model.adapter, self.model.model.as_str());
        let client = &self.model.client;
        let response = client.exec_chat_stream(model, conversation, Some(&options));
        let response = response.await.map_err(|error| self.failed(error))?;
        Ok(response.stream)
    }

    /// Reads the next event.
    async fn read(&mut self, mut stream: ChatStream) -> Phase {
        let read = match stream.next().await {
            Some(Ok(event)) => self.reply.read(event, &mut self.events),
            Some(Err(error)) => Err(self.failed(error)),
            // The loop takes a stream without its last event for a dropped connection.
            None => return Phase::Done,
        };
        match read {
            Err(error) => Phase::Failed(error),
            Ok(()) if matches!(self.events.back(), Some(ModelEvent::Finished { .. })) => {
                Phase::Done
            }
            Ok(()) => Phase::Reading(stream),
        }
    }

    fn failed(&self, error: ::genai::Error) -> ModelError {
        let support = Support::of(self.model.adapter);
        // It is written again, because `genai` does not tell what it sent.
        let conversation = request::conversation(&self.request, &self.model.model, support);
        let body = conversation
            .ok()
            .and_then(|all| serde_json::to_vec(&all).ok());
        let confidential = Confidential {
            key: self.model.key.as_ref().map(|key| key.reveal()),
            body: &body.unwrap_or_default(),
        };
        let adapter = self.model.adapter.as_lower_str();
        failure::of(error, adapter, &self.model.http, &confidential)
    }
}

impl Model for GenaiModel {
    fn stream<'a>(&'a self, request: ModelRequest<'a>) -> EventStream<'a> {
        let attempt = Box::new(Attempt {
            model: self,
            request,
            phase: Phase::Begin,
            reply: GenaiReply::new(&self.model),
            events: VecDeque::new(),
        });
        let events = stream::unfold(attempt, |mut attempt| async {
            let event = attempt.next().await?;
            Some((event, attempt))
        });
        Box::pin(Quiet(Box::pin(events)))
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn supports_native_output(&self) -> bool {
        self.native_output
    }

    fn limits(&self) -> ModelLimits {
        self.limits
    }

    fn cost(&self, tokens: &TokenUsage) -> Option<u64> {
        self.price.map(|price| price.of(tokens))
    }
}

impl fmt::Debug for GenaiModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GenaiModel")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
