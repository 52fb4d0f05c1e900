//! A store that fails on request.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use helix_agents_core::id::{CallId, CheckpointId, RunId, SessionId};
use helix_agents_core::message::Message;
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::{Checkpoint, PendingCall, RunRecord, SessionState};
use helix_agents_core::store::{
    AnsweredCall, Backlog, Change, Commit, DuePage, DueQuery, DueReason, DueSession, Lookup, Page,
    Paged, PendingQuery, Receipt, SessionExtras, SessionKey, SessionQuery, SessionStore, Snapshot,
    StoreError,
};
use helix_agents_core::time::Timestamp;
use helix_agents_core::usage::UsageEntry;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::kit::{Gate, session};

/// The failures that a test asks the store for.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// Whether commits that settle a step are refused.
    pub(crate) refuses_steps: AtomicBool,
    /// The number of commits of single call results to refuse.
    pub(crate) refused_calls: AtomicUsize,
    /// Whether commits that renew a lease fail as unreachable.
    pub(crate) refuses_renewals: AtomicBool,
    /// The number of attempted commits that renew a lease.
    pub(crate) renewals: AtomicUsize,
    /// Whether commits that settle a step panic.
    pub(crate) panics_on_steps: AtomicBool,
    /// Where the acknowledgement of the start of a run waits that messages wait for.
    pub(crate) held_start: Mutex<Option<Arc<HeldStart>>>,
    /// Where the commits wait that note that a child is suspended.
    pub(crate) held_notes: Mutex<Option<Arc<Gate>>>,
    /// The responses of the next due-work queries in place of the real ones, last first.
    pub(crate) due: Mutex<Vec<FalseDue>>,
}

/// A false response to a due-work query.
#[derive(Debug)]
pub(crate) enum FalseDue {
    Stale(SessionId, DueReason),
    Failure,
    Panic,
}

/// The start of a run that is durable, while whoever made it has no acknowledgement yet.
#[derive(Debug)]
pub(crate) struct HeldStart {
    release: Semaphore,
    session: Mutex<Option<SessionId>>,
    looks: Semaphore,
}

impl HeldStart {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            release: Semaphore::new(0),
            session: Mutex::default(),
            looks: Semaphore::new(0),
        })
    }

    /// Counts how often a session is looked at from now on.
    pub(crate) fn watching(session: &SessionId) -> Arc<Self> {
        let watching = Self::new();
        *watching.session.lock().unwrap() = Some(session.clone());
        watching
    }

    /// Waits until the session was looked at this often since.
    pub(crate) async fn looked_at(&self, times: u32) {
        self.looks.acquire_many(times).await.unwrap().forget();
    }

    pub(crate) fn release(&self) {
        self.release.add_permits(1);
    }
}

#[derive(Debug)]
struct FailingStore {
    store: Arc<dyn SessionStore>,
    failures: Arc<Failures>,
}

/// Wraps a backend in a store whose failures the returned switches control.
pub(crate) fn failing_store(mut backend: Backend) -> (Backend, Arc<Failures>) {
    let failures = Arc::new(Failures::default());
    backend.store = Arc::new(FailingStore {
        store: backend.store,
        failures: Arc::clone(&failures),
    });
    (backend, failures)
}

fn refused(session: SessionId) -> StoreError {
    StoreError::Invalid {
        session,
        reason: "the test refuses this commit".to_owned(),
    }
}

