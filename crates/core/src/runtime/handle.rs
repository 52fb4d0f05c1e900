//! A place to look at a run from.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    ChunkStream, NoOutput, Outcome, Pause, RunReader, Runtime, RuntimeError, RuntimeExt,
    StartedRun, TextEventStream, TextStream,
};
use crate::canonical::canonical_json;
use crate::error::{Error, ErrorCode, ErrorRecord};
use crate::id::{RunId, SessionId};
use crate::message::Message;
use crate::session::{RunRecord, RunStatus, WaitingCall};
use crate::store::{Lookup, Page, StoreError};
use crate::stream::Sequence;
use crate::usage::UsageRollup;

/// How many messages are read at once to find the last reply.
const LOOK_BACK: usize = 8;

/// A run and where to look at it from. Dropping it stops nothing.
///
/// ```
/// use helix_agents::prelude::*;
///
/// async fn ask(runtime: &dyn Runtime, agent: &Agent) -> Result<(), Error> {
///     let run = runtime.execute(agent, "What is a fence?").await?;
///     println!("run {} of session {}", run.run_id(), run.session_id());
///     println!("{} ({} tokens)", run.output().await?, run.usage().await?.tokens.total());
///     Ok(())
/// }
/// ```
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

    /// Returns the ids of the run, its session and its root.
    #[must_use]
    pub fn started(&self) -> &StartedRun {
        &self.run
    }

    /// Returns the text of the run, piece by piece, from its beginning to its end.
    ///
    /// When a model call fails in the middle of a reply and is retried, the pieces of the failed attempt
    /// have already been given, and those of the next attempt follow. Use it where that is acceptable, as
    /// in a log; a user interface shows [`Handle::text_events`].
    #[must_use]
    pub fn text(&self) -> TextStream {
        TextStream::new(self.text_events())
    }

    /// Returns the text of the run as changes: pieces to append, and where the text of a failed attempt
    /// must be removed.
    ///
    /// ```
    /// # use futures_util::StreamExt;
    /// # use helix_agents_core::Error;
    /// use helix_agents_core::runtime::{Handle, TextEvent};
    ///
    /// async fn show(run: &Handle<String>) -> Result<(), Error> {
    ///     let mut shown = String::new();
    ///     let mut events = run.text_events();
    ///     while let Some(event) = events.next().await {
    ///         match event? {
    ///             TextEvent::Delta(piece) => shown.push_str(&piece),
    ///             TextEvent::Truncate(length) => shown.truncate(length),
    ///         }
    ///         println!("{shown}");
    ///     }
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn text_events(&self) -> TextEventStream {
        TextEventStream::new(self.chunks(), self.run.run_id.clone())
    }

    /// Everything that readers of the run are told, from its beginning to its end. For a root session
    /// this includes its children.
    #[must_use]
    pub fn chunks(&self) -> ChunkStream {
        ChunkStream::of_run(Arc::clone(&self.runtime), self.reader(None))
    }

    /// Reads the run's chunks after a sequence, or from its beginning, to its end: [`Handle::chunks`]
    /// for those who need every [`StreamItem`](crate::stream::StreamItem).
    #[must_use]
    #[doc(hidden)]
    pub fn reader(&self, after: impl Into<Option<Sequence>>) -> RunReader {
        RunReader::new(self.runtime.backend(), self.run.clone(), after.into())
    }

    /// The usage of the session so far, summed over its runs.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn usage(&self) -> Result<UsageRollup, Error> {
        let store = &self.runtime.backend().store;
        let entries = store.usage(self.run.key(), Page::ALL).await?;
        Ok(entries.items.iter().collect())
    }

    /// The run's record, once it has ended.
    ///
    /// # Errors
    /// When the run stands still, was taken over by another process, or the store cannot be reached.
    pub async fn ended(&self) -> Result<RunRecord, Error> {
        let ended = self.runtime.ended(&self.run).await;
        ended.map_err(|error| self.about(error))
    }

    /// An error of this run.
    fn about(&self, error: impl Into<Error>) -> Error {
        error
            .into()
            .about(Some(&self.run.session_id), Some(&self.run.run_id))
    }

    /// The text of the last reply of the run's turn. Notices may stand behind it, and later turns have replies of their
    /// own.
    async fn last_text(&self, run: &RunRecord) -> Result<Option<String>, StoreError> {
        let store = &self.runtime.backend().store;
        let session = self.run.key();
        let Some(found) = store.load(session).await? else {
            return Ok(None);
        };
        let mut end = found.message_count;
        if found.run.as_ref().is_some_and(|last| last.turn > run.turn) {
            let runs = store.runs(session, Lookup::Page(Page::ALL)).await?.items;
            let mut later = runs.into_iter().filter(|other| other.turn > run.turn);
            let start = later.find_map(|later| later.turn_start);
            end = start.map_or(end, |start| start.messages.min(end));
        }
        while end > 0 {
            let from = end.saturating_sub(LOOK_BACK);
            let page = Page::new(from, end - from);
            let read = store.messages(session, page).await?.items;
            let reply = read.into_iter().rev().find_map(|message| match message {
                Message::Assistant(reply) => Some(reply),
                _ => None,
            });
            if let Some(reply) = reply {
                return Ok(reply.content());
            }
            end = from;
        }
        Ok(None)
    }
}

