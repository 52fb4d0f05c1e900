//! The write-ahead log, and how it is kept short.
//!
//! SQLite begins the log anew when nobody reads from it. Readers that overlap for ever leave no such
//! moment, and the log would grow for ever. So when it has grown long, this process's readers are
//! asked to wait for those that are under way; as soon as these have ended, the log is moved into the
//! file and cut. Whoever then has the connection that writes does that: a commit, or the last of the
//! readers. Commits wait for a reader only when the log has grown far beyond that, in the writer's queue,
//! and no longer than readers are held.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;

use crate::readers::Readers;

/// A log of this many bytes is long. SQLite moves one of 4 MB into the file by itself, and begins it
/// anew where nobody reads; one that is longer than that is one that somebody always reads from.
pub(crate) const LONG: u64 = 6 * 1024 * 1024;
/// When a log could not be cut, the next attempt is made after it has grown by this.
const MORE: u64 = 2 * 1024 * 1024;
/// At this length commits no longer go on beside those who still read: a reader that is not given the
/// processor must not decide how long the log becomes.
pub(crate) const TOO_LONG: u64 = 10 * 1024 * 1024;
/// How long other processes are waited for that read or write while the log is to be cut.
const OTHERS: Duration = Duration::from_millis(5);

/// The log of a file.
#[derive(Debug)]
pub(crate) struct Log {
    /// None in memory, where there is no log.
    watched: Option<Watched>,
}

#[derive(Debug)]
struct Watched {
    path: PathBuf,
    /// The file, once there is one. It stays the same as long as anybody uses the database.
    file: Mutex<Option<File>>,
    readers: Arc<Readers>,
    /// From which length on the readers are asked to wait.
    due: AtomicU64,
    /// Whether commits are to wait until nobody reads.
    is_too_long: AtomicBool,
}

impl Log {
    /// The log of a file with these readers.
    pub(crate) fn of(file: &Path, readers: Arc<Readers>) -> Self {
        let mut path = file.as_os_str().to_owned();
        path.push("-wal");
        let watched = Watched {
            path: path.into(),
            file: Mutex::default(),
            readers,
            due: AtomicU64::new(LONG),
            is_too_long: AtomicBool::new(false),
        };
        Self {
            watched: Some(watched),
        }
    }

    /// There is no log.
    pub(crate) fn none() -> Self {
        Self { watched: None }
    }

    /// Whether all readers wait for the log to be cut.
    pub(crate) fn is_awaited(&self) -> bool {
        let watched = self.watched.as_ref();
        watched.is_some_and(|watched| watched.readers.are_asleep())
    }

    /// Looks how long the log has become, and cuts it when it is long and nobody reads. `conn` is
    /// the connection that writes, outside of a transaction. False: those who read should be waited
    /// for, by somebody who may; whoever `may_wait` does it here.
    pub(crate) fn look_after(&self, conn: &Connection, may_wait: bool) -> bool {
        let Some(watched) = &self.watched else {
            return true;
        };
        if let Some(length) = watched.has_become_long() {
            watched.readers.hold();
            if length >= TOO_LONG {
                watched.is_too_long.store(true, Ordering::Relaxed);
            }
        }
        if may_wait && watched.is_too_long.load(Ordering::Relaxed) {
            watched.readers.await_last();
            watched.is_too_long.store(false, Ordering::Relaxed);
        }
        if watched.readers.are_asleep() {
            if Self::cut(conn) {
                watched.due.store(LONG, Ordering::Relaxed);
            }
            watched.is_too_long.store(false, Ordering::Relaxed);
            watched.readers.release();
        }
        !watched.is_too_long.load(Ordering::Relaxed)
    }

    /// Moves the log into the file and cuts it. False: another process was in the way.
    fn cut(conn: &Connection) -> bool {
        let cut = conn.busy_timeout(OTHERS).and_then(|()| {
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

impl Watched {
    /// The length of the log, asked of the open file by its end. Asking for its metadata, which holds
    /// its times, makes Linux give it a new time at the next write, and every commit then waits for
    /// that to be on disk too: half as long again.
    fn length(&self) -> io::Result<u64> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match &mut *file {
            Some(file) => file,
            none => none.insert(File::open(&self.path)?),
        };
        file.seek(SeekFrom::End(0))
    }

    /// The length of the log, if it has grown to where it is due to be cut. It is due again when it has grown on,
    /// so that readers are not held again and again while it cannot be cut.
    fn has_become_long(&self) -> Option<u64> {
        // A file that cannot be looked at is looked at again after the next commit.
        let length = self.length().unwrap_or(0);
        let due = self.due.load(Ordering::Relaxed);
        let next = (length + MORE).max(LONG);
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
