//! The interrupt flag: a request to stop the running run.

use super::{MAX_ATTEMPTS, Sessions};
use crate::entries::waiting_run;
use crate::id::{RunId, SessionId};
use crate::session::{
    ChildStatus, OpenStep, RunStatus, SessionStatus, StopKind, StopRequest, SubSessionRef,
};
use crate::store::{Change, Commit, Field, Precondition, SessionKey, Snapshot, StoreError};

/// How often a stop is tried on the session exactly as it was read. A run that writes all the time is stopped all the
/// same.
const MAX_EXACT: usize = 8;

fn is_in_progress(status: RunStatus) -> bool {
    !status.is_ended() || status.is_suspended()
}

/// What a stop is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stoppable {
    /// A running run.
    Running,
    /// A run in progress, or else those that still work for a session at rest.
    Work,
}

impl Stoppable {
    fn is(self, status: RunStatus) -> bool {
        match self {
            Self::Running => status == RunStatus::Running,
            Self::Work => is_in_progress(status),
        }
    }
}

/// The children that are asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Those for which the run waits.
    Awaited,
    /// Also those for which it does not wait, and what sub-agents that have ended left at work.
    All,
}

/// A child session with something to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WorkingChild {
    pub(crate) session: SessionId,
    /// Its run in progress.
    pub(crate) run: Option<RunId>,
    /// The run that the messages of its parent wait for.
    next: Option<RunId>,
    /// These messages.
    inbox: Vec<String>,
    /// What the child is without those messages, if it does not run.
    rests: Option<Rests>,
    /// Whether there is nothing more to ask it.
    is_stopped: bool,
    /// The status of its run.
    status: Option<RunStatus>,
}

/// A persistent child that has nothing to do any more.
#[derive(Debug, Clone, PartialEq)]
struct Rests {
    parent: SessionId,
    link: SubSessionRef,
    /// Whether it never ran.
    is_new: bool,
}

impl Rests {
    fn of(child: &Snapshot) -> Option<Self> {
        let run = child.run.as_ref().map(|run| run.status);
        let mut link = child.state.persistent_link()?;
        link.run_id = child.run.as_ref().map(|run| run.id.clone());
        link.status = match run {
            Some(RunStatus::Running) => return None,
            Some(RunStatus::Completed) => ChildStatus::Completed,
            Some(RunStatus::Failed) => ChildStatus::Failed,
            Some(status) if status.is_suspended() => ChildStatus::Suspended,
            _ => ChildStatus::Interrupted,
        };
        Some(Self {
            parent: child.state.parent_session_id.clone()?,
            link,
            is_new: run.is_none(),
        })
    }
}

/// Drops the messages that wait in the inbox of a persistent child.
pub(crate) fn drop_messages(commit: Commit, child: &Snapshot) -> Commit {
    let inbox: Vec<_> = child.inbox.iter().map(|row| row.id.clone()).collect();
    let session = &child.state.session_id;
    drop_rows(commit, session, &inbox, Rests::of(child).as_ref())
}

fn drop_rows(
    mut commit: Commit,
    session: &SessionId,
    inbox: &[String],
    rests: Option<&Rests>,
) -> Commit {
    if inbox.is_empty() {
        return commit;
    }
    let dropped = Change::DrainInbox(inbox.to_vec());
    commit = commit.then_in(session.clone(), dropped);
    let Some(rests) = rests else { return commit };
    if rests.is_new {
        let status = Field::Status(SessionStatus::Interrupted);
        commit = commit.then_in(session.clone(), Change::Set(status));
    }
    let noted = Change::UpdateChild(Box::new(rests.link.clone()));
    commit.then_in(rests.parent.clone(), noted)
}

impl WorkingChild {
    /// Its run in progress, or the one that its messages wait for.
    fn work(&self) -> Option<RunId> {
        self.run.clone().or_else(|| self.next.clone())
    }

    /// As [`WorkingChild::stop`], in a commit that is refused if the run is another one now.
    pub(crate) fn stop_as_read(&self, commit: Commit, kind: StopKind, reason: &str) -> Commit {
        if self.is_stopped {
            return commit;
        }
        let commit = match (&self.run, self.status) {
            (Some(run), Some(status)) => {
                let as_read = Precondition::Run(run.clone(), vec![status]);
                commit.when_in(self.session.clone(), as_read)
            }
            _ => commit,
        };
        self.stop(commit, kind, Some(&reason.to_owned()))
    }

    /// Asks its run to stop, and drops the messages that would start the next one.
    pub(crate) fn stop(
        &self,
        mut commit: Commit,
        kind: StopKind,
        reason: Option<&String>,
    ) -> Commit {
        if let Some(run) = &self.run {
            let mut stop = StopRequest::new(run.clone(), kind, commit.at);
            stop.reason = reason.cloned();
            commit = commit.then_in(self.session.clone(), Change::Stop(stop));
        }
        drop_rows(commit, &self.session, &self.inbox, self.rests.as_ref())
    }
}

