//! Looks for work that nobody does: runs whose process is gone, answers that nobody continued.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::{Either, select};
use helix_agents_core::SessionId;
use helix_agents_core::agent::{Agent, ResolveError};
use helix_agents_core::runtime::{RunOptions, RuntimeError, StartedRun};
use helix_agents_core::store::{Due, Snapshot, StoreError};

use crate::LocalRuntime;
use crate::runtime::{HOST, is_late, tokio_here};
use crate::table::Known;

/// How many sessions are looked at, unless all of them are somebody else's.
const AT_ONCE: usize = 256;

/// What a look for due work came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepReport {
    /// Runs whose process was gone, and which go on here.
    pub recovered: Vec<StartedRun>,
    /// Runs that were started because all their calls were answered.
    pub continued: Vec<StartedRun>,
    /// How many sessions should go on here and could not; the log says why.
    pub failed: usize,
}

/// What can be done here about a session.
#[derive(Clone, Copy)]
enum Todo {
    Recover,
    Continue,
}

impl LocalRuntime {
    /// Takes over what is due, once: runs of this kind of host whose lease has lapsed (see
    /// [`take_over`](crate::LocalRuntimeBuilder::take_over)), and with
    /// [`auto_continue`](crate::LocalRuntimeBuilder::auto_continue) paused runs whose calls are all
    /// answered. Runs of agents that are not registered here are left to others.
    ///
    /// They go on by themselves; the report names them.
    ///
    /// # Errors
    /// When the store cannot be read, or the runtime shuts down.
    pub async fn recover(&self) -> Result<SweepReport, RuntimeError> {
        tokio_here()?;
        let _one_at_a_time = self.inner.sweeping.lock().await;
        if self.inner.table.is_closed() {
            return Err(RuntimeError::ShuttingDown);
        }
        let mut report = SweepReport::default();
        for (session, todo) in self.due().await? {
            match self.attend(&session, todo).await {
                Ok(Some(run)) => match todo {
                    Todo::Recover => report.recovered.push(run),
                    Todo::Continue => report.continued.push(run),
                },
                Ok(None) => {}
                Err(RuntimeError::ShuttingDown) => return Err(RuntimeError::ShuttingDown),
                // One session that cannot go on does not keep the others waiting.
                Err(error) => {
                    tracing::error!(event = "sweep.failed", %session, %error);
                    report.failed += 1;
                }
            }
        }
        Ok(report)
    }

    /// Takes over the run of one session, whose process is gone.
    ///
    /// # Errors
    /// [`EntryError::StillHeld`](helix_agents_core::entries::EntryError::StillHeld) while somebody
    /// performs it, `NotRunning` when there is nothing to take over, and when the agent is not
    /// registered here.
    pub async fn recover_session(&self, session: &SessionId) -> Result<StartedRun, RuntimeError> {
        let found = self.inner.backend.store.load(session).await?;
        let found = found.ok_or_else(|| StoreError::NotFound {
            session: session.clone(),
        })?;
        let agent = self.agent_of(&found)?;
        self.take_over(&agent, session).await
    }

    /// Starts the sweeper: [`LocalRuntime::recover`] at once, and then every second, or as the
    /// builder said, until the runtime shuts down or is dropped. What fails is logged and tried
    /// again. Starting it twice is the same as once.
    ///
    /// # Errors
    /// [`RuntimeError::Host`] outside of a tokio runtime.
    pub fn sweeper(&self) -> Result<(), RuntimeError> {
        let host = tokio_here()?;
        if self.inner.sweeps.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // A sweeper alone does not keep the runtime alive.
        let inner = Arc::downgrade(&self.inner);
        let clock = Arc::clone(&self.inner.clock);
        let every = self.inner.sweep_every;
        let stop = self.inner.table.stop();
        host.spawn(async move {
            while let Some(inner) = inner.upgrade() {
                let runtime = Self { inner };
                // In a task of its own, so that a panic ends this look and not the sweeper.
                let look = tokio::spawn(async move { runtime.recover().await });
                match look.await {
                    Ok(Err(RuntimeError::ShuttingDown)) => return,
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => tracing::error!(event = "sweep.failed", %error),
                    Err(error) => tracing::error!(event = "sweep.failed", %error),
                }
                let sleep = clock.sleep_until(clock.now().saturating_add(every));
                if let Either::Right(_) = select(sleep, pin!(stop.aborted())).await {
                    return;
                }
            }
        });
        Ok(())
    }

    /// What is due and can be done here. Looks farther as long as everything it finds is for others.
    async fn due(&self) -> Result<Vec<(SessionId, Todo)>, RuntimeError> {
        let mut limit = AT_ONCE;
        loop {
            let now = self.inner.clock.now();
            let found = self.inner.backend.store.due(now, limit).await?;
            let is_all = found.len() < limit;
            let mut todo = Vec::new();
            for (session, reasons) in found {
                let reason = reasons.iter().find_map(|due| self.todo(&session, due));
                todo.extend(reason.map(|reason| (session, reason)));
            }
            if is_all || !todo.is_empty() {
                return Ok(todo);
            }
            limit = limit.saturating_mul(4);
        }
    }

    fn todo(&self, session: &SessionId, due: &Due) -> Option<Todo> {
        match due {
            Due::LapsedLease { run, host } if host == HOST && self.inner.take_over => {
                let run = StartedRun::new(session.clone(), run.clone());
                let is_here = matches!(self.inner.table.known(&run), Known::Performed(_));
                (!is_here).then_some(Todo::Recover)
            }
            Due::Answered { .. } if self.inner.auto_continue => Some(Todo::Continue),
            _ => None,
        }
    }

    /// Goes on with one session; `None` when it is somebody else's.
    async fn attend(
        &self,
        session: &SessionId,
        todo: Todo,
    ) -> Result<Option<StartedRun>, RuntimeError> {
        let Some(found) = self.inner.backend.store.load(session).await? else {
            return Ok(None);
        };
        let agent = match self.agent_of(&found) {
            Ok(agent) => agent,
            Err(ResolveError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let entered = match todo {
            Todo::Recover if self.is_held_beside(&found) => return Ok(None),
            Todo::Recover => self.take_over(&agent, session).await,
            Todo::Continue => self.go_on(&agent, session, RunOptions::default()).await,
        };
        match entered {
            Ok(run) => Ok(Some(run)),
            Err(RuntimeError::Entry(error)) if is_late(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn take_over(
        &self,
        agent: &Agent,
        session: &SessionId,
    ) -> impl Future<Output = Result<StartedRun, RuntimeError>> {
        let (entries, performer) = (self.inner.entries.clone(), self.inner.performer.clone());
        let session = session.clone();
        let entry = async move { entries.recover(&session, &performer).await };
        self.enter(agent, RunOptions::default(), entry)
    }

    /// Whether another runtime of this process took the run over meanwhile. To the store the two
    /// have one name, so it would let this one have the run, too.
    fn is_held_beside(&self, found: &Snapshot) -> bool {
        let me = self
            .inner
            .performer
            .lease
            .as_ref()
            .map(|(holder, _)| holder);
        let lease = found.lease.as_ref();
        lease.is_some_and(|lease| Some(&lease.holder) == me && lease.until > self.inner.clock.now())
    }
}
