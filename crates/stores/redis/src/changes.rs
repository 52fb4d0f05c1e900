//! Wakes those who wait for a change: at once within this process, through published messages across processes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use helix_agents_core::SessionId;
use helix_agents_core::notify::{Heard, Notify};
use redis::RedisResult;

use crate::store::{Inner, RedisStore};

/// How often those who wait look by themselves while no messages arrive from the server.
const POLLING: Duration = Duration::from_millis(100);
/// How often they look while messages arrive.
const LOOKING: Duration = Duration::from_millis(700);
/// How often the connection that listens is tried.
const PULSE: Duration = Duration::from_secs(2);
/// How long to wait before it is made again.
const PAUSE: Duration = Duration::from_millis(200);

/// What somebody waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// The stream of a root.
    Stream(SessionId),
    /// A request to stop a session, or its deletion.
    Stop(SessionId),
}

impl Topic {
    /// The message that is published.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Stream(root) => format!("s{root}"),
            Self::Stop(session) => format!("x{session}"),
        }
    }

    fn of(message: &str) -> Option<Self> {
        let (kind, id) = message.split_at_checked(1)?;
        let id = SessionId::new(id).ok()?;
        match kind {
            "s" => Some(Self::Stream(id)),
            "x" => Some(Self::Stop(id)),
            _ => None,
        }
    }
}

/// Those who wait, by what they wait for.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    waiting: Mutex<HashMap<Topic, (Notify, usize)>>,
    /// Whether a task listens to the server, or is about to.
    is_started: AtomicBool,
    /// Whether messages arrive.
    hears: AtomicBool,
}

impl Changes {
    fn with<T>(&self, work: impl FnOnce(&mut HashMap<Topic, (Notify, usize)>) -> T) -> T {
        work(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Wakes those who wait for something.
    pub(crate) fn ring(&self, topic: &Topic) {
        let notify = self.with(|waiting| waiting.get(topic).map(|(notify, _)| notify.clone()));
        if let Some(notify) = notify {
            notify.ring();
        }
    }

    fn ring_all(&self) {
        let all: Vec<_> =
            self.with(|waiting| waiting.values().map(|(notify, _)| notify.clone()).collect());
        all.iter().for_each(Notify::ring);
    }

    /// How long to wait before looking again.
    fn patience(&self) -> Duration {
        match self.hears.load(Ordering::Acquire) {
            true => LOOKING,
            false => POLLING,
        }
    }
}

/// Somebody who waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    store: RedisStore,
    topic: Topic,
    notify: Notify,
}

impl Waiting {
    /// Begins to hear changes. Look afterwards, then pause: changes during the look are not missed.
    pub(crate) fn hear(&self) -> Heard {
        self.notify.heard()
    }

    /// Waits for a change, or until it is time to look again all the same.
    pub(crate) async fn pause(&self, heard: Heard) {
        self.store.listen();
        let patience = self.store.inner.changes.patience();
        let _ = tokio::time::timeout(patience, heard).await;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.store.inner.changes.with(|waiting| {
            if let Entry::Occupied(mut entry) = waiting.entry(self.topic.clone()) {
                entry.get_mut().1 -= 1;
                if entry.get().1 == 0 {
                    entry.remove();
                }
            }
        });
    }
}

impl RedisStore {
    /// Begins to wait for something.
    pub(crate) fn wait_for(&self, topic: Topic) -> Waiting {
        let notify = self.inner.changes.with(|waiting| {
            let (notify, count) = waiting.entry(topic.clone()).or_default();
            *count += 1;
            notify.clone()
        });
        Waiting {
            store: self.clone(),
            topic,
            notify,
        }
    }

    /// Listens to the server from the first time that somebody waits.
    fn listen(&self) {
        let changes = &self.inner.changes;
        if changes.is_started.swap(true, Ordering::AcqRel) {
            return;
        }
        let store = Arc::downgrade(&self.inner);
        tokio::spawn(async move {
            // Where this task is dropped, the next who waits starts another.
            let _stopped = Stopped(Weak::clone(&store));
            let mut attempt = 0;
            loop {
                let Some(inner) = store.upgrade() else {
                    return;
                };
                if let Err(error) = hear(&inner, attempt).await {
                    tracing::debug!(event = "store.not_listening", %error);
                }
                inner.changes.hears.store(false, Ordering::Release);
                inner.changes.ring_all();
                drop(inner);
                attempt += 1;
                tokio::time::sleep(PAUSE).await;
            }
        });
    }
}

/// Notes that nobody listens any more.
struct Stopped(Weak<Inner>);

impl Drop for Stopped {
    fn drop(&mut self) {
        if let Some(inner) = self.0.upgrade() {
            inner.changes.hears.store(false, Ordering::Release);
            inner.changes.is_started.store(false, Ordering::Release);
        }
    }
}

/// Passes on what the server publishes, until the connection is lost or nobody else has the store.
async fn hear(inner: &Arc<Inner>, attempt: usize) -> RedisResult<()> {
    let Some(link) = inner.nodes.any(attempt) else {
        return Ok(());
    };
    let mut subscription = link.listen().await?;
    subscription.subscribe(inner.keys.channel()).await?;
    inner.changes.hears.store(true, Ordering::Release);
    // What was published before is seen by a look.
    inner.changes.ring_all();
    let (mut questions, mut messages) = subscription.split();
    loop {
        match tokio::time::timeout(PULSE, messages.next()).await {
            Ok(Some(message)) => {
                let text = std::str::from_utf8(message.get_payload_bytes());
                if let Some(topic) = text.ok().and_then(Topic::of) {
                    inner.changes.ring(&topic);
                }
                if Arc::strong_count(inner) == 1 {
                    return Ok(());
                }
            }
            Ok(None) => return Ok(()),
            Err(_) if Arc::strong_count(inner) == 1 => return Ok(()),
            Err(_) => {
                let pulse = questions.ping::<redis::Value>();
                let answer = tokio::time::timeout(PULSE, pulse).await;
                let Ok(answer) = answer else { return Ok(()) };
                answer?;
            }
        }
    }
}
