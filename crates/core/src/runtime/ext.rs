//! The verbs that users call on a runtime.

use std::sync::Arc;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::asking::Wanted;
use super::{
    ChunkStream, Handle, Messages, Pending, Resume, RunOptions, Runtime, RuntimeError, StartedRun,
    Stop, Turn,
};
use crate::agent::Agent;
use crate::entries::{EntryError, Submitted, ToolAnswer};
use crate::error::Error;
use crate::id::{RunId, SessionId};
use crate::maybe_send::MaybeSend;
use crate::message::Message;
use crate::session::{OpenStep, PendingCall, RunRecord, SessionState, StopKind};
use crate::store::{Page, Paged, PendingQuery, SessionKey, SessionQuery, Sessions, StoreError};
use crate::stream::Sequence;

/// The verbs that users call on a runtime, one for each operation.
///
/// It is there for every [`Runtime`], also behind `&dyn Runtime` and `Arc<dyn Runtime>`. Whatever else
/// can be said about a call travels in its argument: a text or a [`Turn`], a [`Pending`], a [`Stop`],
/// [`Messages`].
///
/// ```
/// use helix_agents::prelude::*;
///
/// async fn talk(runtime: &dyn Runtime, agent: &Agent) -> Result<String, Error> {
///     let first = runtime.execute(agent, "What is a fence?").await?;
///     first.output().await?;
///     let second = runtime.send(agent, first.session_id(), "And shorter?").await?;
///     second.output().await
/// }
/// ```
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait RuntimeExt: Runtime {
    /// Starts a turn: in a new session, or in the one that the [`Turn`] names.
    ///
    /// The run is durable when this returns, and goes on by itself; dropping the handle stops nothing.
    ///
    /// # Errors
    /// When the turn cannot begin; nothing is written then. A session whose last turn has not ended
    /// refuses another.
    async fn execute<Out>(
        &self,
        agent: &Agent<Out>,
        turn: impl Into<Turn> + MaybeSend,
    ) -> Result<Handle<Out>, Error>
    where
        Out: DeserializeOwned + 'static,
    {
        self.agents().keep(agent)?;
        let run = start_turn(self, agent.name(), turn.into()).await?;
        Ok(Handle::new(self.shared(), run))
    }

    /// As [`RuntimeExt::execute`], for an agent that is registered under this name: for callers that
    /// learn the name at run time, and for agents that a factory makes.
    ///
    /// # Errors
    /// As [`RuntimeExt::execute`], and when no agent has this name.
    async fn execute_by_name(
        &self,
        agent: impl AsRef<str> + MaybeSend,
        turn: impl Into<Turn> + MaybeSend,
    ) -> Result<Handle<Value>, Error> {
        let turn = turn.into();
        let run = start_turn(self, agent.as_ref(), turn).await?;
        Ok(Handle::new(self.shared(), run))
    }

    /// Starts the next turn of a session whose last turn has ended.
    ///
    /// # Errors
    /// As [`RuntimeExt::execute`], and when there is no such session.
    async fn send<Out>(
        &self,
        agent: &Agent<Out>,
        session: impl AsRef<str> + MaybeSend,
        turn: impl Into<Turn> + MaybeSend,
    ) -> Result<Handle<Out>, Error>
    where
        Out: DeserializeOwned + 'static,
    {
        let session = SessionId::new(session)?;
        self.execute(agent, turn.into().in_session(session)).await
    }

    /// Resumes a session. Its id continues it: after a pause whose calls are all answered, or after an
    /// interruption. [`Resume`] has the other modes.
    ///
    /// # Errors
    /// When there is nothing to resume, or calls still wait for an answer; nothing is written then.
    async fn resume<Out>(
        &self,
        agent: &Agent<Out>,
        resume: impl Into<Resume> + MaybeSend,
    ) -> Result<Handle<Out>, Error>
    where
        Out: DeserializeOwned + 'static,
    {
        let (session, request) = resume.into().checked()?;
        self.agents().keep(agent)?;
        let run = self.resume_session(request, RunOptions::default()).await;
        let run = run.map_err(|error| Error::from(error).in_session(&session))?;
        Ok(Handle::new(self.shared(), run))
    }

    /// Answers a pending call. The answer is durable when this returns.
    ///
    /// # Errors
    /// For an answer that does not fit its question; nothing is stored then.
    async fn submit(&self, answer: ToolAnswer) -> Result<Submitted, Error> {
        let session = answer.session_id.clone();
        let submitted = self.submit_answer(answer).await;
        submitted.map_err(|error| Error::from(error).in_session(&session))
    }

    /// Asks the run of a session to stop where it is, with all sub-agents that work for it. It keeps what it has, and
    /// can be resumed. Gives the run. When none is in progress or suspended, persistent sub-agents that still work are
    /// asked, and the run of one is given; `None` when nobody works. The request is durable when this returns; the end
    /// of the run is not waited for.
    ///
    /// # Errors
    /// When there is no such session, or the store cannot be reached.
    async fn interrupt(&self, stop: impl Into<Stop> + MaybeSend) -> Result<Option<RunId>, Error> {
        request_stop(self, stop.into(), StopKind::Interrupt).await
    }

    /// Asks the run of a session to fail. Otherwise as [`RuntimeExt::interrupt`].
    ///
    /// # Errors
    /// As [`RuntimeExt::interrupt`].
    async fn abort(&self, stop: impl Into<Stop> + MaybeSend) -> Result<Option<RunId>, Error> {
        request_stop(self, stop.into(), StopKind::Abort).await
    }

    /// The calls that wait for a person or a client, oldest first.
    ///
    /// # Errors
    /// When there is no such session, or the store cannot be reached.
    async fn pending(
        &self,
        pending: impl Into<Pending> + MaybeSend,
    ) -> Result<Vec<PendingCall>, Error> {
        list_pending(self, pending.into().checked()?).await
    }

    /// A handle on the latest run of a session; `None` when the session never ran.
    ///
    /// # Errors
    /// When the store cannot be reached.
    async fn handle<Out>(
        &self,
        agent: &Agent<Out>,
        session: impl AsRef<str> + MaybeSend,
    ) -> Result<Option<Handle<Out>>, Error>
    where
        Out: DeserializeOwned + 'static,
    {
        let session = SessionId::new(session)?;
        self.agents().keep(agent)?;
        let found = self.backend().store.find(&session).await?;
        let run = found.and_then(|found| {
            let run = found.run?;
            Some(StartedRun::new(found.state.key(), run.id))
        });
        Ok(run.map(|run| Handle::new(self.shared(), run)))
    }

    /// The messages of a session, oldest first: the history that the model is given. A session or its id
    /// selects all of them, [`Messages::page`] a part.
    ///
    /// A step is in the history once all of its calls have their results, so a session that waits for an
    /// answer ends with the message before; [`RuntimeExt::pending`] lists what it waits for. Messages that
    /// the framework adds for the model are included: `UserMessage::is_hidden` tells them apart.
    ///
    /// ```
    /// use helix_agents_core::runtime::{Runtime, RuntimeExt};
    /// use helix_agents_core::{Error, Message, SessionId};
    ///
    /// async fn print(runtime: &dyn Runtime, session: &SessionId) -> Result<(), Error> {
    ///     for message in runtime.messages(session).await? {
    ///         match message {
    ///             Message::User(user) => println!("user: {}", user.content),
    ///             Message::Assistant(reply) => println!("agent: {}", reply.content().unwrap_or_default()),
    ///             Message::Tool(result) => println!("{}: {}", result.tool_name, result.content),
    ///             _ => {}
    ///         }
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// When there is no such session, or the store cannot be reached.
    async fn messages(
        &self,
        messages: impl Into<Messages> + MaybeSend,
    ) -> Result<Paged<Message>, Error> {
        let (session, page) = messages.into().checked()?;
        let store = &self.backend().store;
        let found = store.find(&session).await?;
        let found = found.ok_or(StoreError::NotFound { session })?;
        Ok(store.messages(found.state.key(), page).await?)
    }

    /// The sessions that a query selects, newest first, without their state and messages. At most
    /// [`Page::MAX`] at once; [`Paged::has_more`] says whether to ask for the next page.
    ///
    /// ```
    /// use helix_agents_core::runtime::{Runtime, RuntimeExt};
    /// use helix_agents_core::store::SessionQuery;
    /// use helix_agents_core::{Error, UserId};
    ///
    /// async fn chats(runtime: &dyn Runtime, user: UserId) -> Result<(), Error> {
    ///     let query = SessionQuery { user_id: Some(user), ..SessionQuery::default() };
    ///     for session in runtime.sessions(query).await? {
    ///         println!("{} {:?}", session.session_id, session.status);
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// When the store cannot be reached.
    async fn sessions(&self, query: SessionQuery) -> Result<Paged<SessionState>, Error> {
        Ok(self.backend().store.list(&query).await?)
    }

    /// The chunks of a session after a sequence, for a reader that comes back: those that are stored, and
    /// then those that come, until nothing more comes for now. A session that does not exist gives an
    /// error.
    fn chunks(&self, session: impl AsRef<str>, from: impl Into<Sequence>) -> ChunkStream {
        match SessionId::new(session) {
            Ok(session) => ChunkStream::of_session(self.backend(), session, from.into()),
            Err(error) => ChunkStream::failed(error.into()),
        }
    }
}

