//! The messages of a model call, without copying the history.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::message::Message;
use crate::transcript::Transcript;

/// The text that says who the agent is.
#[derive(Clone)]
#[non_exhaustive]
pub enum SystemPrompt {
    /// The same for every call.
    Static(Arc<str>),
    /// Made from the state before every call.
    Dynamic(Arc<dyn Fn(&Value) -> String + Send + Sync>),
}

impl SystemPrompt {
    /// A prompt made from the state as a type of the user's. A state that does not have the type's
    /// shape gives the type's default.
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

    /// The text for this state.
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

/// What a model is shown: the system prompt, then the whole history.
#[derive(Debug, Clone)]
pub struct PromptMessages<'a> {
    system: Cow<'a, str>,
    history: &'a Transcript,
}

/// One message as a model is shown it.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum PromptMessage<'a> {
    /// The system prompt, first.
    System(&'a str),
    /// A message of the history.
    History(&'a Message),
}

impl<'a> PromptMessages<'a> {
    /// The system prompt.
    #[must_use]
    pub fn system(&self) -> &str {
        &self.system
    }

    /// The history.
    #[must_use]
    pub fn history(&self) -> &'a Transcript {
        self.history
    }

    /// The system prompt unless it is empty, then the history.
    pub fn iter(&self) -> impl Iterator<Item = PromptMessage<'_>> {
        let system = (!self.system.is_empty()).then(|| PromptMessage::System(&self.system));
        system
            .into_iter()
            .chain(self.history.iter().map(PromptMessage::History))
    }
}

/// Puts the resolved system prompt before the history. Nothing of the history is copied.
#[must_use]
pub fn build_messages_for_llm<'a>(
    history: &'a Transcript,
    system_prompt: &'a SystemPrompt,
    state: &Value,
) -> PromptMessages<'a> {
    PromptMessages {
        system: system_prompt.resolve(state),
        history,
    }
}