impl<Out: DeserializeOwned> Handle<Out> {
    /// The output of the run, once it has ended. A pause, a failure or an interruption is an error here;
    /// [`Handle::outcome`] tells them apart.
    ///
    /// # Errors
    /// When the run has no output: the error of a failed run, [`NoOutput`] otherwise. And as
    /// [`Handle::outcome`].
    pub async fn output(&self) -> Result<Out, Error> {
        let (session, run) = (self.run.session_id.clone(), self.run.run_id.clone());
        let why = match self.outcome().await? {
            Outcome::Done(output) => return Ok(output),
            Outcome::Failed(error) => return Err(error),
            Outcome::Interrupted => NoOutput::Interrupted { session, run },
            Outcome::Suspended(pause) => {
                let calls = pause.pending().iter().map(WaitingCall::from).collect();
                NoOutput::Suspended {
                    session,
                    run,
                    calls,
                }
            }
        };
        Err(self.about(Error::new(why)))
    }

    /// How the run comes out, once it has ended.
    ///
    /// # Errors
    /// When the output is of another type, and as [`Handle::ended`].
    pub async fn outcome(&self) -> Result<Outcome<Out>, Error> {
        let record = self.ended().await?;
        match record.status {
            RunStatus::Completed => {
                let text = match record.output {
                    Some(_) => None,
                    None => self.last_text(&record).await?,
                };
                let output = match record.output {
                    Some(output) => output,
                    None => text.map_or(Value::Null, Value::String),
                };
                let typed = typed(output).map_err(|source| RuntimeError::OutputShape {
                    run: self.run.run_id.clone(),
                    source,
                });
                typed.map(Outcome::Done).map_err(|error| self.about(error))
            }
            RunStatus::Failed => {
                let error = record.error.unwrap_or_else(|| {
                    ErrorRecord::new(
                        ErrorCode::FrameworkInternal,
                        "the run failed without a reason",
                    )
                });
                Ok(Outcome::Failed(self.about(error)))
            }
            RunStatus::Interrupted | RunStatus::Running => Ok(Outcome::Interrupted),
            status => {
                let pending = self.runtime.pending(&self.run.session_id).await?;
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

/// An output as a type. What is not a text is one as JSON, for those who want a text.
fn typed<Out: DeserializeOwned>(output: Value) -> serde_json::Result<Out> {
    let text = match &output {
        Value::String(_) => None,
        Value::Null => Some(String::new()),
        other => Some(canonical_json(other)),
    };
    let typed = Out::deserialize(output);
    match (typed, text) {
        (Err(error), Some(text)) => Out::deserialize(Value::String(text)).map_err(|_| error),
        (typed, _) => typed,
    }
}

impl<Out> fmt::Debug for Handle<Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("run", &self.run).finish()
    }
}
