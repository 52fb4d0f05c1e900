//! Wakes those who wait for a root, and few others.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, OnceLock};

use crate::id::SessionId;
use crate::notify::Notify;

/// The number of groups of roots.
const GROUPS: u64 = 64;

/// One notification source for each group of roots, so that a commit does not wake the readers of
/// every other session. Each is made when it is first used.
#[derive(Debug, Clone)]
pub(super) struct Notifiers(Arc<[OnceLock<Notify>]>);

impl Default for Notifiers {
    fn default() -> Self {
        Self((0..GROUPS).map(|_| OnceLock::new()).collect())
    }
}

impl Notifiers {
    /// Returns the notification source of a root.
    pub(super) fn of(&self, root: &SessionId) -> Notify {
        let group = self.0.get(group(root));
        // There is a source for every group.
        group.map_or_else(Notify::new, |group| group.get_or_init(Notify::new).clone())
    }
}

fn group(root: &SessionId) -> usize {
    let mut hasher = DefaultHasher::new();
    root.as_str().hash(&mut hasher);
    usize::try_from(hasher.finish() % GROUPS).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn a_root_is_notified_of_its_own_group_only() {
        let notifiers = Notifiers::default();
        let roots: Vec<_> = (0..1_000)
            .map(|n| SessionId::new(format!("s-{n}")).unwrap())
            .collect();
        let own = &roots[0];
        let mut heard = pin!(notifiers.of(own).heard());
        let mut cx = Context::from_waker(Waker::noop());
        let others = roots.iter().filter(|root| group(root) != group(own));
        assert!(others.clone().count() > 900);
        others.for_each(|other| notifiers.of(other).ring());
        assert_eq!(heard.as_mut().poll(&mut cx), Poll::Pending);
        notifiers.of(own).ring();
        assert_eq!(heard.poll(&mut cx), Poll::Ready(()));
    }
}
