//! Finds and continues due work: runs whose process is gone, calls whose deadline has passed, answered
//! calls that no run has continued, stop requests for paused runs, and messages that wait for a run.

use std::pin::pin;
use std::sync::{Arc, PoisonError};

use futures_util::future::{Either, select};
use futures_util::{StreamExt, stream};
use helix_agents_core::agent::ResolveError;
use helix_agents_core::entries::{BudgetRequest, Entered, EntryError, ResumeMode};
use helix_agents_core::runtime::{RunOptions, RuntimeError, StartedRun};
use helix_agents_core::session::RunStatus;
use helix_agents_core::store::{
    DueKind, DueQuery, DueReason, DueSession, SessionKey, Snapshot, StoreError,
};
use helix_agents_core::{Error, RunId, SessionId};

use crate::LocalRuntime;
use crate::runtime::{HOST, is_late, tokio_here};
use crate::table::Known;

/// The number of due sessions that are read per query.
pub(crate) const PAGE: usize = 256;
/// The maximum number of runs that one sweep starts. The next sweep follows at once and starts the rest.
const STARTS: usize = 256;
/// The number of sessions whose calls are timed out at the same time.
const TIMEOUTS: usize = 32;

/// The result of one sweep for due work.
///
/// ```
/// use helix_agents_core::Error;
/// use helix_agents_runtime_local::LocalRuntime;
///
/// async fn sweep(runtime: &LocalRuntime) -> Result<(), Error> {
///     let report = runtime.recover().await?;
///     println!("{} recovered, {} removed", report.recovered.len(), report.removed);
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepReport {
    /// The runs whose process was gone and that this runtime took over.
    pub recovered: Vec<StartedRun>,
    /// The runs that were started because all pending calls were answered.
    pub continued: Vec<StartedRun>,
    /// The runs that were started to end a paused run that was asked to stop.
    pub stopped: Vec<StartedRun>,
    /// The runs that were started with messages that waited for the end of another run.
    pub delivered: Vec<StartedRun>,
    /// The number of pending calls that were timed out because their deadline had passed.
    pub timed_out: usize,
    /// The number of pending calls of which readers were warned because their deadline was near (see
    /// [`warn_of_deadlines`](crate::LocalRuntimeBuilder::warn_of_deadlines)).
    pub warned: usize,
    /// The number of expired sessions that were removed.
    pub removed: usize,
    /// The number of due sessions that this runtime could not continue; the log says why.
    pub failed: usize,
}

impl SweepReport {
    fn started(&self) -> usize {
        let continued = self.continued.len() + self.delivered.len();
        self.recovered.len() + continued + self.stopped.len()
    }

    /// Whether the sweep stopped at its limit, so that more may be due.
    fn is_full(&self) -> bool {
        self.started() >= STARTS
    }
}

/// The action that this runtime can take on a due session.
#[derive(Clone, Copy)]
enum Todo {
    Recover,
    Continue,
    Stop,
    Deliver,
}

impl LocalRuntime {
    /// Handles all due work once.
    ///
    /// It takes over runs of this kind of host whose lease has lapsed (see
    /// [`take_over`](crate::LocalRuntimeBuilder::take_over)), times out calls whose deadline has passed,
    /// ends paused runs that were asked to stop, starts runs with messages that waited for the end of
    /// another run, and with [`auto_continue`](crate::LocalRuntimeBuilder::auto_continue) continues paused
    /// runs whose calls are all answered or timed out. Calls are timed out whichever agent made them;
    /// otherwise sessions of agents that are not registered here are skipped. Then it removes expired data (see
    /// [`clean_up`](crate::LocalRuntimeBuilder::clean_up)).
    ///
    /// The started runs continue in the background; the report names them.
    ///
    /// # Errors
    /// When the store cannot be read, or the runtime shuts down.
    pub async fn recover(&self) -> Result<SweepReport, Error> {
        Ok(self.sweep_once().await?)
    }

    async fn sweep_once(&self) -> Result<SweepReport, RuntimeError> {
        tokio_here()?;
        let _one_at_a_time = self.inner.sweeping.lock().await;
        if self.inner.table.is_closed() {
            return Err(RuntimeError::ShuttingDown);
        }
        let mut report = SweepReport::default();
        self.time_out_calls(&mut report).await?;
        self.continue_due_work(&mut report).await?;
        if self.inner.clean_up {
            self.remove_expired(&mut report).await?;
        }
        Ok(report)
    }

