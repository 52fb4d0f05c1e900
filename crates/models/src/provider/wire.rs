//! The parts in which the formats of providers differ.

use std::collections::VecDeque;

use bytes::Bytes;
use helix_agents_core::model::{ModelError, ModelErrorKind, ModelEvent, ModelRequest};

use super::endpoint::Endpoint;
use super::failure::ProviderFailure;
use super::sse::SseEvent;

/// One request, ready to be sent.
#[derive(Debug)]
pub(crate) struct WireRequest {
    /// The path behind the base URL.
    pub(crate) path: String,
    /// The headers of this format, beside those of the endpoint.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Values of headers that are lists, added to the values that a user sets.
    pub(crate) listed: Vec<(&'static str, &'static str)>,
    pub(crate) body: Bytes,
}

/// The format of a provider.
pub(crate) trait Wire: Send + Sync + std::fmt::Debug {
    /// Writes a request.
    fn request(
        &self,
        endpoint: &Endpoint,
        request: &ModelRequest<'_>,
    ) -> Result<WireRequest, ModelError>;

    /// Returns a reader of the reply to that request.
    fn reader(&self, request: &ModelRequest<'_>) -> Box<dyn ReplyReader>;
}

/// Reads one streamed reply.
pub(crate) trait ReplyReader: Send {
    /// Reads one event of the stream, and adds what it says to `out`.
    fn read(
        &mut self,
        event: SseEvent<'_>,
        out: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ReadError>;

    /// Returns the body of a request for the rest of the reply, where the provider gives a reply in several
    /// responses and this one has ended. `sent` is the body of the last request.
    fn rest(&mut self, _sent: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// Ends the reply where the stream ends. A format whose streams end with an event of their own has
    /// nothing to add: without that event the reply is not whole.
    fn end(&mut self, _out: &mut VecDeque<ModelEvent>) -> Result<(), ReadError> {
        Ok(())
    }
}

/// The error of a conversation that a format cannot write.
pub(crate) fn unknown_message() -> ModelError {
    let detail = "the conversation has a kind of message that this client does not know";
    ModelError::new(ModelErrorKind::Invalid, detail)
}

/// Why a stream cannot be read on.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The provider reported an error.
    Provider(ProviderFailure),
    /// Another error, whose detail quotes nothing.
    Model(ModelError),
}

impl ReadError {
    /// An event that does not have the form that the format prescribes. Its content is not shown.
    pub(crate) fn malformed(error: &serde_json::Error) -> Self {
        let place = format!("line {}, column {}", error.line(), error.column());
        let detail = format!("an event of the stream cannot be read ({place})");
        Self::Model(ModelError::new(ModelErrorKind::Transport, detail))
    }
}

impl From<ModelError> for ReadError {
    fn from(error: ModelError) -> Self {
        Self::Model(error)
    }
}

impl From<super::sse::SseError> for ReadError {
    fn from(error: super::sse::SseError) -> Self {
        Self::Model(ModelError::new(
            ModelErrorKind::Transport,
            error.to_string(),
        ))
    }
}
