//! OpenAI's Chat Completions, which many servers speak.

mod chunk;
mod details;
mod messages;
mod reply;
mod request;

use helix_agents_core::model::{ModelError, ModelRequest};

use super::endpoint::Endpoint;
use super::wire::{ReplyReader, Wire, WireRequest};

use self::messages::ChatMessages;
use self::reply::ChatReply;

/// The format of Chat Completions for one model.
#[derive(Debug)]
pub(super) struct OpenAiChat {
    messages: ChatMessages,
}

impl OpenAiChat {
    pub(super) fn new(model: &str) -> Self {
        Self {
            messages: ChatMessages::new(model),
        }
    }
}

impl Wire for OpenAiChat {
    fn request(
        &self,
        endpoint: &Endpoint,
        request: &ModelRequest<'_>,
    ) -> Result<WireRequest, ModelError> {
        let body = request::body(endpoint, &self.messages, request)?;
        Ok(WireRequest {
            path: "/chat/completions".to_owned(),
            headers: endpoint
                .key_header("authorization", "Bearer ")
                .into_iter()
                .collect(),
            listed: Vec::new(),
            body: body.into(),
        })
    }

    fn reader(&self, _request: &ModelRequest<'_>) -> Box<dyn ReplyReader> {
        Box::new(ChatReply::new(self.messages.model()))
    }
}
