//! OpenAI's Responses.
//!
//! The provider stores nothing: each request carries the whole conversation, and the reasoning in it as the
//! encrypted items that came with earlier replies.

mod event;
mod messages;
mod reply;
mod request;

use helix_agents_core::model::{ModelError, ModelRequest};

use super::endpoint::Endpoint;
use super::wire::{ReplyReader, Wire, WireRequest};

use self::messages::ResponsesMessages;
use self::reply::ResponsesReply;

/// The format of Responses for one model.
#[derive(Debug)]
pub(super) struct OpenAiResponses {
    messages: ResponsesMessages,
}

impl OpenAiResponses {
    pub(super) fn new(model: &str) -> Self {
        Self {
            messages: ResponsesMessages::new(model),
        }
    }
}

impl Wire for OpenAiResponses {
    fn request(
        &self,
        endpoint: &Endpoint,
        request: &ModelRequest<'_>,
    ) -> Result<WireRequest, ModelError> {
        let body = request::body(endpoint, &self.messages, request)?;
        Ok(WireRequest {
            path: "/responses".to_owned(),
            headers: endpoint
                .key_header("authorization", "Bearer ")
                .into_iter()
                .collect(),
            listed: Vec::new(),
            body: body.into(),
        })
    }

    fn reader(&self, request: &ModelRequest<'_>) -> Box<dyn ReplyReader> {
        let is_stored = request::is_stored(request.config);
        Box::new(ResponsesReply::new(self.messages.model(), is_stored))
    }
}
