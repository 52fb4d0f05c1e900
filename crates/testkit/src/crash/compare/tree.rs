//! The sessions under a session.

use std::collections::BTreeSet;

use helix_agents_core::SessionId;
use helix_agents_core::session::RunStatus;
use helix_agents_core::store::Snapshot;

use super::Stored;

impl Stored {
    /// The session of this id, if it is in the tree.
    pub(in crate::crash) fn session(&self, id: &SessionId) -> Option<&Self> {
        let all = std::iter::once(self).chain(self.below());
        let is_it = |one: &&Self| {
            let session = one.session.as_ref();
            session.is_some_and(|session| session.state.session_id == *id)
        };
        all.into_iter().find(is_it)
    }

    /// The sessions under this one.
    fn below(&self) -> Vec<&Self> {
        let children = self.children.values();
        let below = children.flat_map(|child| std::iter::once(child).chain(child.below()));
        below.collect()
    }

    /// A session under this one that works, or may go on, while nobody waits for it.
    pub(in crate::crash) fn unattended(&self) -> Option<&Snapshot> {
        let sessions = self.below().into_iter();
        let mut sessions = sessions.filter_map(|below| Some((below, below.session.as_ref()?)));
        let found = sessions.find(|(stored, session)| {
            let run = session.run.as_ref().map(|run| run.status);
            let persistent = session.state.persistent.as_deref();
            match run {
                Some(RunStatus::Running) => true,
                Some(status) if status.is_suspended() => {
                    let alone = persistent.is_some_and(|child| !child.blocking);
                    let is_stopped = session.stop.is_some();
                    is_stopped || (alone && stored.unanswered(false).is_empty())
                }
                _ => persistent.is_some() && !session.inbox.is_empty(),
            }
        });
        found.map(|(_, session)| session)
    }

    /// The differences between the children and those of an undisturbed play.
    pub(super) fn differences_below(
        &self,
        wanted: &Self,
        compare: impl Fn(&Self, &Self) -> Vec<String>,
    ) -> Vec<String> {
        let calls = |stored: &Self| stored.children.keys().cloned().collect::<BTreeSet<_>>();
        let (have, want) = (calls(self), calls(wanted));
        let mut all = Vec::new();
        if have != want {
            all.push(format!("children: {have:?} instead of {want:?}"));
        }
        for (call, child) in &self.children {
            let wanted = wanted.children.get(call);
            let below = wanted
                .map(|wanted| compare(child, wanted))
                .unwrap_or_default();
            all.extend(
                below
                    .into_iter()
                    .map(|difference| format!("under {call}: {difference}")),
            );
        }
        all
    }
}
