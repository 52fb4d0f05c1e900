//! [`CheckWritable`]: checks whether the file can be written.

use async_trait::async_trait;
use helix_agents_core::store::{CheckWritable, StoreError};
use rusqlite::params;

use crate::operation_error::OperationError;
use crate::store::SqliteStore;
use crate::write_connection::WriteConnection;

/// The key of a lock that is inserted and deleted again, and used for nothing else.
const KEY: &str = "helix:is-it-writable";
/// The size of its row: more than a page, so that the file needs room as for a commit.
const BYTES: usize = 8 * 1024;

#[async_trait]
impl CheckWritable for SqliteStore {
    async fn check_writable(&self) -> Result<(), StoreError> {
        Ok(self
            .write(None, Vec::new(), |db: &WriteConnection, _| check(db))
            .await?)
    }
}

fn check(db: &WriteConnection) -> Result<(), OperationError> {
    let conn = &db.conn;
    conn.prepare_cached(
        "INSERT OR REPLACE INTO lock (key, holder, token, until) VALUES (?, ?, 0, 0)",
    )?
    .execute(params![KEY, " ".repeat(BYTES)])?;
    conn.prepare_cached("DELETE FROM lock WHERE key = ?")?
        .execute([KEY])?;
    Ok(())
}
