//! The format in which a model client sends the messages of a conversation.

use super::ModelError;
use crate::message::Message;

/// A format in which a model client sends messages.
///
/// A conversation grows by a few messages a step, and every request carries all of it. So a client
/// puts the messages into its body with [`Transcript::render_into`](crate::Transcript::render_into),
/// which calls [`MessageFormat::render`] once for each message, however many requests carry it.
///
/// Equal formats render a message to the same bytes; whatever decides about them (a version, an
/// option of the client) is a field that is compared. The settings of one call are not part of the
/// format: a client writes them before or after the messages.
///
/// ```
/// use helix_agents::{Message, MessageFormat, ModelError, ModelErrorKind, ModelRequest};
/// use helix_agents::serde_json::{self, json};
///
/// #[derive(Clone, PartialEq)]
/// struct Acme;
///
/// impl MessageFormat for Acme {
///     fn render(&self, message: &Message, previous: Option<&Message>, out: &mut Vec<u8>) -> Result<(), ModelError> {
///         let wire = match message {
///             Message::User(user) => json!({ "role": "user", "content": user.content }),
///             Message::Assistant(reply) => json!({ "role": "assistant", "content": reply.content() }),
///             Message::Tool(result) => json!({ "role": "tool", "content": result.value() }),
///             _ => return Err(ModelError::new(ModelErrorKind::Invalid, "an unknown kind of message")),
///         };
///         if previous.is_some() {
///             out.push(b',');
///         }
///         out.extend_from_slice(wire.to_string().as_bytes());
///         Ok(())
///     }
/// }
///
/// fn body(request: &ModelRequest<'_>) -> Result<Vec<u8>, ModelError> {
///     let system = serde_json::Value::from(request.prompt.system());
///     let mut body = format!(r#"{{"system":{system},"messages":["#).into_bytes();
///     request.prompt.history().render_into(&Acme, &mut body)?;
///     body.extend(b"]}");
///     Ok(body)
/// }
/// ```
pub trait MessageFormat: Clone + PartialEq + Send + Sync + 'static {
    /// Appends one message to `out`, which is empty before.
    ///
    /// `previous` is the message before it, for a format with separators, or one that joins
    /// messages: where the results of one step belong into one message of the provider, its first
    /// result opens it, and whatever follows the last one closes it. What the end of the
    /// conversation leaves open, the client closes by [`Transcript::last`](crate::Transcript::last).
    ///
    /// # Errors
    /// Any [`ModelError`], when the provider cannot be sent such a message; nothing of it is kept.
    fn render(
        &self,
        message: &Message,
        previous: Option<&Message>,
        out: &mut Vec<u8>,
    ) -> Result<(), ModelError>;
}
