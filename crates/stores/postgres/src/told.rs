//! What is to be told to other processes.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::listeners::Topic;

/// The most topics that wait. Others notice by polling what is told to nobody.
const MOST: usize = 10_000;

/// Topics that wait to be told, each once.
#[derive(Debug, Default)]
pub(crate) struct Told {
    waiting: Mutex<BTreeSet<Topic>>,
    begun: Notify,
}

impl Told {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<Topic>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds topics, as long as there is room.
    pub(crate) fn add(&self, topics: impl IntoIterator<Item = Topic>) {
        let mut waiting = self.lock();
        for topic in topics {
            if waiting.len() < MOST {
                waiting.insert(topic);
            }
        }
        drop(waiting);
        self.begun.notify_one();
    }

    /// Takes all of them, once there are some.
    pub(crate) async fn take(&self) -> Vec<Topic> {
        loop {
            let waiting = std::mem::take(&mut *self.lock());
            if !waiting.is_empty() {
                return waiting.into_iter().collect();
            }
            self.begun.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use helix_agents_testkit::block_on;

    use super::*;
    use crate::listeners::Subject;

    #[test]
    fn topics_that_nobody_can_be_told_take_no_more_room_than_some() {
        let told = Told::default();
        let topic = |number: usize| {
            let session = format!("s-{number}").parse().unwrap();
            Topic::new(Subject::Stream, &session)
        };
        for _ in 0..2 {
            told.add([topic(1), topic(2), topic(1)]);
        }
        assert_eq!(block_on(told.take()).len(), 2, "each is told once");
        told.add((0..3 * MOST).map(topic));
        assert_eq!(block_on(told.take()).len(), MOST);
        told.add([topic(1)]);
        assert_eq!(block_on(told.take()), [topic(1)]);
    }
}
