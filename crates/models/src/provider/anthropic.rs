//! Anthropic's Messages.

mod assistant;
mod binding;
mod content;
mod events;
mod messages;
mod reply;
mod request;
mod strict_schema;
mod thinking;

use helix_agents_core::model::{ModelError, ModelRequest};

use super::endpoint::Endpoint;
use super::wire::{ReplyReader, Wire, WireRequest};

use self::messages::AnthropicMessages;
use self::reply::AnthropicReply;

/// The version of the API whose requests and streams this client knows.
const VERSION: &str = "2026-10-21";
/// The version before it, which takes keys in a header of their own.
const OLD_VERSION: &str = "2023-06-01";

/// The format of Anthropic's Messages for one model.
#[derive(Debug)]
pub(super) struct Anthropic {
    messages: AnthropicMessages,
    version: String,
    /// The maximum length of a reply, where it is known.
    max_tokens: Option<u64>,
}

impl Anthropic {
    pub(super) fn new(model: &str, version: Option<&str>, max_tokens: Option<u64>) -> Self {
        Self {
            messages: AnthropicMessages::new(model),
            version: version.unwrap_or(VERSION).to_owned(),
            max_tokens,
        }
    }

    /// Returns the headers. A header that a user sets replaces ours of the same name, and a key that a user
    /// sends in either header replaces ours in both.
    fn headers(
        &self,
        endpoint: &Endpoint,
        request: &ModelRequest<'_>,
    ) -> Vec<(&'static str, String)> {
        let users = || endpoint.headers.iter().chain(&request.config.headers);
        let set = |name: &str| users().rfind(|(key, _)| key.eq_ignore_ascii_case(name));
        let version = set("anthropic-version").map_or(&self.version, |(_, version)| version);
        let key = if set("authorization").or(set("x-api-key")).is_some() {
            None
        } else if version == OLD_VERSION {
            endpoint.key_header("x-api-key", "")
        } else {
            endpoint.key_header("authorization", "Bearer ")
        };
        let version = ("anthropic-version", version.clone());
        key.into_iter().chain([version]).collect()
    }
}

impl Wire for Anthropic {
    fn request(
        &self,
        endpoint: &Endpoint,
        request: &ModelRequest<'_>,
    ) -> Result<WireRequest, ModelError> {
        let written = request::body(endpoint, &self.messages, self.max_tokens, request)?;
        let beta = written.beta.map(|beta| ("anthropic-beta", beta));
        Ok(WireRequest {
            path: "/v1/messages".to_owned(),
            headers: self.headers(endpoint, request),
            listed: beta.into_iter().collect(),
            body: written.body.into(),
        })
    }

    fn reader(&self, _request: &ModelRequest<'_>) -> Box<dyn ReplyReader> {
        Box::new(AnthropicReply::new(self.messages.model()))
    }
}
