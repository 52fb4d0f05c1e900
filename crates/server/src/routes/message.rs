//! User messages in request bodies.

use helix_agents_core::MessageId;
use helix_agents_core::bounds::{MAX_DEPTH, fits};
use helix_agents_core::message::{FilePart, Metadata, UserMessage};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::ApiError;
use crate::view::schemas::{FileSchema, IdSchema};

/// The maximum size of a message's metadata, in bytes of its JSON.
const MAX_METADATA_BYTES: usize = 64 * 1024;

/// A text, or a list of user messages.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "a text, or a list of `{role: \"user\", content}`"
)]
pub(crate) enum MessagesBody {
    Text(String),
    Messages(Vec<MessageBody>),
}

/// One user message.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct MessageBody {
    role: RoleBody,
    #[serde(default)]
    #[schema(value_type = Option<IdSchema>)]
    id: Option<MessageId>,
    content: String,
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Metadata>,
    #[serde(default)]
    #[schema(value_type = Option<Vec<FileSchema>>)]
    files: Option<Vec<FilePart>>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum RoleBody {
    User,
}

impl MessagesBody {
    /// Returns the messages, if none of them is empty.
    pub(crate) fn read(self) -> Result<Vec<UserMessage>, ApiError> {
        let messages = match self {
            Self::Text(text) => vec![UserMessage::new(text)],
            Self::Messages(messages) => messages
                .into_iter()
                .map(MessageBody::read)
                .collect::<Result<_, _>>()?,
        };
        let says_nothing = |one: &UserMessage| one.content.is_empty() && one.files.is_empty();
        if messages.is_empty() || messages.iter().any(says_nothing) {
            let detail = "a message is empty; give it a text or a file";
            return Err(ApiError::invalid(detail));
        }
        Ok(messages)
    }
}

impl MessageBody {
    fn read(self) -> Result<UserMessage, ApiError> {
        let RoleBody::User = self.role;
        let mut message = UserMessage::new(self.content);
        message.id = self.id;
        message.files = self.files.unwrap_or_default();
        message.metadata = self
            .metadata
            .map(metadata_to_store)
            .transpose()?
            .unwrap_or_default();
        Ok(message)
    }
}

/// Returns the metadata to store: metadata that is too large is dropped, and the message stays.
fn metadata_to_store(metadata: Metadata) -> Result<Metadata, ApiError> {
    let value = Value::Object(metadata);
    if !fits(&value, MAX_DEPTH) {
        return Err(ApiError::invalid(format!(
            "the metadata of a message is nested deeper than {MAX_DEPTH} levels; flatten it"
        )));
    }
    let bytes = value.to_string().len();
    match value {
        Value::Object(metadata) if bytes <= MAX_METADATA_BYTES => Ok(metadata),
        _ => {
            tracing::warn!(event = "message.metadata_dropped", bytes);
            Ok(Metadata::new())
        }
    }
}
