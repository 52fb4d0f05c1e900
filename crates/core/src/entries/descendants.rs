//! The suspended sessions under a suspended session, which continue with it.

use super::{Entries, EntryError};
use crate::id::{IdSourceExt, RunId};
use crate::session::{OpenStep, RunStatus};
use crate::store::{SessionKey, Snapshot};

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
            let mut read = self.store.load(key).await?;
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
}