impl<R: Runtime + ?Sized> RuntimeExt for R {}

/// Starts a turn. A start of a new session that was already made returns its run.
async fn start_turn<R: Runtime + ?Sized>(
    runtime: &R,
    agent: &str,
    turn: Turn,
) -> Result<StartedRun, Error> {
    let (request, options) = turn.request(agent)?;
    let asked = request.session_id.clone();
    match runtime.start(request, options).await {
        Err(RuntimeError::Entry(EntryError::AlreadyStarted { session, root, run })) => {
            Ok(StartedRun::new(SessionKey::new(&root, &session), run))
        }
        started => started.map_err(|error| Error::from(error).about(asked.as_ref(), None)),
    }
}

async fn request_stop<R: Runtime + ?Sized>(
    runtime: &R,
    stop: Stop,
    kind: StopKind,
) -> Result<Option<RunId>, Error> {
    let (session, reason) = stop.checked()?;
    let store = Arc::clone(&runtime.backend().store);
    let sessions = Sessions::new(store.as_ref(), runtime.clock().as_ref());
    let asked = sessions.request_stop(&session, kind, reason).await?;
    if asked.is_some() {
        end_suspended(runtime, &session).await;
    }
    Ok(asked)
}

/// Ends a suspended run that was asked to stop, and those that worked for the session: no process performs them. Where
/// this runtime cannot, a process that looks for due work does.
async fn end_suspended<R: Runtime + ?Sized>(runtime: &R, session: &SessionId) {
    let store = &runtime.backend().store;
    let mut left = vec![session.clone()];
    while let Some(session) = left.pop() {
        let Ok(Some(found)) = store.find(&session).await else {
            continue;
        };
        let calls = found.open_step.iter().flat_map(OpenStep::calls);
        let children = calls.filter_map(|(_, call)| call.child.as_ref());
        left.extend(children.map(|child| child.session_id.clone()));
        if let Ok(family) = store.extras(found.state.key()).await {
            let children = family.children.into_iter();
            left.extend(children.map(|child| child.session_id));
        }
        let run = found.run.as_ref();
        let is_asked = |run: &RunRecord| {
            let asked = found.stop.as_ref().map(|stop| &stop.run_id);
            run.status.is_suspended() && asked == Some(&run.id)
        };
        if !run.is_some_and(is_asked) {
            continue;
        }
        let options = RunOptions::default();
        if let Err(error) = runtime.resume_session(found.into(), options).await {
            tracing::debug!(event = "run.not_ended", %session, %error);
        }
    }
}

async fn list_pending<R: Runtime + ?Sized>(
    runtime: &R,
    wanted: Wanted,
) -> Result<Vec<PendingCall>, Error> {
    let store = &runtime.backend().store;
    let root = match wanted.session {
        None => None,
        Some(session) => {
            let found = store.find(&session).await?;
            let found = found.ok_or(StoreError::NotFound { session })?;
            Some(found.state.root().clone())
        }
    };
    let mut all = Vec::new();
    loop {
        let most = wanted.limit.saturating_sub(all.len()).min(Page::MAX);
        let query = PendingQuery {
            user_id: wanted.user.clone(),
            root: root.clone(),
            page: Page::new(all.len(), most),
        };
        let page = store.pending(&query).await?;
        let is_last = page.items.is_empty() || !page.has_more;
        all.extend(page.items);
        if is_last || all.len() >= wanted.limit {
            return Ok(all);
        }
    }
}
