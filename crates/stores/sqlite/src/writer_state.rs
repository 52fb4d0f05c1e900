//! The connection that writes, and its place in the change log.

use rusqlite::Connection;

use crate::change_log::{self, ForeignChanges};
use crate::change_notifier::SessionHash;
use crate::write_connection::WriteConnection;

/// The state behind the writer's lock: the connection, and how far it has read the change log.
pub(crate) struct WriterState {
    pub(crate) db: WriteConnection,
    /// SQLite's `data_version` of the file when foreign changes were last read; 0 before that.
    data_version: i64,
    /// The last row of the change log that was read, or written by this connection.
    last_row: i64,
    /// The name under which this store subscribes to the change log.
    subscriber: String,
    is_subscribed: bool,
}

impl WriterState {
    pub(crate) fn new(connection: Connection) -> Self {
        Self {
            db: WriteConnection::new(connection),
            data_version: 0,
            last_row: 0,
            subscriber: change_log::new_subscriber(),
            is_subscribed: false,
        }
    }

    /// Commits the transaction. While another process is subscribed, the sessions that it changed are
    /// written to the change log with it.
    pub(crate) fn commit(&mut self, changed_sessions: &[SessionHash]) -> rusqlite::Result<()> {
        if !self.has_subscribers()? {
            return self.db.commit();
        }
        let row = change_log::append(&self.db.conn, changed_sessions)?;
        self.db.commit()?;
        // Rows of others in between are still to be read.
        if row == self.last_row + 1 {
            self.last_row = row;
        }
        if change_log::completes_lot(row) {
            // A subscriber may have ended without removing its subscription.
            self.db.cache.borrow_mut().set_has_subscribers(None);
        }
        Ok(())
    }

    /// Whether another process is subscribed. A subscription is a transaction of its own, which empties
    /// the cache.
    fn has_subscribers(&self) -> rusqlite::Result<bool> {
        let cached = self.db.cache.borrow().has_subscribers();
        if let Some(has_subscribers) = cached {
            return Ok(has_subscribers);
        }
        let found = change_log::has_other_subscribers(&self.db.conn, &self.subscriber)?;
        self.db.cache.borrow_mut().set_has_subscribers(Some(found));
        Ok(found)
    }

    /// Subscribes to the change log, or removes the subscription. Does not wait for other processes that
    /// write: until it succeeds, each of their writes wakes every listener.
    pub(crate) fn set_subscribed(&mut self, is_subscribed: bool) {
        if self.is_subscribed == is_subscribed {
            return;
        }
        let conn = &self.db.conn;
        let done = match is_subscribed {
            true => change_log::subscribe(conn, &self.subscriber),
            false => change_log::unsubscribe(conn, &self.subscriber),
        };
        match done {
            Ok(()) => self.is_subscribed = is_subscribed,
            Err(error) => tracing::debug!(event = "sqlite.subscription_not_changed", %error),
        }
    }

    /// The sessions that other processes have changed since the last call; `None` when they have written
    /// nothing.
    pub(crate) fn foreign_changes(&mut self) -> rusqlite::Result<Option<ForeignChanges>> {
        if self.data_version()? == self.data_version {
            return Ok(None);
        }
        // Both are read as of one instant: a write between two reads must not be missing from the log
        // and counted in the version.
        self.db.execute("BEGIN")?;
        let read = change_log::read_after(&self.db.conn, self.last_row)
            .and_then(|(changes, last)| Ok((changes, last, self.data_version()?)));
        self.db.execute("ROLLBACK")?;
        let (changes, last_row, data_version) = read?;
        let is_first = self.data_version == 0;
        (self.last_row, self.data_version) = (last_row, data_version);
        Ok(Some(if is_first {
            ForeignChanges::All
        } else {
            changes
        }))
    }

    /// A number that SQLite changes whenever another connection has written to the file.
    fn data_version(&self) -> rusqlite::Result<i64> {
        self.db
            .conn
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))
    }
}
