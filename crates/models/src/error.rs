//! What can be wrong with a script.

/// What this crate's functions give.
pub type Result<T, E = ScriptError> = std::result::Result<T, E>;

/// Why a script cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// It is not JSON, or not a script. The source says what is wrong, what to write instead and,
    /// for a text, where.
    #[error("the script cannot be read: {source}")]
    Unreadable {
        /// What is wrong.
        source: serde_json::Error,
    },
    /// It could never say anything.
    #[error(
        "the script has neither rules nor a default; add `\"rules\": [{{\"match\": ..., \"steps\": [...]}}]` or `\"default\": [...]`"
    )]
    Empty,
}

impl ScriptError {
    /// The line of the text that is wrong, from 1, where one can be named.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::Unreadable { source } => Some(source.line()).filter(|line| *line > 0),
            Self::Empty => None,
        }
    }
}
