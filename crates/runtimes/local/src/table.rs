//! The table of the runs that this process performs.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helix_agents_core::abort::{AbortHandle, AbortSignal};
use helix_agents_core::id::{RunId, SessionId};
use helix_agents_core::notify::Notify;
use helix_agents_core::perform::PerformError;
use helix_agents_core::runtime::{RuntimeError, StartedRun};
use tokio::sync::watch;

/// The maximum number of reports kept for runs that were left before their end, for handles that
/// ask late.
const REMEMBERED: usize = 1_024;

/// How this process stopped performing a run.
#[derive(Debug, Clone)]
pub(crate) enum Report {
    /// The run has ended; its outcome is in the store.
    Ended {
        /// Whether messages wait for the next run of the session.
        messages_wait: bool,
    },
    /// Another process took the run over.
    Superseded,
    /// An effect failed, and the run cannot continue here.
    Stalled(Arc<PerformError>),
    /// This process shuts down.
    HandedOver,
    /// The task of the run panicked or made no progress.
    Broken(&'static str),
}

impl Report {
    /// The error for callers that wait for the end of the run; `None` if the run has ended.
    pub(crate) fn error(&self, run: &RunId) -> Option<RuntimeError> {
        let run = run.clone();
        match self {
            Self::Ended { .. } => None,
            Self::Superseded => Some(RuntimeError::Superseded { run }),
            Self::Stalled(source) => {
                let source = Arc::clone(source);
                Some(RuntimeError::Stalled { run, source })
            }
            Self::HandedOver => Some(RuntimeError::HandedOver { run }),
            Self::Broken(what) => Some(RuntimeError::Host {
                why: format!("{what}; run {run} is taken over when its lease lapses"),
            }),
        }
    }
}

type Key = (SessionId, RunId);
type Pending = watch::Receiver<Option<Report>>;

fn key(run: &StartedRun) -> Key {
    (run.session_id.clone(), run.run_id.clone())
}

/// The state of a run in this process.
pub(crate) enum Known {
    /// The run is being performed; the receiver gets its report.
    Performed(Pending),
    /// The run was left before its end.
    Left(Report),
    /// The run is unknown here.
    Nothing,
}

/// The runs that this process performs or is about to start.
#[derive(Debug, Default)]
pub(crate) struct Table {
    inner: Mutex<Inner>,
    /// Notified when the number of runs decreases.
    fewer: Notify,
    /// Rung when this process begins to perform a run.
    pub(crate) more: Notify,
    /// Tells drivers that the process shuts down.
    stop: AbortHandle,
}

#[derive(Debug, Default)]
struct Inner {
    closed: bool,
    /// The number of entries in progress, which may become runs.
    entering: usize,
    /// The sessions of these entries, where they are known, with the number of entries of each.
    entered: HashMap<SessionId, usize>,
    performed: HashMap<Key, Pending>,
    left: VecDeque<(Key, Report)>,
    counts: Counts,
}

/// The number of runs by how they were left since the table was closed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) ended: usize,
    pub(crate) handed_over: usize,
    pub(crate) busy: usize,
}

impl Inner {
    fn enter(
        &mut self,
        table: &Arc<Table>,
        session: Option<SessionId>,
    ) -> Result<Entering, RuntimeError> {
        if self.closed {
            return Err(RuntimeError::ShuttingDown);
        }
        self.entering += 1;
        if let Some(session) = &session {
            *self.entered.entry(session.clone()).or_default() += 1;
        }
        Ok(Entering {
            table: Arc::clone(table),
            session,
        })
    }

    fn known(&self, run: &StartedRun) -> Known {
        let key = key(run);
        if let Some(pending) = self.performed.get(&key) {
            return Known::Performed(pending.clone());
        }
        let left = self.left.iter().find(|(left, _)| *left == key);
        left.map_or(Known::Nothing, |(_, report)| Known::Left(report.clone()))
    }
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code under the lock can panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for permission to start a run, of this session where it is known.
    pub(crate) fn enter(
        self: &Arc<Self>,
        session: Option<SessionId>,
    ) -> Result<Entering, RuntimeError> {
        self.lock().enter(self, session)
    }

    /// Asks for permission to perform a run that this process has started. `None` while another task performs it, is
    /// about to, or has left it: two would perform its effects at the same time.
    pub(crate) fn enter_alone(
        self: &Arc<Self>,
        run: &StartedRun,
    ) -> Result<Option<Entering>, RuntimeError> {
        let mut inner = self.lock();
        let is_free = matches!(inner.known(run), Known::Nothing)
            && !inner.entered.contains_key(&run.session_id);
        is_free
            .then(|| inner.enter(self, Some(run.session_id.clone())))
            .transpose()
    }

    pub(crate) fn known(&self, run: &StartedRun) -> Known {
        self.lock().known(run)
    }

    /// Returns a signal for drivers that fires when the process shuts down.
    pub(crate) fn stop(&self) -> AbortSignal {
        self.stop.signal()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Refuses new runs and tells drivers to stop.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.stop.abort();
    }

    /// Returns the counts so far.
    pub(crate) fn counts(&self) -> Counts {
        let inner = self.lock();
        Counts {
            busy: inner.entering + inner.performed.len(),
            ..inner.counts
        }
    }

    /// Resolves when no run is performed.
    pub(crate) async fn idle(&self) {
        loop {
            let fewer = self.fewer.heard();
            if self.counts().busy == 0 {
                return;
            }
            fewer.await;
        }
    }
}

/// Permission to start a run.
#[derive(Debug)]
pub(crate) struct Entering {
    table: Arc<Table>,
    session: Option<SessionId>,
}

impl Entering {
    /// Records that the run was started and is performed here from now on.
    pub(crate) fn perform(self, run: &StartedRun) -> Performing {
        let (tell, pending) = watch::channel(None);
        let key = key(run);
        let mut inner = self.table.lock();
        inner.left.retain(|(left, _)| *left != key);
        inner.performed.insert(key.clone(), pending);
        drop(inner);
        self.table.more.ring();
        Performing {
            table: Arc::clone(&self.table),
            key,
            tell,
            report: Report::Broken("the task of the run ended, perhaps because of a panic"),
        }
    }
}

impl Drop for Entering {
    fn drop(&mut self) {
        let mut inner = self.table.lock();
        inner.entering -= 1;
        if let Some(session) = self.session.take()
            && let Entry::Occupied(mut entries) = inner.entered.entry(session)
        {
            *entries.get_mut() -= 1;
            if *entries.get() == 0 {
                entries.remove();
            }
        }
        drop(inner);
        self.table.fewer.ring();
    }
}

/// A run that is performed here until this guard is dropped, by its driver or by a panic.
#[derive(Debug)]
pub(crate) struct Performing {
    table: Arc<Table>,
    key: Key,
    tell: watch::Sender<Option<Report>>,
    report: Report,
}

impl Performing {
    /// Records the report of the driver.
    pub(crate) fn done(mut self, report: Report) {
        self.report = report;
    }
}

impl Drop for Performing {
    fn drop(&mut self) {
        let mut inner = self.table.lock();
        inner.performed.remove(&self.key);
        if !matches!(self.report, Report::Ended { .. }) {
            if inner.left.len() == REMEMBERED {
                inner.left.pop_front();
            }
            inner
                .left
                .push_back((self.key.clone(), self.report.clone()));
        }
        if inner.closed {
            match self.report {
                Report::HandedOver => inner.counts.handed_over += 1,
                _ => inner.counts.ended += 1,
            }
        }
        drop(inner);
        self.tell.send_replace(Some(self.report.clone()));
        self.table.fewer.ring();
    }
}
