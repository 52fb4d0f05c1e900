//! Reads that are made once for all callers that ask for them at the same time.
//!
//! A chunk wakes all readers of its stream, and each asks for the same read. A caller that asks while that
//! read waits to begin shares its result; after it has begun, the next caller starts another. So no caller
//! gets a result that is older than its request.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use crate::oneshot::{self, ResultFuture, ResultSender};
use crate::operation_error::OperationError;

type Waiting<K, T> = Arc<Mutex<HashMap<K, Vec<ResultSender<Option<T>>>>>>;

/// Reads of one kind that have not begun, by their key, with the callers that wait for each.
pub(crate) struct SharedReads<K, T>(Waiting<K, T>);

impl<K, T> Default for SharedReads<K, T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K, T> fmt::Debug for SharedReads<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = lock(&self.0).len();
        f.debug_tuple("SharedReads").field(&waiting).finish()
    }
}

/// The part that a caller takes in a shared read.
pub(crate) enum Turn<K: Eq + Hash, T> {
    /// Reads, also for the callers that wait.
    Lead(Leading<K, T>),
    /// Waits for the read of another caller; `None` if that failed, and the caller must ask again.
    Follow(ResultFuture<Option<T>>),
}

impl<K: Clone + Eq + Hash, T> SharedReads<K, T> {
    pub(crate) fn ask(&self, key: &K) -> Turn<K, T> {
        let mut waiting = lock(&self.0);
        match waiting.entry(key.clone()) {
            Entry::Occupied(mut entry) => {
                let (promise, answer) = oneshot::channel();
                entry.get_mut().push(promise);
                Turn::Follow(answer)
            }
            Entry::Vacant(entry) => {
                entry.insert(Vec::new());
                Turn::Lead(Leading {
                    waiting: Arc::clone(&self.0),
                    key: key.clone(),
                    has_begun: AtomicBool::new(false),
                })
            }
        }
    }
}

/// The duty to make a read. If it is dropped before the read, the waiting callers ask again.
pub(crate) struct Leading<K: Eq + Hash, T> {
    waiting: Waiting<K, T>,
    key: K,
    /// Whether the read has begun; another caller may lead a new read of the same key then.
    has_begun: AtomicBool,
}

impl<K: Eq + Hash, T> Leading<K, T> {
    /// A read that is made for all callers that have asked for it when it begins.
    pub(crate) fn sharing(
        self,
        read: impl Fn(&Connection) -> Result<T, OperationError>,
    ) -> impl Fn(&Connection) -> Result<T, OperationError>
    where
        T: Clone,
    {
        move |conn| {
            let mut followers = self.begin();
            let found = read(conn)?;
            for promise in followers.0.drain(..) {
                promise.send(Ok(Some(found.clone())));
            }
            Ok(found)
        }
    }

    /// Begins the read, which later callers cannot join.
    fn begin(&self) -> Followers<T> {
        if self.has_begun.swap(true, Ordering::Relaxed) {
            return Followers(Vec::new());
        }
        let joined = lock(&self.waiting).remove(&self.key);
        Followers(joined.unwrap_or_default())
    }
}

impl<K: Eq + Hash, T> Drop for Leading<K, T> {
    fn drop(&mut self) {
        drop(self.begin());
    }
}

/// The callers that wait for a read. Its error goes to the caller that leads; the others ask again.
struct Followers<T>(Vec<ResultSender<Option<T>>>);

impl<T> Drop for Followers<T> {
    fn drop(&mut self) {
        for promise in self.0.drain(..) {
            promise.send(Ok(None));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
