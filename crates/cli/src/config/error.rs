//! Errors of a configuration, with their position.

use std::fmt;
use std::path::PathBuf;

/// An error of a configuration: the file, the line if known, what is wrong and what to write
/// instead. The program ends with exit code 2.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    /// The path of the file.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: Option<usize>,
    /// The problem, and what to write instead.
    pub message: String,
}

impl ConfigError {
    /// Creates an error about a file as a whole.
    #[must_use]
    pub fn of_file(file: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line: None,
            message: message.into(),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ConfigError {}