    /// Times out every pending call whose deadline has passed, and warns readers of those whose deadline is
    /// near. That needs no agent, so any process does it.
    async fn time_out_calls(&self, report: &mut SweepReport) -> Result<(), RuntimeError> {
        let mut query = DueQuery::at(self.inner.clock.now())
            .of_kinds([DueKind::Deadline, DueKind::ExpiringSoon])
            .limit(PAGE);
        loop {
            let page = self.inner.backend.store.due(&query).await?;
            let mut looked = stream::iter(page.items)
                .map(|due| async move { (self.enforce_deadlines(&due).await, due) })
                .buffer_unordered(TIMEOUTS);
            while let Some((looked, due)) = looked.next().await {
                match looked {
                    Ok((timed_out, warned)) => {
                        report.timed_out += timed_out;
                        report.warned += warned;
                    }
                    Err(error) => {
                        tracing::error!(event = "sweep.failed", session = %due.session, %error);
                        report.failed += 1;
                    }
                }
            }
            match page.next {
                Some(next) => query = query.after(Some(next)),
                None => return Ok(()),
            }
        }
    }

    /// Times out the calls of a session, or warns readers of them. Returns how many of each.
    async fn enforce_deadlines(&self, due: &DueSession) -> Result<(usize, usize), EntryError> {
        let entries = &self.inner.entries;
        let has = |is_it: fn(&DueReason) -> bool| due.reasons.iter().any(is_it);
        let mut done = (0, 0);
        if has(|reason| matches!(reason, DueReason::Deadline { .. })) {
            done.0 = entries.expire(due.key()).await?.calls.len();
        }
        if has(|reason| matches!(reason, DueReason::ExpiringSoon { .. })) {
            done.1 = entries.warn(due.key()).await?;
        }
        Ok(done)
    }

    /// Reads due work page by page, until there is no more or `STARTS` runs are started. A session
    /// that cannot continue stays due and is skipped.
    async fn continue_due_work(&self, report: &mut SweepReport) -> Result<(), RuntimeError> {
        let mut kinds = vec![DueKind::OwedStop, DueKind::Inbox];
        kinds.extend(self.inner.take_over.then_some(DueKind::LapsedLease));
        kinds.extend(self.inner.auto_continue.then_some(DueKind::Answered));
        let mut query = DueQuery::at(self.inner.clock.now())
            .of_kinds(kinds)
            .of_agents(self.inner.agents.names())
            .limit(PAGE);
        loop {
            let page = self.inner.backend.store.due(&query).await?;
            for due in page.items {
                if report.is_full() {
                    return Ok(());
                }
                let Some(todo) = self.todo(&due) else {
                    continue;
                };
                match self.attend(due.key(), todo).await {
                    Ok(None) => {}
                    Ok(Some(run)) => match todo {
                        Todo::Recover => report.recovered.push(run),
                        Todo::Continue => report.continued.push(run),
                        Todo::Stop => report.stopped.push(run),
                        Todo::Deliver => report.delivered.push(run),
                    },
                    Err(RuntimeError::ShuttingDown) => return Err(RuntimeError::ShuttingDown),
                    // A session that cannot continue does not block the others.
                    Err(error) => {
                        tracing::error!(event = "sweep.failed", session = %due.session, %error);
                        report.failed += 1;
                    }
                }
            }
            match page.next {
                Some(next) => query = query.after(Some(next)),
                None => return Ok(()),
            }
        }
    }

    /// Takes over the run of one session whose process is gone.
    ///
    /// # Errors
    /// [`EntryError::StillHeld`] while a process performs it, this one included;
    /// [`EntryError::OtherHost`] when another kind of host performs it; [`EntryError::NotRunning`] when
    /// there is no run to take over; and an error when the agent is not registered here.
    pub async fn recover_session(&self, session: &SessionId) -> Result<StartedRun, Error> {
        let recovered = self.recover_one(session).await;
        recovered.map_err(|error| Error::from(error).in_session(session))
    }

    async fn recover_one(&self, session: &SessionId) -> Result<StartedRun, RuntimeError> {
        let found = self.inner.backend.store.find(session).await?;
        let found = found.ok_or_else(|| StoreError::NotFound {
            session: session.clone(),
        })?;
        let key = found.state.key();
        let running = found.run.as_ref();
        let running = running.filter(|run| run.status == RunStatus::Running);
        if let Some(run) = running.filter(|run| self.performs(key, &run.id)) {
            let lease = self.inner.performer.lease.as_ref();
            let held = EntryError::StillHeld {
                session: session.clone(),
                run: run.id.clone(),
                holder: lease
                    .map(|(holder, _)| holder.clone())
                    .unwrap_or_default()
                    .to_string(),
            };
            return Err(held.into());
        }
        self.take_over(found).await
    }

