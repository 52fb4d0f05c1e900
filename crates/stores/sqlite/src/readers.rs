//! Connections that read, beside the one that writes.

use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::config::SqliteConfig;
use crate::connection;
use crate::error::Result;
use crate::fail::Fail;

/// Readers are held for this long at most: a read that takes longer delays no other.
const PATIENCE: Duration = Duration::from_secs(1);

/// A few connections. A read borrows one for as long as it takes, and no longer: no read waits for
/// anything while it holds one, so that all reads come to their turn.
#[derive(Debug)]
pub(crate) struct Readers {
    pool: Mutex<Pool>,
    /// How many connections there are.
    all: usize,
    /// How long readers are held.
    patience: Duration,
    /// Told when a connection comes back, and when readers are held no longer.
    changed: Condvar,
}

#[derive(Debug)]
struct Pool {
    idle: Vec<Connection>,
    /// Until when no read begins.
    held: Option<Instant>,
    /// How many wait for the last read to end.
    awaiting: usize,
}

impl Readers {
    pub(crate) fn open(path: &Path, config: &SqliteConfig) -> Result<Self> {
        Self::patient(path, config, PATIENCE)
    }

    pub(crate) fn patient(path: &Path, config: &SqliteConfig, patience: Duration) -> Result<Self> {
        let idle = (0..config.readers).map(|_| connection::reader(path, config));
        let idle: Vec<_> = idle.collect::<Result<_>>()?;
        Ok(Self {
            all: idle.len(),
            pool: Mutex::new(Pool {
                idle,
                held: None,
                awaiting: 0,
            }),
            patience,
            changed: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads as of one instant.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> std::result::Result<T, Fail>,
    ) -> std::result::Result<T, Fail> {
        let borrowed = self.borrow();
        match &borrowed.connection {
            Some(connection) => as_of_one_instant(connection, read),
            None => Err(Fail::internal("there is no connection to read with")),
        }
    }

    /// A connection, as soon as there is one and readers are not held.
    fn borrow(&self) -> Borrowed<'_> {
        let mut pool = self.lock();
        loop {
            let left = pool
                .held
                .map(|until| until.saturating_duration_since(Instant::now()));
            pool = match left {
                Some(Duration::ZERO) => {
                    pool.held = None;
                    continue;
                }
                Some(left) => {
                    let waited = self.changed.wait_timeout(pool, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None if pool.idle.is_empty() => self
                    .changed
                    .wait(pool)
                    .unwrap_or_else(PoisonError::into_inner),
                None => break,
            };
        }
        Borrowed {
            readers: self,
            connection: pool.idle.pop(),
        }
    }

    /// Lets no read begin for a moment, which is not prolonged. Those under way go on.
    pub(crate) fn hold(&self) {
        let mut pool = self.lock();
        let now = Instant::now();
        if pool.held.is_none_or(|until| until <= now) {
            pool.held = Some(now + self.patience);
        }
    }

    /// Lets reads begin again.
    pub(crate) fn release(&self) {
        self.lock().held = None;
        self.changed.notify_all();
    }

    /// Waits until none is under way, for as long as readers are held.
    pub(crate) fn await_last(&self) {
        let mut pool = self.lock();
        pool.awaiting += 1;
        while let Some(until) = pool.held
            && pool.idle.len() < self.all
        {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(pool, left);
            pool = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        pool.awaiting -= 1;
    }

    #[cfg(test)]
    pub(crate) fn is_awaited(&self) -> bool {
        self.lock().awaiting > 0
    }

    /// Whether readers are held and none is under way.
    pub(crate) fn are_asleep(&self) -> bool {
        let pool = self.lock();
        pool.held.is_some() && pool.idle.len() == self.all
    }
}

fn as_of_one_instant<T>(
    conn: &Connection,
    read: impl FnOnce(&Connection) -> std::result::Result<T, Fail>,
) -> std::result::Result<T, Fail> {
    execute(conn, "BEGIN")?;
    let result = read(conn);
    execute(conn, "ROLLBACK")?;
    result
}

fn execute(conn: &Connection, sql: &str) -> rusqlite::Result<()> {
    conn.prepare_cached(sql)?.execute([]).map(drop)
}

/// Comes back whatever happens.
struct Borrowed<'a> {
    readers: &'a Readers,
    connection: Option<Connection>,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            // Somebody panicked in the middle. An idle connection must not hold on to the log.
            if !connection.is_autocommit()
                && let Err(error) = execute(&connection, "ROLLBACK")
            {
                tracing::error!(event = "sqlite.rollback_failed", %error);
            }
            let mut pool = self.readers.lock();
            pool.idle.push(connection);
            // One reader can go on; or else somebody may wait for this one to end.
            match pool.awaiting {
                0 => self.readers.changed.notify_one(),
                _ => self.readers.changed.notify_all(),
            }
        }
    }
}
