//! Lets the writers of a root come one after another within a process, so that each knows what the one before wrote.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use helix_agents_core::SessionId;
use tokio::sync::{Mutex as Queue, OwnedMutexGuard};

/// The queues of the roots that are written now.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<HashMap<SessionId, Weak<Queue<()>>>>);

/// The right to write to a root. The next writer follows when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    root: SessionId,
    /// `None` only while it is dropped.
    held: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Weak<Queue<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other writer of this process writes to the root.
    pub(crate) async fn of(&self, root: &SessionId) -> Turn<'_> {
        let queue = {
            let mut queues = self.lock();
            match queues.get(root).and_then(Weak::upgrade) {
                Some(queue) => queue,
                None => {
                    let queue = Arc::new(Queue::new(()));
                    queues.insert(root.clone(), Arc::downgrade(&queue));
                    queue
                }
            }
        };
        Turn {
            turns: self,
            root: root.clone(),
            held: Some(queue.lock_owned().await),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        drop(self.held.take());
        let mut queues = self.turns.lock();
        if queues
            .get(&self.root)
            .is_some_and(|queue| queue.strong_count() == 0)
        {
            queues.remove(&self.root);
        }
    }
}
