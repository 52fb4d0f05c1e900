//! The connection that writes, with its transactions and its caches.

use std::cell::RefCell;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::connection::is_busy;
use crate::state_cache::StateCache;
use crate::write_cache::WriteCache;

/// The one connection that writes, and what it has read or written, so that it need not read it again.
///
/// The caches are emptied whenever a transaction, or a part of one, is undone.
pub(crate) struct WriteConnection {
    pub(crate) conn: Connection,
    pub(crate) states: RefCell<StateCache>,
    pub(crate) cache: RefCell<WriteCache>,
}

impl WriteConnection {
    pub(crate) fn new(conn: Connection) -> Self {
        Self {
            conn,
            states: RefCell::default(),
            cache: RefCell::default(),
        }
    }

    /// Executes a statement that returns no rows.
    pub(crate) fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.conn.prepare_cached(sql)?.execute([]).map(drop)
    }

    /// Begins a transaction that writes. While another process writes it tries again in short
    /// intervals, for as long as `patience`: SQLite's own intervals are long.
    pub(crate) fn begin(&self, patience: Duration) -> rusqlite::Result<()> {
        if !self.conn.is_autocommit() {
            // A panic left a transaction open.
            self.roll_back();
        }
        let mut pause = Duration::from_micros(100);
        let mut until = None;
        loop {
            match self.execute("BEGIN IMMEDIATE") {
                Err(error) if is_busy(&error) => {
                    let now = Instant::now();
                    if now >= *until.get_or_insert(now + patience) {
                        return Err(error);
                    }
                    thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(2));
                }
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        self.validate_cache().inspect_err(|_| self.roll_back())
    }

    /// Empties the cache if another connection has written since it was filled. No other can write
    /// from here on, until the transaction ends.
    fn validate_cache(&self) -> rusqlite::Result<()> {
        let version = self
            .conn
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        self.cache.borrow_mut().begin(version);
        Ok(())
    }

    /// Commits the transaction.
    pub(crate) fn commit(&self) -> rusqlite::Result<()> {
        self.execute("COMMIT")
    }

    /// Rolls the transaction back, if there is one, and empties the caches.
    pub(crate) fn roll_back(&self) {
        self.clear_caches();
        // SQLite has rolled back itself after some failures.
        if !self.conn.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK")
        {
            tracing::error!(event = "sqlite.rollback_failed", %error);
        }
    }

    fn clear_caches(&self) {
        self.states.borrow_mut().clear();
        self.cache.borrow_mut().clear();
    }

    /// Begins a savepoint: a part of the transaction that can be undone on its own.
    pub(crate) fn begin_part(&self) -> rusqlite::Result<()> {
        self.execute("SAVEPOINT part")
    }

    /// Ends the savepoint and keeps its writes as a part of the transaction.
    pub(crate) fn end_part(&self) -> rusqlite::Result<()> {
        self.execute("RELEASE part")
    }

    /// Undoes the writes since the savepoint began. The savepoint stays open.
    pub(crate) fn undo_part(&self) -> rusqlite::Result<()> {
        self.clear_caches();
        self.execute("ROLLBACK TO part")
    }
}
