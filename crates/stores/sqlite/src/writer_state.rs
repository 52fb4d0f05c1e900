//! The connection that writes, and what others are told of it.

use rusqlite::Connection;

use crate::change_log::{self, News};
use crate::change_notifier::Mark;
use crate::write_connection::Desk;

/// The connection, and what it last saw of other processes.
pub(crate) struct Slot {
    pub(crate) desk: Desk,
    /// What SQLite called the content of the file when this was last asked.
    version: i64,
    /// What was told of up to then, and by this connection since.
    seen: i64,
    /// The name under which this store wants to know of what others write.
    ear: String,
    /// Whether it is in the file.
    listens: bool,
}

impl Slot {
    pub(crate) fn new(connection: Connection) -> Self {
        Self {
            desk: Desk::new(connection),
            version: 0,
            seen: 0,
            ear: change_log::ear(),
            listens: false,
        }
    }

    /// Ends the transaction; it happened, and others can see to whom.
    pub(crate) fn commit(&mut self, touched: &[Mark]) -> rusqlite::Result<()> {
        if !self.is_heard()? {
            return self.desk.commit();
        }
        let told = change_log::tell(&self.desk.conn, touched)?;
        self.desk.commit()?;
        // Unless somebody else has told something in between, which is still to be read.
        if told == self.seen + 1 {
            self.seen = told;
        }
        if change_log::is_lot(told) {
            // Whoever listened may have ended without a word.
            self.desk.known.borrow_mut().put_heard(None);
        }
        Ok(())
    }

    /// Whether somebody else wants to know of this transaction. Whoever begins to wants it in a
    /// transaction of its own, after which nothing of this is known any more.
    fn is_heard(&self) -> rusqlite::Result<bool> {
        let known = self.desk.known.borrow().is_heard();
        if let Some(is_heard) = known {
            return Ok(is_heard);
        }
        let is_heard = change_log::is_heard(&self.desk.conn, &self.ear)?;
        self.desk.known.borrow_mut().put_heard(Some(is_heard));
        Ok(is_heard)
    }

    /// Puts the ear into the file, or takes it out. Does not wait for others who write: until it is
    /// there, everybody is woken by whatever they write.
    pub(crate) fn set_ear(&mut self, listens: bool) {
        if self.listens == listens {
            return;
        }
        let conn = &self.desk.conn;
        let done = match listens {
            true => change_log::listen(conn, &self.ear),
            false => change_log::leave(conn, &self.ear),
        };
        match done {
            Ok(()) => self.listens = listens,
            Err(error) => tracing::debug!(event = "sqlite.ear_not_set", %error),
        }
    }

    /// What others have written since the last time.
    pub(crate) fn news(&mut self) -> rusqlite::Result<Option<News>> {
        if self.version()? == self.version {
            return Ok(None);
        }
        // As of one instant: what is written between two looks must not be missed by the one and
        // taken for told by the other.
        self.desk.execute("BEGIN")?;
        let read = change_log::since(&self.desk.conn, self.seen)
            .and_then(|(news, seen)| Ok((news, seen, self.version()?)));
        self.desk.execute("ROLLBACK")?;
        let (news, seen, version) = read?;
        let is_first = self.version == 0;
        (self.seen, self.version) = (seen, version);
        Ok(Some(if is_first { News::Everybody } else { news }))
    }

    /// What SQLite calls the content of the file. Others change it.
    fn version(&self) -> rusqlite::Result<i64> {
        self.desk
            .conn
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get(0))
    }
}