#[async_trait]
impl SessionStore for FailingStore {
    async fn commit(&self, commit: Commit) -> Result<Receipt, StoreError> {
        let settles = |(_, change): &(SessionId, Change)| matches!(change, Change::AppendStep(_));
        if commit.changes.iter().any(settles) {
            if self.failures.panics_on_steps.load(Ordering::SeqCst) {
                panic!("the store panicked");
            }
            if self.failures.refuses_steps.load(Ordering::SeqCst) {
                return Err(refused(commit.root));
            }
        }
        let renews = |(_, change): &(SessionId, Change)| matches!(change, Change::Lease(Some(_)));
        if commit.changes.iter().all(renews) {
            self.failures.renewals.fetch_add(1, Ordering::SeqCst);
            if self.failures.refuses_renewals.load(Ordering::SeqCst) {
                return Err(StoreError::Unavailable {
                    backend: "failing",
                    source: "not now".into(),
                });
            }
        }
        let keeps = |(_, change): &(SessionId, Change)| matches!(change, Change::OpenCall(..));
        if commit.changes.iter().any(keeps) {
            let left = &self.failures.refused_calls;
            let one_less = |left: usize| left.checked_sub(1);
            let refused_one = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
            if refused_one.is_ok() {
                return Err(refused(commit.root));
            }
        }
        let notes = |(_, change): &(SessionId, Change)| {
            let Change::OpenCall(_, _, call) = change else {
                return false;
            };
            call.child.as_ref().is_some_and(|child| child.suspended)
        };
        let gate = self.failures.held_notes.lock().unwrap().clone();
        if let Some(gate) = gate.filter(|_| commit.changes.iter().any(notes)) {
            gate.pass().await;
        }
        let starts = |(_, change): &&(SessionId, Change)| matches!(change, Change::StartRun(_));
        let started = commit.changes.iter().find(starts);
        let started = started.map(|(session, _)| session.clone());
        let creates = |(_, change): &(SessionId, Change)| matches!(change, Change::Create(_));
        let started = started.filter(|_| !commit.changes.iter().any(creates));
        let held = self.failures.held_start.lock().unwrap().clone();
        let held = held.zip(started.filter(|session| *session != commit.root));
        let made = self.store.commit(commit).await;
        if let Some((held, session)) = held.filter(|_| made.is_ok()) {
            *held.session.lock().unwrap() = Some(session);
            held.release.acquire().await.unwrap().forget();
        }
        made
    }

    async fn load(&self, session: SessionKey<'_>) -> Result<Option<Snapshot>, StoreError> {
        let held = self.failures.held_start.lock().unwrap().clone();
        if let Some(held) = held
            && held.session.lock().unwrap().as_ref() == Some(session.session)
        {
            held.looks.add_permits(1);
        }
        self.store.load(session).await
    }

    async fn messages(&self, of: SessionKey<'_>, page: Page) -> Result<Paged<Message>, StoreError> {
        self.store.messages(of, page).await
    }

    async fn state_at(
        &self,
        session: SessionKey<'_>,
        version: u64,
    ) -> Result<Arc<Value>, StoreError> {
        self.store.state_at(session, version).await
    }

    async fn runs(
        &self,
        session: SessionKey<'_>,
        which: Lookup<RunId>,
    ) -> Result<Paged<RunRecord>, StoreError> {
        self.store.runs(session, which).await
    }

    async fn checkpoints(
        &self,
        session: SessionKey<'_>,
        which: Lookup<CheckpointId>,
    ) -> Result<Paged<Checkpoint>, StoreError> {
        self.store.checkpoints(session, which).await
    }

    async fn answered(
        &self,
        of: SessionKey<'_>,
        which: Lookup<CallId>,
    ) -> Result<Paged<AnsweredCall>, StoreError> {
        self.store.answered(of, which).await
    }

    async fn extras(&self, session: SessionKey<'_>) -> Result<SessionExtras, StoreError> {
        self.store.extras(session).await
    }

    async fn usage(&self, of: SessionKey<'_>, page: Page) -> Result<Paged<UsageEntry>, StoreError> {
        self.store.usage(of, page).await
    }

    async fn root_of(&self, session: &SessionId) -> Result<Option<SessionId>, StoreError> {
        self.store.root_of(session).await
    }

    async fn list(&self, query: &SessionQuery) -> Result<Paged<SessionState>, StoreError> {
        self.store.list(query).await
    }

    async fn pending(&self, query: &PendingQuery) -> Result<Paged<PendingCall>, StoreError> {
        self.store.pending(query).await
    }

    async fn due(&self, query: &DueQuery) -> Result<DuePage, StoreError> {
        let false_due = self.failures.due.lock().unwrap().pop();
        match false_due {
            None => self.store.due(query).await,
            Some(FalseDue::Stale(session, due)) => {
                let items = vec![DueSession::new(session.as_root(), vec![due])];
                Ok(DuePage {
                    at: query.at,
                    items,
                    next: None,
                })
            }
            Some(FalseDue::Failure) => Err(refused(session("none"))),
            Some(FalseDue::Panic) => panic!("the store panicked"),
        }
    }

    async fn backlog(&self, at: Timestamp) -> Result<Backlog, StoreError> {
        self.store.backlog(at).await
    }
}
