use std::{fmt, io};

/// Why a check could not be made. A rule that does not hold is not an error but a breach.
#[derive(Debug)]
pub(crate) enum Error {
    /// The arguments make no sense.
    Usage(String),
    /// A file could not be read or written.
    Io { doing: String, source: io::Error },
    /// Another program could not be started or failed.
    Command { command: String, detail: String },
    /// A file or an answer is not in the form this tool reads.
    Malformed { what: String, detail: String },
}

/// A result of this tool.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    pub(crate) fn malformed(what: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self::Malformed {
            what: what.into(),
            detail: detail.to_string(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) => write!(f, "{text}"),
            Self::Io { doing, source } => write!(f, "cannot {doing}: {source}"),
            Self::Command { command, detail } => write!(f, "`{command}` failed: {detail}"),
            Self::Malformed { what, detail } => write!(f, "{what}: {detail}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Usage(_) | Self::Command { .. } | Self::Malformed { .. } => None,
        }
    }
}
