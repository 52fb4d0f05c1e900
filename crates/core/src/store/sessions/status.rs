//! Changing the status of a session.

use super::{SessionCommit, Sessions};
use crate::error::ErrorRecord;
use crate::id::SessionId;
use crate::session::{InterruptContext, SessionStatus};
use crate::store::{Change, Field, Precondition, SessionReceipt, StoreError};

/// The details and conditions of a status change.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct StatusContext {
    /// Why and how the session was stopped.
    pub interrupt_context: Option<InterruptContext>,
    /// The error with which the session failed.
    pub error: Option<ErrorRecord>,
    /// Makes the change only if the session has this version.
    pub expected_version: Option<u64>,
}

/// The outcome of a conditional status change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CasOutcome {
    /// The status was changed.
    Done {
        /// The new version of the session.
        version: u64,
    },
    /// The session had another status or version.
    Mismatch {
        /// The current status of the session.
        status: SessionStatus,
        /// The current version of the session.
        version: u64,
    },
}

#[doc(hidden)]
impl Sessions<'_> {
    /// Sets the status, whatever it was before.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    pub async fn update_status(
        &self,
        session: &SessionId,
        status: SessionStatus,
        context: StatusContext,
    ) -> Result<SessionReceipt, StoreError> {
        let commit = with_status(self.commit_on(session).await?, status, context);
        self.write(commit).await
    }

    /// Sets the status if the current one is expected, and the version matches if one is given.
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; a mismatch is an outcome, not an error.
    pub async fn compare_and_set_status(
        &self,
        session: &SessionId,
        expected: &[SessionStatus],
        status: SessionStatus,
        context: StatusContext,
    ) -> Result<CasOutcome, StoreError> {
        let commit = self
            .commit_on(session)
            .await?
            .when(Precondition::Status(expected.to_vec()));
        match self.write(with_status(commit, status, context)).await {
            Ok(committed) => Ok(CasOutcome::Done {
                version: committed.version,
            }),
            Err(StoreError::Refused {
                current, session, ..
            }) => match current.status {
                Some(status) => Ok(CasOutcome::Mismatch {
                    status,
                    version: current.version,
                }),
                None => Err(StoreError::NotFound { session }),
            },
            Err(error) => Err(error),
        }
    }
}

fn with_status(
    commit: SessionCommit,
    status: SessionStatus,
    context: StatusContext,
) -> SessionCommit {
    let mut commit = commit.then(Change::Set(Field::Status(status)));
    if let Some(version) = context.expected_version {
        commit = commit.when(Precondition::Version(version));
    }
    if let Some(interrupt) = context.interrupt_context {
        commit = commit.set(Field::InterruptContext(Some(interrupt)));
    }
    if let Some(error) = context.error {
        commit = commit.set(Field::Error(Some(error)));
    }
    commit
}
