//! What is wrong with a configuration, and where.

use std::fmt;
use std::path::PathBuf;

/// What is wrong with a configuration: the file, the line where one can be named, what is wrong and
/// what to write instead. The program ends with exit code 2.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: Option<usize>,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl ConfigError {
    /// Something wrong with a file as a whole.
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
