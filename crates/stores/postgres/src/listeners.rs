//! Wakes the tasks of this process that wait for a session to change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use helix_agents_core::SessionId;
use helix_agents_core::notify::{Heard, Notify};

/// What somebody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    /// The stream of a root.
    Stream,
    /// Stops and the deletion of a session.
    Stops,
}

/// A 64-bit hash of a session id and of what is told about it. Two may rarely be equal: a listener of either is then
/// woken by changes of both, and looks in vain.
///
/// Other processes compare it with theirs, so its computation never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Topic(u64);

impl Topic {
    pub(crate) fn new(subject: Subject, session: &SessionId) -> Self {
        let subject = match subject {
            Subject::Stream => 0,
            Subject::Stops => 1,
        };
        // Mixed in a round of its own: it cannot make up for a difference of the first bytes of two ids.
        let seed = hash(0, &[subject]);
        Self(hash(seed, session.as_str().as_bytes()))
    }

    /// The topics of a notification.
    pub(crate) fn parse(payload: &str) -> impl Iterator<Item = Self> + '_ {
        let words = payload.split(' ');
        words.filter_map(|word| u64::from_str_radix(word, 16).ok().map(Self))
    }
}

impl std::fmt::Display for Topic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// FNV-1a.
pub(crate) fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325 ^ seed, mix)
}

/// The listeners of every session that has some. A session without listeners costs nothing.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    /// By topic, which several may have.
    topics: Mutex<HashMap<Topic, Vec<Waiting>>>,
    /// Told when there is somebody who listens.
    begun: tokio::sync::Notify,
}

/// Those who wait for one thing.
#[derive(Debug)]
struct Waiting {
    subject: Subject,
    session: SessionId,
    notify: Notify,
    count: usize,
}

impl Waiting {
    fn is_of(&self, subject: Subject, session: &SessionId) -> bool {
        self.subject == subject && self.session == *session
    }
}

impl Listeners {
    fn lock(&self) -> MutexGuard<'_, HashMap<Topic, Vec<Waiting>>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a listener. It is removed when the result is dropped.
    pub(crate) fn listen(self: &Arc<Self>, subject: Subject, session: &SessionId) -> Listener {
        let topic = Topic::new(subject, session);
        let mut topics = self.lock();
        let of_topic = topics.entry(topic).or_default();
        let known = of_topic.iter_mut().find(|one| one.is_of(subject, session));
        let notify = match known {
            Some(waiting) => {
                waiting.count += 1;
                waiting.notify.clone()
            }
            None => {
                let notify = Notify::new();
                of_topic.push(Waiting {
                    subject,
                    session: session.clone(),
                    notify: notify.clone(),
                    count: 1,
                });
                notify
            }
        };
        drop(topics);
        self.begun.notify_one();
        Listener {
            listeners: Arc::clone(self),
            topic,
            subject,
            session: session.clone(),
            notify,
        }
    }

    /// Wakes the listeners of these topics.
    pub(crate) fn ring(&self, topics: impl IntoIterator<Item = Topic>) {
        let known = self.lock();
        let waiting = topics.into_iter().filter_map(|topic| known.get(&topic));
        let woken: Vec<Notify> = waiting.flatten().map(|one| one.notify.clone()).collect();
        drop(known);
        woken.iter().for_each(Notify::ring);
    }

    /// Wakes every listener.
    pub(crate) fn ring_all(&self) {
        let known = self.lock();
        let woken: Vec<Notify> = known
            .values()
            .flatten()
            .map(|one| one.notify.clone())
            .collect();
        drop(known);
        woken.iter().for_each(Notify::ring);
    }

    /// What is listened to.
    pub(crate) fn topics(&self) -> Vec<(Topic, Subject, SessionId)> {
        let known = self.lock();
        let all = known.iter().flat_map(|(topic, of_topic)| {
            let all = of_topic.iter();
            all.map(|one| (*topic, one.subject, one.session.clone()))
        });
        all.collect()
    }

    /// Waits until there is a listener.
    pub(crate) async fn wait_for_any(&self) {
        loop {
            let begun = self.begun.notified();
            if !self.lock().is_empty() {
                // Others wait for it, too.
                self.begun.notify_one();
                return;
            }
            begun.await;
        }
    }
}

/// A listener for one topic.
#[derive(Debug)]
pub(crate) struct Listener {
    listeners: Arc<Listeners>,
    topic: Topic,
    subject: Subject,
    session: SessionId,
    notify: Notify,
}

impl Listener {
    /// Resolves at the first change after this call. Call it before reading, and await it after: a change in between
    /// is not missed.
    pub(crate) fn changed(&self) -> Heard {
        self.notify.heard()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut topics = self.listeners.lock();
        if let Some(of_topic) = topics.get_mut(&self.topic) {
            for waiting in of_topic.iter_mut() {
                if waiting.is_of(self.subject, &self.session) {
                    waiting.count -= 1;
                }
            }
            of_topic.retain(|waiting| waiting.count > 0);
            if of_topic.is_empty() {
                topics.remove(&self.topic);
            }
        }
    }
}
