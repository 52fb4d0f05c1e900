//! Locks: an optional power, for those who coordinate executors by hand.
//!
//! Correctness does not depend on them: commits carry a fence. A lock spares two executors the work
//! of finding that out at their first commit.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::store::StoreError;
use crate::time::Timestamp;

/// A lock that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lock {
    /// What is locked.
    pub key: String,
    /// Who holds it.
    pub holder: String,
    /// Grows with every acquisition of this key: a later holder has a larger one.
    pub token: u64,
    /// Until when.
    pub until: Timestamp,
}

impl Lock {
    /// A lock.
    #[must_use]
    pub fn new(
        key: impl Into<String>,
        holder: impl Into<String>,
        token: u64,
        until: Timestamp,
    ) -> Self {
        Self {
            key: key.into(),
            holder: holder.into(),
            token,
            until,
        }
    }
}

/// One holder per key, across processes, until the lock lapses.
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
pub trait LockManager: Send + Sync + fmt::Debug {
    /// Takes the lock if nobody else's is valid at `now`. The holder itself may take it again: it
    /// gets a new token.
    async fn acquire(
        &self,
        key: &str,
        holder: &str,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Lock>, StoreError>;

    /// Holds on to it. `None` when it was given up, or somebody took it.
    async fn renew(
        &self,
        lock: &Lock,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Lock>, StoreError>;

    /// Gives it up. False when it was lost before.
    async fn release(&self, lock: &Lock) -> Result<bool, StoreError>;
}

/// Locks nothing: everybody gets every lock.
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
        Ok(Some(Lock::new(key, holder, 0, now.saturating_add(ttl))))
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

/// Until when a lock is held that was given up.
const RELEASED: Timestamp = Timestamp::from_millis(0);

/// Locks within one process.
#[derive(Debug, Default)]
pub struct InMemoryLockManager {
    locks: Mutex<HashMap<String, Lock>>,
}

impl InMemoryLockManager {
    /// No locks yet.
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
        let lock = Lock::new(key, holder, token, now.saturating_add(ttl));
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
        // The entry stays: its token must go on growing.
        held.until = RELEASED;
        Ok(true)
    }
}
