//! The two ways in which a tool can fail.

use std::fmt;

/// The result of a tool: its output, or an error for the model or the run.
///
/// ```
/// use helix_agents::prelude::*;
///
/// async fn read(path: &str) -> ToolResult<String> {
///     Ok(std::fs::read_to_string(path)?)
/// }
/// ```
pub type ToolResult<T> = Result<T, ToolError>;

/// A tool's failure.
///
/// `?` on any [`std::error::Error`] tells the model, in general words, that the tool failed; the
/// detail goes to the log. A boxed error, or one of a crate like `anyhow`, takes
/// `.map_err(ToolError::failed)?`. [`ToolError::tell_model`] chooses the words.
/// [`ToolError::fatal`] ends the run.
///
/// It does not implement [`std::error::Error`] itself: that is what lets `?` convert those that do.
///
/// ```
/// use helix_agents::prelude::*;
///
/// fn order(id: &str) -> ToolResult<u32> {
///     id.parse().map_err(|_| ToolError::tell_model("order ids look like `42`"))
/// }
/// assert_eq!(order("x").unwrap_err().model_text(), "order ids look like `42`");
/// ```
pub struct ToolError {
    kind: Kind,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    TellModel(String),
    Failed,
    Fatal(String),
}

impl ToolError {
    /// A failure that the model reads in these words, and may act on.
    #[must_use]
    pub fn tell_model(text: impl Into<String>) -> Self {
        Self {
            kind: Kind::TellModel(text.into()),
            source: None,
        }
    }

    /// A failure that the model reads about in general words; the cause goes to the log.
    #[must_use]
    pub fn failed(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self {
            kind: Kind::Failed,
            source: Some(cause.into()),
        }
    }

    /// A failure that ends the run.
    #[must_use]
    pub fn fatal(text: impl Into<String>) -> Self {
        Self {
            kind: Kind::Fatal(text.into()),
            source: None,
        }
    }

    /// Keeps the cause for the log.
    #[must_use]
    pub fn caused_by(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    pub(crate) fn invalid_input(tool: &str, errors: &[String]) -> Self {
        Self::tell_model(format!(
            "the arguments of {tool} are not valid: {}. Correct them and call {tool} again.",
            errors.join("; ")
        ))
    }

    /// Whether the run ends with it.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(self.kind, Kind::Fatal(_))
    }

    /// The text that the model reads. It holds no detail unless the tool chose the words.
    #[must_use]
    pub fn model_text(&self) -> &str {
        match &self.kind {
            Kind::TellModel(text) => text,
            Kind::Failed | Kind::Fatal(_) => "The tool failed.",
        }
    }

    /// The cause, for the log.
    #[must_use]
    pub fn source(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.source.as_deref()
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::failed(error)
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::TellModel(text) | Kind::Fatal(text) => f.write_str(text)?,
            Kind::Failed => f.write_str("the tool failed")?,
        }
        let mut cause: Option<&(dyn std::error::Error + 'static)> = match &self.source {
            Some(source) => Some(source.as_ref()),
            None => None,
        };
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolError")
            .field("kind", &self.kind)
            .field("source", &self.source)
            .finish()
    }
}
