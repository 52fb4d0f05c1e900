//! Connections that read, beside the one that writes.

use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};

use rusqlite::Connection;

use crate::config::SqliteConfig;
use crate::connection;
use crate::error::Result;
use crate::fail::Fail;

/// A few connections. A read borrows one for as long as it takes, and no longer: no read waits for
/// anything while it holds one, so that all reads come to their turn.
#[derive(Debug)]
pub(crate) struct Readers {
    idle: Mutex<Vec<Connection>>,
    returned: Condvar,
}

impl Readers {
    pub(crate) fn open(path: &Path, config: &SqliteConfig) -> Result<Self> {
        let idle = (0..config.readers).map(|_| connection::reader(path, config));
        Ok(Self {
            idle: Mutex::new(idle.collect::<Result<_>>()?),
            returned: Condvar::new(),
        })
    }

    /// Reads as of one instant.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> std::result::Result<T, Fail>,
    ) -> std::result::Result<T, Fail> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.returned.wait_while(idle, |idle| idle.is_empty());
        let mut idle = waited.unwrap_or_else(PoisonError::into_inner);
        let borrowed = Borrowed {
            readers: self,
            connection: idle.pop(),
        };
        drop(idle);
        match &borrowed.connection {
            Some(connection) => as_of_one_instant(connection, read),
            None => Err(Fail::internal("there is no connection to read with")),
        }
    }
}

fn as_of_one_instant<T>(
    conn: &Connection,
    read: impl FnOnce(&Connection) -> std::result::Result<T, Fail>,
) -> std::result::Result<T, Fail> {
    let execute = |sql| conn.prepare_cached(sql)?.execute([]).map(drop);
    if !conn.is_autocommit() {
        // Somebody panicked in the middle.
        execute("ROLLBACK")?;
    }
    execute("BEGIN")?;
    let result = read(conn);
    execute("ROLLBACK")?;
    result
}

/// Comes back whatever happens.
struct Borrowed<'a> {
    readers: &'a Readers,
    connection: Option<Connection>,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            let mut idle = self
                .readers
                .idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            idle.push(connection);
            drop(idle);
            self.readers.returned.notify_one();
        }
    }
}
