//! A place to look at a run from.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::backend::pending;
use super::{Outcome, Pause, RunReader, Runtime, RuntimeError, StartedRun};
use crate::error::{ErrorCode, ErrorRecord};
use crate::id::{RunId, SessionId};
use crate::message::Message;
use crate::session::{RunRecord, RunStatus};
use crate::store::{Lookup, Page, StoreError};
use crate::stream::Sequence;
use crate::usage::UsageRollup;

/// A run and where to look at it from. Dropping it stops nothing.
pub struct Handle<Out> {
    runtime: Arc<dyn Runtime>,
    run: StartedRun,
    out: PhantomData<fn() -> Out>,
}

impl<Out> Handle<Out> {
    pub(super) fn new(runtime: Arc<dyn Runtime>, run: StartedRun) -> Self {
        Self {
            runtime,
            run,
            out: PhantomData,
        }
    }

    /// The session.
    #[must_use]
    pub fn session_id(&self) -> &SessionId {
        &self.run.session_id
    }

    /// The run.
    #[must_use]
    pub fn run_id(&self) -> &RunId {
        &self.run.run_id
    }

    /// The run's chunks as they come, from its beginning to its end.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn stream(&self) -> Result<RunReader<'_>, RuntimeError> {
        let store = &self.runtime.backend().store;
        let run = Lookup::One(self.run.run_id.clone());
        let found = store.runs(self.run.key(), run).await?.items;
        let start = found.first().map_or(0, |run| run.start_sequence);
        Ok(self.stream_after(Sequence(start)))
    }

    /// The run's chunks after a sequence, to its end.
    #[must_use]
    pub fn stream_after(&self, after: Sequence) -> RunReader<'_> {
        RunReader::new(self.runtime.backend(), &self.run, after)
    }

    /// What the session used so far.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn usage(&self) -> Result<UsageRollup, RuntimeError> {
        let store = &self.runtime.backend().store;
        let entries = store.usage(self.run.key(), Page::ALL).await?;
        Ok(entries.items.iter().collect())
    }

    /// The run's record, once it has ended.
    ///
    /// # Errors
    /// [`RuntimeError::Superseded`], [`RuntimeError::Stalled`], or what the store says.
    pub async fn ended(&self) -> Result<RunRecord, RuntimeError> {
        self.runtime.ended(&self.run).await
    }

    async fn last_text(&self) -> Result<Option<String>, StoreError> {
        let store = &self.runtime.backend().store;
        let session = self.run.key();
        let total = store.messages(session, Page::first(0)).await?.total;
        let page = Page::new(total.saturating_sub(1), 1);
        let last = store.messages(session, page).await?.items.pop();
        Ok(match last {
            Some(Message::Assistant(message)) => message.content(),
            _ => None,
        })
    }
}

impl<Out: DeserializeOwned> Handle<Out> {
    /// How the run comes out, once it has ended.
    ///
    /// # Errors
    /// [`RuntimeError::OutputShape`] when the output is of another type, and as
    /// [`Handle::ended`].
    pub async fn result(&self) -> Result<Outcome<Out>, RuntimeError> {
        let record = self.ended().await?;
        match record.status {
            RunStatus::Completed => {
                let output = match record.output {
                    Some(output) => output,
                    None => self.last_text().await?.map_or(Value::Null, Value::String),
                };
                let typed = serde_json::from_value(output);
                typed
                    .map(Outcome::Done)
                    .map_err(|source| RuntimeError::OutputShape {
                        run: self.run.run_id.clone(),
                        source,
                    })
            }
            RunStatus::Failed => Ok(Outcome::Failed(record.error.unwrap_or_else(|| {
                ErrorRecord::new(
                    ErrorCode::FrameworkInternal,
                    "the run failed without a reason",
                )
            }))),
            RunStatus::Interrupted | RunStatus::Running => Ok(Outcome::Interrupted),
            status => {
                let backend = self.runtime.backend();
                let pending = pending(backend, &self.run.session_id).await?;
                Ok(Outcome::Suspended(Pause::new(
                    self.run.session_id.clone(),
                    self.run.run_id.clone(),
                    status,
                    pending,
                )))
            }
        }
    }
}

impl<Out> fmt::Debug for Handle<Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("run", &self.run).finish()
    }
}