    /// Starts recovery that the builder turned [off](crate::LocalRuntimeBuilder::recovery): it calls
    /// [`LocalRuntime::recover`] at once, and then at the builder's interval, until the runtime shuts down
    /// or is dropped. Errors are logged, and the next sweep tries again. Starting it twice has no further
    /// effect.
    ///
    /// # Errors
    /// Outside of a tokio runtime.
    pub fn start_recovery(&self) -> Result<(), Error> {
        self.sweep_on(&tokio_here()?);
        Ok(())
    }

    /// Starts recovery, unless it was turned off or there is no tokio runtime.
    pub(crate) fn ensure_recovery(&self) {
        if self.inner.recovery
            && let Ok(host) = tokio_here()
        {
            self.sweep_on(&host);
        }
    }

    /// Starts the sweeper, unless one is running. A sweeper whose tokio runtime has ended is replaced.
    fn sweep_on(&self, host: &tokio::runtime::Handle) {
        let mut sweeper = self
            .inner
            .sweeper
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_there = |task: &tokio::task::JoinHandle<()>| !task.is_finished();
        if self.inner.table.is_closed() || sweeper.as_ref().is_some_and(is_there) {
            return;
        }
        // A sweeper alone does not keep the runtime alive.
        let inner = Arc::downgrade(&self.inner);
        let clock = Arc::clone(&self.inner.clock);
        let every = self.inner.sweep_every;
        let stop = self.inner.table.stop();
        *sweeper = Some(host.spawn(async move {
            while let Some(inner) = inner.upgrade() {
                let runtime = Self { inner };
                // In a task of its own, so that a panic ends this look and not the sweeper.
                let look = tokio::spawn(async move { runtime.sweep_once().await });
                match look.await {
                    Ok(Err(RuntimeError::ShuttingDown)) => return,
                    // The rest is due, too.
                    Ok(Ok(report)) if report.is_full() => continue,
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => tracing::error!(event = "sweep.failed", %error),
                    Err(error) => tracing::error!(event = "sweep.failed", %error),
                }
                let sleep = clock.sleep_until(clock.now().saturating_add(every));
                if let Either::Right(_) = select(sleep, pin!(stop.aborted())).await {
                    return;
                }
            }
        }));
    }

    /// Whether this runtime is performing the run.
    fn performs(&self, session: SessionKey<'_>, run: &RunId) -> bool {
        let run = StartedRun::new(session, run.clone());
        matches!(self.inner.table.known(&run), Known::Performed(_))
    }

    /// Returns the action that this runtime can take on a due session, if any.
    fn todo(&self, due: &DueSession) -> Option<Todo> {
        let of = |reason: &DueReason| match reason {
            DueReason::LapsedLease { run, host } if host == HOST => {
                (!self.performs(due.key(), run)).then_some(Todo::Recover)
            }
            DueReason::OwedStop { .. } => Some(Todo::Stop),
            DueReason::Answered { .. } => Some(Todo::Continue),
            DueReason::Inbox => Some(Todo::Deliver),
            _ => None,
        };
        let mut todo = due.reasons.iter().filter_map(of);
        // A stop request takes precedence over an answer, because it may be meant to overrule it.
        let first = todo.next()?;
        Some(
            todo.find(|next| matches!(next, Todo::Stop))
                .unwrap_or(first),
        )
    }

    /// Continues one session; returns `None` if another process already has or its agent is not
    /// registered here.
    async fn attend(
        &self,
        due: SessionKey<'_>,
        todo: Todo,
    ) -> Result<Option<StartedRun>, RuntimeError> {
        let Some(found) = self.inner.backend.store.load(due).await? else {
            return Ok(None);
        };
        let entered = match todo {
            Todo::Recover => self.take_over(found).await,
            Todo::Deliver => self.deliver(found, RunOptions::default()).await,
            Todo::Continue | Todo::Stop => {
                let options = RunOptions::default();
                let how = (ResumeMode::Continue, BudgetRequest::default());
                self.resume_found(found, how, options).await
            }
        };
        match entered {
            Ok(run) => Ok(Some(run)),
            Err(RuntimeError::Agent(ResolveError::NotFound(_))) => Ok(None),
            Err(RuntimeError::Entry(error)) if is_late(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn take_over(&self, found: Snapshot) -> Result<StartedRun, RuntimeError> {
        let agent = self.performed_agent(&found).await?;
        let session = found.state.session_id.clone();
        let (entries, performer) = (self.inner.entries.clone(), self.inner.performer.clone());
        let entry = async move {
            let entered = entries.recover(found, &performer).await;
            entered.map(Entered::Run)
        };
        let options = RunOptions::default();
        self.enter(Some(session), &agent, options, entry).await
    }
}
