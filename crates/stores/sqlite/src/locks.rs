//! [`LockManager`]: the table `lock`.

use std::time::Duration;

use async_trait::async_trait;
use helix_agents_core::lock::{Lock, LockManager};
use helix_agents_core::store::StoreError;
use helix_agents_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::key::{millis, signed, time, unsigned};
use crate::operation_error::OperationError;
use crate::process;
use crate::store::SqliteStore;
use crate::write_connection::WriteConnection;

#[async_trait]
impl LockManager for SqliteStore {
    async fn acquire(
        &self,
        key: &str,
        holder: &str,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Lock>, StoreError> {
        let (key, holder) = (key.to_owned(), holder.to_owned());
        let work = move |db: &WriteConnection, _| acquire(&db.conn, &key, &holder, now, ttl);
        Ok(self.write(None, Vec::new(), work).await?)
    }

    async fn renew(
        &self,
        lock: &Lock,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Lock>, StoreError> {
        let lock = lock.clone();
        let work = move |db: &WriteConnection, _| renew(&db.conn, &lock, now, ttl);
        Ok(self.write(None, Vec::new(), work).await?)
    }

    async fn release(&self, lock: &Lock) -> Result<bool, StoreError> {
        let lock = lock.clone();
        let work = move |db: &WriteConnection, _| release(&db.conn, &lock);
        Ok(self.write(None, Vec::new(), work).await?)
    }
}

fn find(conn: &Connection, key: &str) -> Result<Option<Lock>, OperationError> {
    let lock = conn
        .prepare_cached("SELECT holder, token, until FROM lock WHERE key = ?")?
        .query_row([key], |row| {
            let (holder, token, until): (String, i64, i64) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(Lock {
                key: key.to_owned(),
                holder,
                token: unsigned(token),
                until: time(until),
            })
        })
        .optional()?;
    Ok(lock)
}

fn save(conn: &Connection, lock: &Lock) -> Result<(), OperationError> {
    conn.prepare_cached(
        "INSERT OR REPLACE INTO lock (key, holder, token, until) VALUES (?, ?, ?, ?)",
    )?
    .execute(params![
        lock.key,
        lock.holder,
        signed(lock.token),
        millis(lock.until)
    ])?;
    Ok(())
}

/// The lock as it is stored; `None` if it was taken by another holder or released.
fn held(conn: &Connection, lock: &Lock) -> Result<Option<Lock>, OperationError> {
    let found = find(conn, &lock.key)?;
    Ok(found.filter(|held| held.token == lock.token && held.until > Timestamp::default()))
}

/// Takes a lock unless another holder's is valid. A lock of a process that has ended is not.
fn acquire(
    conn: &Connection,
    key: &str,
    holder: &str,
    now: Timestamp,
    ttl: Duration,
) -> Result<Option<Lock>, OperationError> {
    let before = find(conn, key)?;
    let is_taken =
        |lock: &Lock| lock.holder != holder && lock.until > now && !process::is_dead(&lock.holder);
    if before.as_ref().is_some_and(is_taken) {
        return Ok(None);
    }
    let token = before.map_or(0, |lock| lock.token) + 1;
    let lock = Lock {
        key: key.to_owned(),
        holder: holder.to_owned(),
        token,
        until: now.saturating_add(ttl),
    };
    save(conn, &lock)?;
    Ok(Some(lock))
}

/// Prolongs a lock that is still held.
fn renew(
    conn: &Connection,
    lock: &Lock,
    now: Timestamp,
    ttl: Duration,
) -> Result<Option<Lock>, OperationError> {
    let Some(mut held) = held(conn, lock)? else {
        return Ok(None);
    };
    held.until = now.saturating_add(ttl);
    save(conn, &held)?;
    Ok(Some(held))
}

/// Releases a lock that is still held. The row stays, so that tokens keep growing.
fn release(conn: &Connection, lock: &Lock) -> Result<bool, OperationError> {
    let Some(mut held) = held(conn, lock)? else {
        return Ok(false);
    };
    held.until = Timestamp::default();
    save(conn, &held)?;
    Ok(true)
}
