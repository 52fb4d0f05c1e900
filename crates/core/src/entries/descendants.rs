//! The suspended sessions under a suspended session, which continue with it.

use std::collections::BTreeSet;

use super::{Entries, EntryError};
use crate::id::{CallId, IdSourceExt, RunId, SessionId};
use crate::session::{ChildMode, OpenStep, RunStatus, StopKind};
use crate::store::{Commit, Reach, SessionKey, Sessions, Snapshot, WorkingChild};

/// A child for which a suspended run waits.
#[derive(Debug, Clone)]
pub(crate) struct AwaitedChild {
    /// The place of the call in its step.
    pub(super) index: u32,
    /// The child as it was read; `None` when it is gone.
    pub(super) found: Option<Snapshot>,
    /// The id of the run that would continue it.
    pub(super) run_id: RunId,
    /// The children for which it waits itself.
    pub(super) children: Vec<AwaitedChild>,
}

impl AwaitedChild {
    /// The child, while its run is suspended.
    pub(super) fn suspended(&self) -> Option<&Snapshot> {
        let found = self.found.as_ref()?;
        let run = found.run.as_ref()?;
        run.status.is_suspended().then_some(found)
    }
}

impl AwaitedChild {
    fn is(&self, session: &SessionId) -> bool {
        let found = self.found.as_ref();
        found.is_some_and(|found| found.state.session_id == *session)
    }

    /// The child, while its run is running.
    pub(super) fn running(&self) -> Option<&Snapshot> {
        let found = self.found.as_ref()?;
        let run = found.run.as_ref()?;
        (run.status == RunStatus::Running).then_some(found)
    }
}

/// Whether a call of the open step has a child.
pub(super) fn has_children(found: &Snapshot) -> bool {
    let step = found.open_step.as_ref();
    step.is_some_and(|step| step.calls.iter().any(|call| call.child.is_some()))
}

impl Entries {
    /// Reads the children for which a run waits, and those for which they wait.
    pub(super) async fn awaited_children(
        &self,
        found: &Snapshot,
    ) -> Result<Vec<AwaitedChild>, EntryError> {
        let run = found.run.as_ref();
        let is_open = |status: RunStatus| status.is_suspended() || status == RunStatus::Running;
        if !run.is_some_and(|run| is_open(run.status)) {
            return Ok(Vec::new());
        }
        let mut all = Vec::new();
        let calls = found.open_step.iter().flat_map(OpenStep::calls);
        for (index, (_, call)) in (0u32..).zip(calls) {
            let child = call.child.as_deref().filter(|_| call.result.is_none());
            let Some(child) = child else { continue };
            let key = SessionKey::new(found.state.root(), &child.session_id);
            let is_known = all
                .iter()
                .any(|one: &AwaitedChild| one.is(&child.session_id));
            // Several calls may wait for one child, which is continued once.
            let mut read = match is_known {
                true => None,
                false => self.store.load(key).await?,
            };
            if let Some(read) = &mut read {
                // The root keeps what the tree has used.
                read.budget.clone_from(&found.budget);
            }
            let children = match &read {
                Some(found) => Box::pin(self.awaited_children(found)).await?,
                None => Vec::new(),
            };
            all.push(AwaitedChild {
                index,
                found: read,
                run_id: self.ids.run_id()?,
                children,
            });
        }
        Ok(all)
    }

    /// The children that were started by these calls, and persistent ones that work on a message that one of them sent;
    /// and all sessions that work for such a child.
    pub(super) async fn working_for(
        &self,
        found: &Snapshot,
        calls: &[CallId],
    ) -> Result<Vec<WorkingChild>, EntryError> {
        let open = found.open_step.iter().flat_map(OpenStep::calls);
        let calls: BTreeSet<&CallId> = calls.iter().chain(open.map(|(call, _)| &call.id)).collect();
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        let mut left = Vec::new();
        for child in self.store.extras(found.state.key()).await?.children {
            if child.mode != ChildMode::Persistent {
                // It may have ended, and what it started goes on.
                if calls.contains(&child.tool_call_id) {
                    left.push(child.session_id);
                }
                continue;
            }
            let key = SessionKey::new(found.state.root(), &child.session_id);
            let read = self.store.load(key).await?;
            let run = read.as_ref().and_then(|read| read.run.as_ref());
            let works_on = run.and_then(|run| run.parent_call.as_ref());
            let rows = read.iter().flat_map(|read| &read.inbox);
            let mut waits_for = rows.filter_map(|row| row.parent_call.as_ref());
            if calls.contains(&child.tool_call_id)
                || works_on.is_some_and(|call| calls.contains(call))
                || waits_for.any(|call| calls.contains(call))
            {
                left.push(child.session_id);
            }
        }
        let sessions = Sessions::new(self.store.as_ref(), self.clock.as_ref());
        let root = found.state.root();
        Ok(sessions.working_from(root, left, Reach::All).await?)
    }
}

/// The reason of a stop of children whose calls are taken back.
pub(crate) const TAKEN_BACK: &str = "the call that gave it something to do was taken back";

/// Asks the children to stop whose calls are taken back.
pub(super) fn stop_working(mut commit: Commit, left: &[WorkingChild]) -> Commit {
    let why = TAKEN_BACK.to_owned();
    for child in left {
        commit = child.stop(commit, StopKind::Interrupt, Some(&why));
    }
    commit
}
