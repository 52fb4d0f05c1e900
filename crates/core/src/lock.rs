//! Locks: an optional port, for programs that coordinate executors by hand.
//!
//! Correctness does not depend on them: commits carry a fence. With a lock, two executors need not
//! wait for their first commit to find out which of them may continue.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::store::StoreError;
use crate::time::Timestamp;

/// A lock that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// The key that is locked.
    pub key: String,
    /// The holder of the lock.
    pub holder: String,
    /// A number that grows with every acquisition of this key: a later holder has a larger one.
    pub token: u64,
    /// The instant at which the lock lapses.
    pub until: Timestamp,
}

/// One holder per key, across processes, until the lock lapses.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait LockManager: Send + Sync + fmt::Debug {
    /// Acquires the lock unless another holder's lock is valid at `now`. The holder itself may
    /// acquire it again and gets a new token.
    async fn acquire(
        &self,
        key: &str,
        holder: &str,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Lock>, StoreError>;

    /// Extends the lock. Returns `None` if it was released, or another holder acquired it.
    async fn renew(
        &self,
        lock: &Lock,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Lock>, StoreError>;

    /// Releases the lock. Returns false if it was lost before.
    async fn release(&self, lock: &Lock) -> Result<bool, StoreError>;
}

/// A lock manager that locks nothing: every caller gets every lock.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoOpLockManager;

#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
impl LockManager for NoOpLockManager {
    async fn acquire(
        &self,
        key: &str,
        holder: &str,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Lock>, StoreError> {
        Ok(Some(Lock {
            key: key.to_owned(),
            holder: holder.to_owned(),
            token: 0,
            until: now.saturating_add(ttl),
        }))
    }

    async fn renew(
        &self,
        lock: &Lock,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Lock>, StoreError> {
        let until = now.saturating_add(ttl);
        Ok(Some(Lock {
            until,
            ..lock.clone()
        }))
    }

    async fn release(&self, _lock: &Lock) -> Result<bool, StoreError> {
        Ok(true)
    }
}

/// The lapse time of a released lock.
const RELEASED: Timestamp = Timestamp::from_millis(0);

/// Locks within one process.
#[derive(Debug, Default)]
pub struct InMemoryLockManager {
    locks: Mutex<HashMap<String, Lock>>,
}

impl InMemoryLockManager {
    /// Creates a manager without locks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Lock>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
impl LockManager for InMemoryLockManager {
    async fn acquire(
        &self,
        key: &str,
        holder: &str,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Lock>, StoreError> {
        let mut locks = self.lock();
        let before = locks.get(key);
        if before.is_some_and(|lock| lock.holder != holder && lock.until > now) {
            return Ok(None);
        }
        let token = before.map_or(0, |lock| lock.token) + 1;
        let lock = Lock {
            key: key.to_owned(),
            holder: holder.to_owned(),
            token,
            until: now.saturating_add(ttl),
        };
        locks.insert(key.to_owned(), lock.clone());
        Ok(Some(lock))
    }

    async fn renew(
        &self,
        lock: &Lock,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Lock>, StoreError> {
        let mut locks = self.lock();
        let held = locks
            .get_mut(&lock.key)
            .filter(|held| held.token == lock.token && held.until != RELEASED);
        Ok(held.map(|held| {
            held.until = now.saturating_add(ttl);
            held.clone()
        }))
    }

    async fn release(&self, lock: &Lock) -> Result<bool, StoreError> {
        let mut locks = self.lock();
        let Some(held) = locks.get_mut(&lock.key) else {
            return Ok(false);
        };
        if held.token != lock.token || held.until == RELEASED {
            return Ok(false);
        }
        // The entry stays, so that its token keeps growing.
        held.until = RELEASED;
        Ok(true)
    }
}
