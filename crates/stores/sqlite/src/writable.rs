//! Whether the file can be written.

use async_trait::async_trait;
use helix_agents_core::store::{StoreError, Writable};
use rusqlite::params;

use crate::operation_error::OperationError;
use crate::store::SqliteStore;
use crate::write_connection::WriteConnection;

/// The lock that is written and removed again. Nobody else uses its name.
const KEY: &str = "helix:is-it-writable";
/// More than fits into a page, so that the file has to find room for it as for a commit.
const BYTES: usize = 8 * 1024;

#[async_trait]
impl Writable for SqliteStore {
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
