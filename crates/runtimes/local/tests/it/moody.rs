//! Stores that fail when they are told to.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use helix_agents_core::id::{CallId, CheckpointId, RunId, SessionId};
use helix_agents_core::message::Message;
use helix_agents_core::runtime::Backend;
use helix_agents_core::session::{Checkpoint, PendingCall, RunRecord, SessionState};
use helix_agents_core::store::{
    AnsweredCall, Backlog, Change, Commit, Due, DuePage, DueQuery, DueSession, Family, Lookup,
    Page, Paged, PendingQuery, Receipt, SessionKey, SessionQuery, SessionStore, Snapshot,
    StoreError,
};
use helix_agents_core::time::Timestamp;
use helix_agents_core::usage::UsageEntry;
use serde_json::Value;

use crate::kit::session;

/// What a moody store does.
#[derive(Debug, Default)]
pub(crate) struct Mood {
    /// Refuses commits that settle a step.
    pub(crate) refuses: AtomicBool,
    /// Refuses so many commits that keep the result of one call.
    pub(crate) refuses_calls: AtomicUsize,
    /// Cannot be reached by commits that renew a lease.
    pub(crate) keeps_leases: AtomicBool,
    /// How many commits that renew a lease were tried.
    pub(crate) renewals: AtomicUsize,
    /// Panics in commits that settle a step.
    pub(crate) panics: AtomicBool,
    /// What it says of due work instead of the truth, the last of them next.
    pub(crate) due: Mutex<Vec<Lie>>,
}

/// Something else than the due work there is.
#[derive(Debug)]
pub(crate) enum Lie {
    Stale(SessionId, Due),
    Failure,
    Panic,
}

#[derive(Debug)]
struct Moody {
    store: Arc<dyn SessionStore>,
    mood: Arc<Mood>,
}

/// The same backend, with moods.
pub(crate) fn moody(mut backend: Backend) -> (Backend, Arc<Mood>) {
    let mood = Arc::new(Mood::default());
    backend.store = Arc::new(Moody {
        store: backend.store,
        mood: Arc::clone(&mood),
    });
    (backend, mood)
}

fn in_a_mood(session: SessionId) -> StoreError {
    StoreError::Invalid {
        session,
        reason: "the store is in a mood".to_owned(),
    }
}

#[async_trait]
impl SessionStore for Moody {
    async fn commit(&self, commit: Commit) -> Result<Receipt, StoreError> {
        let settles = |(_, change): &(SessionId, Change)| matches!(change, Change::AppendStep(_));
        if commit.changes.iter().any(settles) {
            if self.mood.panics.load(Ordering::SeqCst) {
                panic!("the store fell over");
            }
            if self.mood.refuses.load(Ordering::SeqCst) {
                return Err(in_a_mood(commit.root));
            }
        }
        let renews = |(_, change): &(SessionId, Change)| matches!(change, Change::Lease(Some(_)));
        if commit.changes.iter().all(renews) {
            self.mood.renewals.fetch_add(1, Ordering::SeqCst);
            if self.mood.keeps_leases.load(Ordering::SeqCst) {
                return Err(StoreError::Unavailable {
                    backend: "moody",
                    source: "not now".into(),
                });
            }
        }
        let keeps = |(_, change): &(SessionId, Change)| matches!(change, Change::OpenCall(..));
        if commit.changes.iter().any(keeps) {
            let left = &self.mood.refuses_calls;
            let one_less = |left: usize| left.checked_sub(1);
            let refuses = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
            if refuses.is_ok() {
                return Err(in_a_mood(commit.root));
            }
        }
        self.store.commit(commit).await
    }

    async fn load(&self, session: SessionKey<'_>) -> Result<Option<Snapshot>, StoreError> {
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

    async fn family(&self, session: SessionKey<'_>) -> Result<Family, StoreError> {
        self.store.family(session).await
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
        let lie = self.mood.due.lock().unwrap().pop();
        match lie {
            None => self.store.due(query).await,
            Some(Lie::Stale(session, due)) => {
                let items = vec![DueSession::new(session.as_root(), vec![due])];
                Ok(DuePage::new(query.at, items, None))
            }
            Some(Lie::Failure) => Err(in_a_mood(session("none"))),
            Some(Lie::Panic) => panic!("the store fell over"),
        }
    }

    async fn backlog(&self, at: Timestamp) -> Result<Backlog, StoreError> {
        self.store.backlog(at).await
    }
}
