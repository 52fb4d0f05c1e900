//! The children of a run: driven in this process where it started them, and waited for.

use std::future::{Future, ready};
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, select};
use helix_agents_core::SessionId;
use helix_agents_core::abort::AbortSignal;
use helix_agents_core::entries::{BudgetRequest, Entered, EntryError, ResumeMode};
use helix_agents_core::machine::{Effect, RunState};
use helix_agents_core::perform::{PerformError, Ports, awaited_child, stop_children};
use helix_agents_core::runtime::{RunOptions, RuntimeError, StartedRun};
use helix_agents_core::session::RunStatus;
use helix_agents_core::store::{SessionKey, Snapshot};

use crate::LocalRuntime;
use crate::runtime::is_late;
use crate::table::{Entering, Known};

/// How often a child that another process performs is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Drives the children of a run, and waits for them.
pub(crate) struct Children(pub(crate) LocalRuntime);

impl Children {
    /// Resolves when the child of an effect no longer runs. Once the run is asked to stop, so is the child.
    ///
    /// # Errors
    /// [`PerformError::ChildRuns`] when this process has to leave the run first.
    pub(crate) async fn ended(
        &self,
        effect: &Effect,
        ports: &Ports,
        leave: &AbortSignal,
    ) -> Result<(), PerformError> {
        let stopped = async {
            if let Some(stop) = &ports.stop {
                stop.aborted().await;
                stop_children(effect, ports).await?;
            }
            std::future::pending::<Result<(), PerformError>>().await
        };
        let left = async {
            leave.aborted().await;
            let session = effect.at.session_id.clone();
            Err(PerformError::ChildRuns { session })
        };
        let waited = pin!(self.wait(effect, ports));
        let stopped = pin!(stopped);
        match select(waited, select(stopped, pin!(left))).await {
            Either::Left((waited, _)) => waited,
            Either::Right((Either::Left((why, _)) | Either::Right((why, _)), _)) => why,
        }
    }

    async fn wait(&self, effect: &Effect, ports: &Ports) -> Result<(), PerformError> {
        loop {
            // Heard from before the look on: another task of this process may be about to perform the child.
            let more = self.0.inner.table.more.heard();
            let Some(child) = awaited_child(effect, ports).await? else {
                break;
            };
            let run = child.run.as_ref();
            let Some(run) = run.filter(|run| run.status == RunStatus::Running) else {
                if !self.deliver(child, ports).await {
                    self.pause(ports, more).await;
                }
                continue;
            };
            let started = StartedRun::new(child.state.key(), run.id.clone());
            match self.0.inner.table.known(&started) {
                Known::Performed(mut pending) => {
                    let _ = pending.wait_for(Option::is_some).await;
                }
                Known::Nothing if self.is_mine(&child) => {
                    let driven = match self.0.inner.table.enter_alone(&started) {
                        Ok(Some(entering)) => self.drive(child, entering, options_of(ports)).await,
                        // Another task of this process is about to.
                        Ok(None) => {
                            self.pause(ports, more).await;
                            continue;
                        }
                        Err(error) => Err(error),
                    };
                    if let Err(error) = driven {
                        tracing::warn!(event = "child.not_driven", run = %started.run_id, %error);
                        self.pause(ports, more).await;
                    }
                }
                Known::Nothing | Known::Left(_) => {
                    if !self.0.take_over_lapsed(child).await {
                        self.pause(ports, more).await;
                    }
                }
            }
        }
        Ok(())
    }

    async fn pause(&self, ports: &Ports, more: impl Future<Output = ()>) {
        let until = ports.clock.now().saturating_add(LOOK);
        select(ports.clock.sleep_until(until), pin!(more)).await;
    }

    /// Whether this process holds the lease of the child: it has started it.
    fn is_mine(&self, child: &Snapshot) -> bool {
        let me = self.0.inner.performer.lease.as_ref();
        let holder = child.lease.as_ref().map(|lease| &lease.holder);
        me.map(|(holder, _)| holder) == holder
    }

    /// Starts the run of a child that messages wait for. False when it has to be tried again later.
    fn deliver(&self, child: Snapshot, ports: &Ports) -> BoxFuture<'_, bool> {
        let options = options_of(ports);
        Box::pin(async move {
            let session = child.state.session_id.clone();
            match self.0.deliver(child, options).await {
                // Also when another task or process was faster, or the messages were dropped.
                Ok(_)
                | Err(RuntimeError::Entry(
                    EntryError::AlreadyRunning { .. } | EntryError::NothingWaits { .. },
                )) => true,
                Err(error) => {
                    tracing::warn!(event = "child.not_started", %session, %error);
                    false
                }
            }
        })
    }

    /// Starts the run of a child that messages wait for, and that nobody waits for.
    pub(crate) fn wake(&self, root: SessionId, child: SessionId, ports: &Ports) {
        let runtime = self.0.clone();
        tokio::spawn(runtime.deliver_waiting(root, child, options_of(ports)));
    }

    /// Boxed: the future of a run holds those of its children.
    fn drive(
        &self,
        child: Snapshot,
        entering: Entering,
        options: RunOptions,
    ) -> BoxFuture<'_, Result<(), RuntimeError>> {
        Box::pin(async move {
            let agent = self.0.agent_of(&child)?;
            let Some(state) = RunState::of(&child, child.fence) else {
                return Ok(());
            };
            let entry = ready(Ok(Entered::Run(state)));
            // The commit that started it requested its lease, at an instant of this process.
            let asked = child.run.as_ref().map(|run| run.started_at);
            let run = self.0.enter_since(entering, asked, &agent, options, entry);
            run.await.map(drop)
        })
    }
}

/// The options of a child's run: the hooks of the execution go down with it.
fn options_of(ports: &Ports) -> RunOptions {
    let mut options = RunOptions::default();
    options.hooks.clone_from(&ports.execution_hooks);
    options
}

impl LocalRuntime {
    /// Takes a child over whose process is gone. False when it is still held, or another process was faster.
    fn take_over_lapsed(&self, child: Snapshot) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let now = self.inner.clock.now();
            let lease = child.lease.as_ref();
            let is_held = lease.is_some_and(|lease| lease.until > now && !lease.given_up);
            !is_held && self.take_over(child).await.is_ok()
        })
    }

    /// Continues the session for which an ended one worked, if it waits for nothing else.
    pub(crate) async fn continue_parent(&self, ended: SessionKey<'_>) {
        if !self.inner.auto_continue || ended.is_root() {
            return;
        }
        let store = &self.inner.backend.store;
        let parent = match store.load(ended).await {
            Ok(Some(child)) => child.state.parent_session_id,
            _ => None,
        };
        let Some(parent) = parent else { return };
        let Ok(Some(found)) = store.load(SessionKey::new(ended.root, &parent)).await else {
            return;
        };
        let waits = !found.state.suspended_awaiting_children.is_empty()
            || !found.state.unanswered_calls().is_empty();
        let run = found.run.as_ref();
        if waits || !run.is_some_and(|run| run.status.is_suspended()) {
            return;
        }
        let how = (ResumeMode::Continue, BudgetRequest::default());
        match self.resume_found(found, how, RunOptions::default()).await {
            Ok(_) | Err(RuntimeError::ShuttingDown) => {}
            Err(RuntimeError::Entry(error)) if is_late(&error) => {}
            Err(error) => tracing::warn!(event = "run.not_continued", session = %parent, %error),
        }
    }
}
