//! Keeps the write-ahead log short.
//!
//! SQLite restarts the log when no connection reads from it. Reads that overlap without end leave no such
//! moment, and the log would grow without bound. When it has grown long, the readers of this process are
//! therefore held until the reads under way have ended; then the log is moved into the file and cut, by
//! the next commit or by the last reader. Commits wait for readers only when the log has grown far
//! beyond that, in the writer's queue, and no longer than readers are held.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use crate::readers::Readers;

/// The length in bytes at which the log is cut. SQLite itself restarts the log at 4 MB if no connection
/// reads from it, so a longer log has readers at all times.
pub(crate) const CUT_LENGTH: u64 = 6 * 1024 * 1024;
/// When a log could not be cut, the next attempt is made after it has grown by this many bytes.
const RETRY_GROWTH: u64 = 2 * 1024 * 1024;
/// The length in bytes at which commits wait for the last reader: a reader that the system does not
/// schedule must not decide how long the log becomes.
pub(crate) const WAIT_LENGTH: u64 = 10 * 1024 * 1024;
/// How long cutting waits for other processes that read or write.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_millis(5);

/// The write-ahead log of a database.
#[derive(Debug)]
pub(crate) struct WriteAheadLog {
    /// `None` in memory, where there is no log.
    file: Option<LogFile>,
}

#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    /// The open file, once there is one. It stays the same as long as any process uses the database.
    handle: Mutex<Option<File>>,
    readers: Arc<Readers>,
    /// The length from which on readers are held.
    due: AtomicU64,
    /// Whether commits wait until no read is under way.
    is_too_long: AtomicBool,
}

impl WriteAheadLog {
    /// The log of a database file, and the readers that are held to cut it.
    pub(crate) fn of(file: &Path, readers: Arc<Readers>) -> Self {
        let mut path = file.as_os_str().to_owned();
        path.push("-wal");
        let log_file = LogFile {
            path: path.into(),
            handle: Mutex::default(),
            readers,
            due: AtomicU64::new(CUT_LENGTH),
            is_too_long: AtomicBool::new(false),
        };
        Self {
            file: Some(log_file),
        }
    }

    /// The missing log of a database in memory: it is never cut.
    pub(crate) fn none() -> Self {
        Self { file: None }
    }

    /// Whether readers are held until the log is cut, and none is under way.
    pub(crate) fn awaits_cut(&self) -> bool {
        let log_file = self.file.as_ref();
        log_file.is_some_and(|log_file| log_file.readers.are_held_and_idle())
    }

    /// Holds readers if the log has grown long, and cuts it if they are held and none is under way.
    /// `conn` is the connection that writes, outside of a transaction. Returns false if the log is so
    /// long that the reads under way must be waited for; with `may_wait`, this call waits for them.
    pub(crate) fn maintain(&self, conn: &Connection, may_wait: bool) -> bool {
        let Some(log_file) = &self.file else {
            return true;
        };
        if let Some(length) = log_file.length_if_due() {
            log_file.readers.hold();
            if length >= WAIT_LENGTH {
                log_file.is_too_long.store(true, Ordering::Relaxed);
            }
        }
        if may_wait && log_file.is_too_long.load(Ordering::Relaxed) {
            log_file.readers.wait_until_idle();
            log_file.is_too_long.store(false, Ordering::Relaxed);
        }
        if log_file.readers.are_held_and_idle() {
            if Self::cut(conn) {
                log_file.due.store(CUT_LENGTH, Ordering::Relaxed);
            }
            log_file.is_too_long.store(false, Ordering::Relaxed);
            log_file.readers.release();
        }
        !log_file.is_too_long.load(Ordering::Relaxed)
    }

    /// Moves the log into the database file and cuts it. Returns false if another process was in the way.
    fn cut(conn: &Connection) -> bool {
        let cut = conn.busy_timeout(CHECKPOINT_TIMEOUT).and_then(|()| {
            conn.prepare_cached("PRAGMA wal_checkpoint(TRUNCATE)")?
                .query_row([], |row| row.get::<_, bool>(0))
        });
        if let Err(error) = conn.busy_timeout(Duration::ZERO) {
            tracing::warn!(event = "sqlite.busy_timeout_unset", %error);
        }
        match cut {
            Ok(was_busy) => !was_busy,
            Err(error) => {
                tracing::warn!(event = "sqlite.log_not_cut", %error);
                false
            }
        }
    }
}

impl LogFile {
    /// The length of the log, found by seeking to the end of the open file. Reading its metadata instead
    /// makes Linux give it a new time at the next write, and every commit then waits for that to be on
    /// disk too: half as long again.
    fn length(&self) -> io::Result<u64> {
        let mut handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match &mut *handle {
            Some(file) => file,
            none => none.insert(File::open(&self.path)?),
        };
        file.seek(SeekFrom::End(0))
    }

    /// The length of the log, if it has reached the length at which it is to be cut. That length is then
    /// raised, so that readers are not held again and again while the log cannot be cut.
    fn length_if_due(&self) -> Option<u64> {
        // If the length cannot be read, it is read again after the next commit.
        let length = self.length().unwrap_or(0);
        let due = self.due.load(Ordering::Relaxed);
        let next = (length + RETRY_GROWTH).max(CUT_LENGTH);
        if length < due {
            // SQLite has cut it itself.
            self.due.store(due.min(next), Ordering::Relaxed);
            return None;
        }
        self.due.store(next, Ordering::Relaxed);
        Some(length)
    }
}

#[cfg(test)]
mod tests;