/// The sessions that work on the open calls of a session.
fn awaited_by(found: &Snapshot) -> impl Iterator<Item = SessionId> {
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
        let asked = self
            .request(session, StopKind::Interrupt, reason, Stoppable::Running)
            .await?;
        Ok(asked.is_some())
    }

    /// Requests that the run in progress stop, with all that work for the session, and returns its id. If the last
    /// run has ended, those that still work for the session are asked, and the run of one of them is returned.
    /// Returns `None` if nobody works; nothing is written then. The request is durable when this returns. The
    /// process that performs a run obeys it. A suspended run is ended by whoever resumes its session next, or by a
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
        self.request(session, kind, reason, Stoppable::Work).await
    }

    /// Requests that the last run stop, with those that work for the session.
    async fn request(
        &self,
        session: &SessionId,
        kind: StopKind,
        reason: Option<String>,
        what: Stoppable,
    ) -> Result<Option<RunId>, StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let found = self.snapshot(session).await?;
            // Without a run nobody was given anything to do.
            let Some(last) = &found.run else {
                return Ok(None);
            };
            let own = what.is(last.status).then(|| last.id.clone());
            if own.is_none() && what == Stoppable::Running {
                return Ok(None);
            }
            let below = self.working_children(&found, Reach::All).await?;
            let theirs = || below.iter().find_map(WorkingChild::work);
            let Some(asked) = own.clone().or_else(theirs) else {
                return Ok(None);
            };
            let as_read = Precondition::Run(last.id.clone(), vec![last.status]);
            let now = self.clock.now();
            let root = found.state.root().clone();
            let mut commit = Commit::new(root, now).when_in(session.clone(), as_read);
            if let Some(run) = own {
                let mut stop = StopRequest::new(run, kind, now);
                stop.reason.clone_from(&reason);
                commit = commit.then_in(session.clone(), Change::Stop(stop));
            }
            for child in &below {
                commit = child.stop(commit, kind, reason.as_ref());
            }
            // Nobody works for it, and nobody begins to before it is asked: then there is nothing to look for after.
            let is_exact = below.is_empty() && attempts <= MAX_EXACT;
            if is_exact {
                let as_read = Precondition::Version(found.state.version);
                commit = commit.when_in(session.clone(), as_read);
            }
            match self.store.commit(commit).await {
                Ok(_) => {
                    // A stopped run gives nobody anything to do. What it gave since the tree was read is seen now.
                    if !is_exact {
                        let key = found.state.key();
                        self.stop_children(key, kind, reason, Reach::All).await?;
                    }
                    return Ok(Some(asked));
                }
                // The run ended, or another began, just now: read again.
                Err(StoreError::Refused { .. }) if attempts < MAX_ATTEMPTS => {}
                // A child was deleted just now.
                Err(StoreError::NotFound { session: gone })
                    if gone != *session && attempts < MAX_ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Requests that the runs stop that work for this one, at any depth, as far as nobody has.
    ///
    /// # Errors
    /// When the store cannot be reached.
    pub(crate) async fn stop_children(
        &self,
        session: SessionKey<'_>,
        kind: StopKind,
        reason: Option<String>,
        reach: Reach,
    ) -> Result<(), StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let Some(found) = self.store.load(session).await? else {
                return Ok(());
            };
            let below = self.working_children(&found, reach).await?;
            let fresh: Vec<_> = below
                .into_iter()
                .filter(|child| !child.is_stopped)
                .collect();
            if fresh.is_empty() || attempts > MAX_ATTEMPTS {
                return Ok(());
            }
            let now = self.clock.now();
            let mut commit = Commit::new(found.state.root().clone(), now);
            for child in fresh {
                commit = child.stop(commit, kind, reason.as_ref());
            }
            match self.store.commit(commit).await {
                // One of them was deleted meanwhile.
                Ok(_) | Err(StoreError::Refused { .. } | StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The children with something to do for a session, and theirs, at any depth.
    pub(crate) async fn working_children(
        &self,
        found: &Snapshot,
        reach: Reach,
    ) -> Result<Vec<WorkingChild>, StoreError> {
        let open = self.children_of(found, reach).await?;
        self.working_from(found.state.root(), open, reach).await
    }

    /// Those of these children with something to do, and theirs, at any depth.
    pub(crate) async fn working_from(
        &self,
        root: &SessionId,
        mut open: Vec<SessionId>,
        reach: Reach,
    ) -> Result<Vec<WorkingChild>, StoreError> {
        let mut all: Vec<WorkingChild> = Vec::new();
        while let Some(session) = open.pop() {
            let key = SessionKey::new(root, &session);
            if all.iter().any(|known| known.session == session) {
                continue;
            }
            let Some(child) = self.store.load(key).await? else {
                continue;
            };
            let run = child.run.as_ref().filter(|run| is_in_progress(run.status));
            let waits = child.state.persistent.is_some() && !child.inbox.is_empty();
            if run.is_some() || waits {
                let stop = child.stop.as_ref().map(|stop| &stop.run_id);
                all.push(WorkingChild {
                    session,
                    is_stopped: !waits && stop == run.map(|run| &run.id),
                    run: run.map(|run| run.id.clone()),
                    status: run.map(|run| run.status),
                    rests: Rests::of(&child),
                    next: waiting_run(&child.inbox).cloned(),
                    inbox: child.inbox.iter().map(|row| row.id.clone()).collect(),
                });
            }
            // Who works for a child that rests is not its business any more, unless all are asked.
            if run.is_some() || reach == Reach::All {
                open.extend(self.children_of(&child, reach).await?);
            }
        }
        Ok(all)
    }

    async fn children_of(
        &self,
        found: &Snapshot,
        reach: Reach,
    ) -> Result<Vec<SessionId>, StoreError> {
        let mut all: Vec<SessionId> = awaited_by(found).collect();
        if reach == Reach::All {
            // What a sub-agent has started may go on after its end.
            let family = self.store.extras(found.state.key()).await?;
            let children = family.children.into_iter();
            all.extend(children.map(|child| child.session_id));
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
