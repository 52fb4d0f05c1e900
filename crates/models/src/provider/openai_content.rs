//! The content of user messages in the two formats of OpenAI, which differ in the names of parts.

use helix_agents_core::message::{FilePart, UserMessage};
use helix_agents_core::model::ModelError;
use serde_json::{Value, json};

use super::files::text_of;

/// Returns the content of a user message: its text, and then its files. Files that are texts are sent as
/// such; any other becomes a part through `file_part`. `text_type` is the type of a part that is a text.
pub(crate) fn user_content(
    user: &UserMessage,
    text_type: &str,
    file_part: fn(&FilePart) -> Result<Value, ModelError>,
) -> Result<Value, ModelError> {
    if user.files.is_empty() {
        return Ok(user.content.as_str().into());
    }
    let text_part = |text: &str| json!({ "type": text_type, "text": text });
    let mut parts = Vec::with_capacity(user.files.len() + 1);
    if !user.content.is_empty() {
        parts.push(text_part(&user.content));
    }
    for file in &user.files {
        parts.push(match text_of(file) {
            Some(text) => text_part(&text),
            None => file_part(file)?,
        });
    }
    Ok(parts.into())
}
