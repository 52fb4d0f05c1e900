//! Removes chunks from the end of a stream.

use helix_agents_core::stream::StreamRewind;
use rusqlite::{Connection, params};

use super::Stream;
use crate::content::{self, ValueKind};
use crate::key::signed;
use crate::operation_error::OperationError;

impl Stream {
    /// Removes the chunks that a rewind does not keep. Their sequences are not used again.
    pub(super) fn rewind(
        &mut self,
        conn: &Connection,
        rewind: &StreamRewind,
    ) -> Result<(), OperationError> {
        // The batches say where an active stream ends; the last ones are about to be removed.
        conn.prepare_cached("UPDATE stream SET last = ? WHERE id = ?")?
            .execute(params![signed(self.info.last.0), self.id])?;
        let (after, end) = (self.id.bound(rewind.to.0), self.id.last());
        if rewind.session.is_none() {
            let from = signed(rewind.to.next().0);
            conn.prepare_cached("DELETE FROM chunk WHERE at > ? AND at <= ? AND first >= ?")?
                .execute([after, end, from])?;
            // What is left after the sequence is the batch that contains it.
            let straddling = self.batches(conn, after)?;
            let first_removed = straddling.last().map_or(after, |key| *key) + 1;
            content::release_range(conn, self.id, ValueKind::Chunk, first_removed, end)?;
        }
        for key in self.batches(conn, after)? {
            self.retain(conn, key, |stored| rewind.keeps(stored))?;
        }
        Ok(())
    }

    /// Lists the keys of the batches that end after this one.
    fn batches(&self, conn: &Connection, after: i64) -> Result<Vec<i64>, OperationError> {
        let keys = conn
            .prepare_cached("SELECT at FROM chunk WHERE at > ? AND at <= ? ORDER BY at")?
            .query_map([after, self.id.last()], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        Ok(keys)
    }
}
