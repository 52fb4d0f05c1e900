//! The errors of reading a script.

use helix_agents_core::{Coded, Error, ErrorCode};

/// The result type of this crate.
pub type Result<T, E = ScriptError> = std::result::Result<T, E>;

/// The reason why a script cannot be used.
///
/// ```
/// use helix_agents_models::{Script, ScriptError};
///
/// let refused = Script::parse("{").unwrap_err();
/// assert!(matches!(refused, ScriptError::Unreadable { .. }));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The text is not JSON or not a script. The source names the error, what to write instead and,
    /// for a text, the position.
    #[error("the script cannot be read: {source}")]
    Unreadable {
        /// The error of the JSON parser.
        source: serde_json::Error,
    },
    /// The script has neither rules nor a default, so it could never reply.
    #[error(
        "the script has neither rules nor a default; add `\"rules\": [{{\"match\": ..., \"steps\": [...]}}]` or `\"default\": [...]`"
    )]
    Empty,
}

impl ScriptError {
    /// The line of the error, counted from 1, if the error has a position.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::Unreadable { source } => Some(source.line()).filter(|line| *line > 0),
            Self::Empty => None,
        }
    }
}

impl Coded for ScriptError {
    fn code(&self) -> ErrorCode {
        ErrorCode::DefinitionInvalid
    }
}

/// A script that cannot be used is a mistake in the definition of an agent, so `?` works wherever the
/// library's own error is returned.
impl From<ScriptError> for Error {
    fn from(error: ScriptError) -> Self {
        Self::new(error)
    }
}
