//! [`CheckWritable`]: checks whether the database can be written.

use async_trait::async_trait;
use helix_agents_core::store::{CheckWritable, StoreError};

use crate::store::PostgresStore;

#[async_trait]
impl CheckWritable for PostgresStore {
    /// Writes one row, always the same one, as durably as a commit. It needs no manual step after an outage.
    async fn check_writable(&self) -> Result<(), StoreError> {
        let written = self.run(async move |on| {
            let sql = "INSERT INTO @probe VALUES (0, @now_ms()) \
                 ON CONFLICT (id) DO UPDATE SET written = excluded.written";
            // Written again, it leaves the same behind: a connection that was lost may be replaced.
            on.database.read(sql, &[]).await.map(drop)
        });
        Ok(written.await?)
    }
}
