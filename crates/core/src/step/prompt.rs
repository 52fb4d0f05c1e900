//! The messages of a model call, without copying the history.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::message::Message;
use crate::transcript::Transcript;

/// The system prompt of an agent.
#[derive(Clone)]
#[non_exhaustive]
pub enum SystemPrompt {
    /// A text that is the same for every call.
    Static(Arc<str>),
    /// A text that is rendered from the state before every call.
    Dynamic(Arc<dyn Fn(&Value) -> String + Send + Sync>),
}

impl SystemPrompt {
    /// Creates a prompt that is rendered from the state as the user's own type. If the state does
    /// not fit that type, its default is used.
    pub fn from_state<S, F>(render: F) -> Self
    where
        S: DeserializeOwned + Default,
        F: Fn(&S) -> String + Send + Sync + 'static,
    {
        Self::Dynamic(Arc::new(move |state| {
            let typed = S::deserialize(state).unwrap_or_else(|error| {
                tracing::warn!(event = "system_prompt.state_mismatch", %error);
                S::default()
            });
            render(&typed)
        }))
    }

    /// Returns the text for this state.
    #[must_use]
    pub fn resolve(&self, state: &Value) -> Cow<'_, str> {
        match self {
            Self::Static(text) => Cow::Borrowed(text),
            Self::Dynamic(render) => Cow::Owned(render(state)),
        }
    }
}

impl From<&str> for SystemPrompt {
    fn from(text: &str) -> Self {
        Self::Static(text.into())
    }
}

impl From<String> for SystemPrompt {
    fn from(text: String) -> Self {
        Self::Static(text.into())
    }
}

impl fmt::Debug for SystemPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static(text) => f.debug_tuple("Static").field(text).finish(),
            Self::Dynamic(_) => f.write_str("Dynamic(..)"),
        }
    }
}

/// The messages of a model call: the system prompt, then the history.
#[derive(Debug, Clone)]
pub struct PromptMessages<'a> {
    system: Cow<'a, str>,
    history: &'a Transcript,
}

/// One message of a model call.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum PromptMessage<'a> {
    /// The system prompt, which comes first.
    System(&'a str),
    /// A message of the history.
    History(&'a Message),
}

impl<'a> PromptMessages<'a> {
    /// A prompt of this system prompt and this conversation.
    pub(crate) fn new(system: &'a str, history: &'a Transcript) -> Self {
        Self {
            system: Cow::Borrowed(system),
            history,
        }
    }

    /// Returns the text of the system prompt.
    #[must_use]
    pub fn system(&self) -> &str {
        &self.system
    }

    /// Returns the history of the session as the model reads it: without the turns that are left out near
    /// the context limit.
    #[must_use]
    pub fn history(&self) -> &'a Transcript {
        self.history
    }

    /// Iterates over the system prompt, unless it is empty, and then the history.
    pub fn iter(&self) -> impl Iterator<Item = PromptMessage<'_>> {
        let system = (!self.system.is_empty()).then(|| PromptMessage::System(&self.system));
        system
            .into_iter()
            .chain(self.history.iter().map(PromptMessage::History))
    }
}

/// Puts the resolved system prompt before the history, as the model reads it. Nothing of the history is
/// copied.
#[must_use]
pub fn build_messages_for_llm<'a>(
    history: &'a Transcript,
    system_prompt: &'a SystemPrompt,
    state: &Value,
) -> PromptMessages<'a> {
    PromptMessages {
        system: system_prompt.resolve(state),
        history: history.for_model(),
    }
}
