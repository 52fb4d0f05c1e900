//! Moving a session's status.

use super::{OnOne, Sessions};
use crate::error::ErrorRecord;
use crate::id::SessionId;
use crate::session::{InterruptContext, SessionStatus};
use crate::store::{Change, Committed, Field, Precondition, StoreError};

/// What goes with a new status.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct StatusContext {
    /// Why it was stopped.
    pub interrupt_context: Option<InterruptContext>,
    /// Why it failed.
    pub error: Option<ErrorRecord>,
    /// Only when this is its version.
    pub expected_version: Option<u64>,
}

/// What became of a conditional change of status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CasOutcome {
    /// It is changed.
    Done {
        /// The version now.
        version: u64,
    },
    /// It had another status or version.
    Mismatch {
        /// The status it has.
        status: SessionStatus,
        /// The version it has.
        version: u64,
    },
}

impl Sessions<'_> {
    /// Sets the status, whatever it was.
    ///
    /// # Errors
    /// [`StoreError::NotFound`].
    pub async fn update_status(
        &self,
        session: &SessionId,
        status: SessionStatus,
        context: StatusContext,
    ) -> Result<Committed, StoreError> {
        let commit = with_status(self.commit_on(session).await?, status, context);
        self.write(commit).await
    }

    /// Sets the status if it is one of those expected, and the version if one is given.
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

fn with_status(commit: OnOne, status: SessionStatus, context: StatusContext) -> OnOne {
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
