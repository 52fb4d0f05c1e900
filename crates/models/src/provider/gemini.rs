//! Google's Gemini.

mod messages;
mod reply;
mod request;
mod response;

use helix_agents_core::model::{ModelError, ModelErrorKind, ModelRequest};

use super::endpoint::Endpoint;
use super::wire::{ReplyReader, Wire, WireRequest};

use self::messages::GeminiContents;
use self::reply::GeminiReply;

/// The version of the API that has tools, thoughts and schemas.
const VERSION: &str = "v1beta";

/// The format of Gemini for one model.
#[derive(Debug)]
pub(super) struct Gemini {
    contents: GeminiContents,
    version: String,
}

impl Gemini {
    pub(super) fn new(model: &str, version: Option<&str>) -> Self {
        Self {
            contents: GeminiContents::new(model),
            version: version.unwrap_or(VERSION).to_owned(),
        }
    }

    /// Returns the path of the model, which is a part of the URL.
    fn path(&self) -> Result<String, ModelError> {
        let model = self.contents.model();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/".contains(&byte);
        if !model.bytes().all(is_plain) || model.contains("..") {
            let detail = format!(
                "{model:?} is not the name of a Gemini model; use letters, digits, `-`, `.` and `_`"
            );
            return Err(ModelError::new(ModelErrorKind::Invalid, detail));
        }
        let is_whole = model.starts_with("models/") || model.starts_with("tunedModels/");
        let folder = if is_whole { "" } else { "models/" };
        let version = &self.version;
        Ok(format!(
            "/{version}/{folder}{model}:streamGenerateContent?alt=sse"
        ))
    }
}

impl Wire for Gemini {
    fn request(
        &self,
        endpoint: &Endpoint,
        request: &ModelRequest<'_>,
    ) -> Result<WireRequest, ModelError> {
        Ok(WireRequest {
            path: self.path()?,
            headers: endpoint
                .key_header("x-goog-api-key", "")
                .into_iter()
                .collect(),
            listed: Vec::new(),
            body: request::body(endpoint, &self.contents, request)?.into(),
        })
    }

    fn reader(&self, _request: &ModelRequest<'_>) -> Box<dyn ReplyReader> {
        Box::new(GeminiReply::new(self.contents.model()))
    }
}
