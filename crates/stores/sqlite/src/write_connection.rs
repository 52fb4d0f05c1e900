//! What a write works with.

use std::cell::RefCell;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::connection::is_busy;
use crate::state_cache::StateCache;
use crate::write_cache::Known;

/// The connection that writes, and what is remembered of what it wrote.
pub(crate) struct Desk {
    pub(crate) conn: Connection,
    pub(crate) states: RefCell<StateCache>,
    pub(crate) known: RefCell<Known>,
}

impl Desk {
    pub(crate) fn new(conn: Connection) -> Self {
        Self {
            conn,
            states: RefCell::default(),
            known: RefCell::default(),
        }
    }

    /// Does something that gives nothing back.
    pub(crate) fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.conn.prepare_cached(sql)?.execute([]).map(drop)
    }

    /// Begins to write. Waits in short steps for another process that does: SQLite's own are long.
    pub(crate) fn begin(&self, patience: Duration) -> rusqlite::Result<()> {
        if !self.conn.is_autocommit() {
            // Somebody panicked in the middle.
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
        self.recall().inspect_err(|_| self.roll_back())
    }

    /// Forgets what is known of the file if somebody else has written since. Nobody can from here
    /// on, until the transaction ends.
    fn recall(&self) -> rusqlite::Result<()> {
        let version = self
            .conn
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))?;
        self.known.borrow_mut().begin(version);
        Ok(())
    }

    /// Ends the transaction; it happened.
    pub(crate) fn commit(&self) -> rusqlite::Result<()> {
        self.execute("COMMIT")
    }

    /// Ends the transaction; nothing happened.
    pub(crate) fn roll_back(&self) {
        self.forget();
        // SQLite has rolled back itself after some failures.
        if !self.conn.is_autocommit()
            && let Err(error) = self.execute("ROLLBACK")
        {
            tracing::error!(event = "sqlite.rollback_failed", %error);
        }
    }

    fn forget(&self) {
        self.states.borrow_mut().clear();
        self.known.borrow_mut().clear();
    }

    /// Begins a part that can be undone on its own.
    pub(crate) fn begin_part(&self) -> rusqlite::Result<()> {
        self.execute("SAVEPOINT part")
    }

    /// Ends the part.
    pub(crate) fn end_part(&self) -> rusqlite::Result<()> {
        self.execute("RELEASE part")
    }

    /// Undoes the part.
    pub(crate) fn undo_part(&self) -> rusqlite::Result<()> {
        self.forget();
        self.execute("ROLLBACK TO part")
    }
}
