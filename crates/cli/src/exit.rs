//! The exit codes of the program.

use std::process::ExitCode;

use helix_agents_core::Error;
use helix_agents_core::entries::EntryError;
use helix_agents_core::runtime::RuntimeError;

use crate::config::ConfigError;

/// The exit code of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Exit {
    /// The command succeeded: 0.
    Done,
    /// The run failed, a request was refused, or there are findings: 1.
    Failed,
    /// Invalid arguments or configuration: 2.
    Usage,
    /// The run is suspended and waits for a person: 4.
    Suspended,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Suspended => 4,
        })
    }
}

/// An error of the arguments; the text says what to do instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// Returns the exit code for an error.
pub(crate) fn of_error(error: &anyhow::Error) -> Exit {
    if error.is::<ConfigError>() || error.is::<UsageError>() {
        return Exit::Usage;
    }
    match runtime_error(error) {
        Some(
            RuntimeError::Agent(_)
            | RuntimeError::Entry(EntryError::OtherAgent { .. } | EntryError::Answer(_)),
        ) => Exit::Usage,
        Some(RuntimeError::Entry(EntryError::AwaitingAnswers { .. })) => Exit::Suspended,
        _ => Exit::Failed,
    }
}

/// Returns the runtime's error in the chain of this one, if there is one.
fn runtime_error(error: &anyhow::Error) -> Option<&RuntimeError> {
    let direct = error.downcast_ref::<RuntimeError>();
    direct.or_else(|| error.downcast_ref::<Error>()?.downcast_ref())
}
