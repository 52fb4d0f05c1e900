//! The interrupt flag: a request to stop the running run.

use super::{MAX_ATTEMPTS, Sessions};
use crate::id::{RunId, SessionId};
use crate::session::{OpenStep, RunStatus, StopKind, StopRequest};
use crate::store::{Change, Commit, Precondition, SessionKey, Snapshot, StoreError};

fn is_in_progress(status: RunStatus) -> bool {
    !status.is_ended() || status.is_suspended()
}

/// The sessions that work on the open calls of a session.
fn children_of(found: &Snapshot) -> impl Iterator<Item = SessionId> {
    let calls = found.open_step.iter().flat_map(OpenStep::calls);
    let open = calls.filter(|(_, call)| call.result.is_none());
    open.filter_map(|(_, call)| Some(call.child.as_ref()?.session_id.clone()))
}

impl Sessions<'_> {
    /// Requests that the running run stop. Returns false, without effect, if none is running.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    #[doc(hidden)]
    pub async fn set_interrupt_flag(
        &self,
        session: &SessionId,
        reason: Option<String>,
    ) -> Result<bool, StoreError> {
        let running = |status: RunStatus| status == RunStatus::Running;
        let asked = self
            .request(session, StopKind::Interrupt, reason, running)
            .await?;
        Ok(asked.is_some())
    }

    /// Requests that the run in progress stop, and returns its id. Returns `None` if the last run has
    /// ended; nothing is written then. The request is durable when this returns. The process that
    /// performs the run obeys it. A suspended run is ended by whoever resumes the session next, or by a
    /// sweeper.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    pub async fn request_stop(
        &self,
        session: &SessionId,
        kind: StopKind,
        reason: Option<String>,
    ) -> Result<Option<RunId>, StoreError> {
        self.request(session, kind, reason, is_in_progress).await
    }

    /// Requests that the last run stop, if its status allows it.
    async fn request(
        &self,
        session: &SessionId,
        kind: StopKind,
        reason: Option<String>,
        can_stop: impl Fn(RunStatus) -> bool,
    ) -> Result<Option<RunId>, StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let found = self.snapshot(session).await?;
            let Some(run) = found.run.clone().filter(|run| can_stop(run.status)) else {
                return Ok(None);
            };
            let as_read = Precondition::Run(run.id.clone(), vec![run.status]);
            let now = self.clock.now();
            let root = found.state.root().clone();
            let mut commit = Commit::new(root, now).when_in(session.clone(), as_read);
            let below = self.children_in_progress(&found).await?;
            let all = std::iter::once((session.clone(), run.id.clone())).chain(below);
            for (session, run) in all {
                let mut stop = StopRequest::new(run, kind, now);
                stop.reason.clone_from(&reason);
                commit = commit.then_in(session, Change::Stop(stop));
            }
            match self.store.commit(commit).await {
                // A stopped run starts no child. To one that began since the tree was read, the host that waits
                // for it passes the stop on.
                Ok(_) => return Ok(Some(run.id)),
                // The run ended, or another began, just now: read again.
                Err(StoreError::Refused { .. }) if attempts < MAX_ATTEMPTS => {}
                // A child was deleted just now.
                Err(StoreError::NotFound { session: gone })
                    if gone != *session && attempts < MAX_ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Requests that all runs stop that work for this one, at any depth, as far as nobody has.
    ///
    /// # Errors
    /// When the store cannot be reached.
    pub(crate) async fn stop_children(
        &self,
        session: SessionKey<'_>,
        kind: StopKind,
        reason: Option<String>,
    ) -> Result<(), StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let Some(found) = self.store.load(session).await? else {
                return Ok(());
            };
            let mut below = self.children_in_progress(&found).await?;
            let mut fresh = Vec::new();
            while let Some((session, run)) = below.pop() {
                let key = SessionKey::new(found.state.root(), &session);
                let stop = self.store.load(key).await?.and_then(|child| child.stop);
                if stop.is_none_or(|stop| stop.run_id != run) {
                    fresh.push((session, run));
                }
            }
            if fresh.is_empty() || attempts > MAX_ATTEMPTS {
                return Ok(());
            }
            let now = self.clock.now();
            let mut commit = Commit::new(found.state.root().clone(), now);
            for (session, run) in fresh {
                let mut stop = StopRequest::new(run, kind, now);
                stop.reason.clone_from(&reason);
                commit = commit.then_in(session, Change::Stop(stop));
            }
            match self.store.commit(commit).await {
                // One of them was deleted meanwhile.
                Ok(_) | Err(StoreError::Refused { .. } | StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The runs in progress that work for the last run of a session, at any depth.
    async fn children_in_progress(
        &self,
        found: &Snapshot,
    ) -> Result<Vec<(SessionId, RunId)>, StoreError> {
        let mut all = Vec::new();
        let mut open: Vec<SessionId> = children_of(found).collect();
        while let Some(session) = open.pop() {
            let key = SessionKey::new(found.state.root(), &session);
            let Some(child) = self.store.load(key).await? else {
                continue;
            };
            let run = child.run.as_ref();
            let Some(run) = run.filter(|run| is_in_progress(run.status)) else {
                continue;
            };
            all.push((session, run.id.clone()));
            open.extend(children_of(&child));
        }
        Ok(all)
    }

    /// Takes the stop request: of several concurrent callers exactly one gets it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    #[doc(hidden)]
    pub async fn check_interrupt_flag(
        &self,
        session: &SessionId,
    ) -> Result<Option<StopRequest>, StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let found = self.snapshot(session).await?;
            let Some(stop) = found.stop.clone() else {
                return Ok(None);
            };
            // An abort may have replaced it since: the commit takes exactly what was read.
            let commit = self
                .commit_after(&found)
                .when(Precondition::Version(found.state.version))
                .then(Change::ClearStop);
            match self.write(commit).await {
                Ok(_) => return Ok(Some(stop)),
                Err(StoreError::Refused { .. }) if attempts < MAX_ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Withdraws the stop request.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the session does not exist.
    #[doc(hidden)]
    pub async fn clear_interrupt_flag(&self, session: &SessionId) -> Result<(), StoreError> {
        self.change(session, Change::ClearStop).await.map(drop)
    }
}
