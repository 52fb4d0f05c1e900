//! [`LockManager`]: a hash for each key, which stays when the lock is released, so that tokens keep growing.

use std::time::Duration;

use async_trait::async_trait;
use helix_agents_core::lock::{Lock, LockManager};
use helix_agents_core::store::StoreError;
use helix_agents_core::time::Timestamp;

use crate::commit::ATTEMPTS;
use crate::failure::{Failure, Result};
use crate::keys::Shard;
use crate::reply;
use crate::script::{Reads, Transaction};
use crate::store::{RedisStore, Written};

/// A lock as it was read.
struct Found {
    /// As it is stored, to be compared; empty if it was never taken.
    stored: String,
    /// The holder, the token and the end.
    lock: Option<Lock>,
}

impl RedisStore {
    fn lock_key(&self, key: &str) -> (Shard, String) {
        let shard = self.keys().shard(key);
        (shard, self.keys().key(shard, "lock", key))
    }

    async fn find_lock(&self, key: &str) -> Result<Found> {
        let (shard, name) = self.lock_key(key);
        let mut reads = Reads::default();
        reads.fields(&name, ["v"]);
        let texts = reply::texts(self.read(shard, reads).await?.next()?)?;
        let stored = texts.into_iter().flatten().next().unwrap_or_default();
        let mut lock = None;
        if !stored.is_empty() {
            let (holder, token, until): (String, u64, Timestamp) = serde_json::from_str(&stored)
                .map_err(|error| Failure::corrupt("lock", error.to_string()))?;
            let key = key.to_owned();
            lock = Some(Lock {
                key,
                holder,
                token,
                until,
            });
        }
        Ok(Found { stored, lock })
    }

    /// Changes a lock; again if it was changed meanwhile. `None`: it is to stay as it is.
    async fn change_lock(
        &self,
        key: &str,
        change: impl Fn(Option<Lock>) -> Option<Lock>,
    ) -> Result<Option<Lock>> {
        let (shard, name) = self.lock_key(key);
        for _ in 0..ATTEMPTS {
            let Found { stored, lock } = self.find_lock(key).await?;
            let Some(lock) = change(lock) else {
                return Ok(None);
            };
            let text = serde_json::to_string(&(&lock.holder, lock.token, lock.until))
                .map_err(|error| Failure::internal(error.to_string()))?;
            let mut transaction = Transaction::new(shard);
            transaction.expect(&name, "v", &stored);
            transaction.set(&name, "v", text);
            if let Written::Done(_) = self.write(transaction).await? {
                return Ok(Some(lock));
            }
        }
        Err(Failure::busy())
    }
}

/// The lock, if it is the one that a holder has.
fn held(lock: Option<Lock>, wanted: &Lock) -> Option<Lock> {
    lock.filter(|held| held.token == wanted.token && held.until > Timestamp::default())
}

#[async_trait]
impl LockManager for RedisStore {
    async fn acquire(
        &self,
        key: &str,
        holder: &str,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Lock>, StoreError> {
        let acquired = self.change_lock(key, |before| {
            let is_taken = |lock: &Lock| lock.holder != holder && lock.until > now;
            if before.as_ref().is_some_and(is_taken) {
                return None;
            }
            Some(Lock {
                key: key.to_owned(),
                holder: holder.to_owned(),
                token: before.map_or(0, |lock| lock.token) + 1,
                until: now.saturating_add(ttl),
            })
        });
        Ok(acquired.await?)
    }

    async fn renew(
        &self,
        lock: &Lock,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Lock>, StoreError> {
        let renewed = self.change_lock(&lock.key, |before| {
            held(before, lock).map(|mut held| {
                held.until = now.saturating_add(ttl);
                held
            })
        });
        Ok(renewed.await?)
    }

    async fn release(&self, lock: &Lock) -> Result<bool, StoreError> {
        let released = self.change_lock(&lock.key, |before| {
            held(before, lock).map(|mut held| {
                held.until = Timestamp::default();
                held
            })
        });
        Ok(released.await?.is_some())
    }
}
