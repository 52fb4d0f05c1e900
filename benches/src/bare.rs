//! The rows of a durable tool step, written by hand: what the SQLite store is compared with.

use std::path::Path;

use helix_agents_core::message::{AssistantMessage, ToolMessage};
use rusqlite::{Connection, params};

use crate::reference::reference_step;
use crate::sqlite::Outcome;
use crate::step_rows::StepRows;

/// A session kept by a hand-written loop: the same commits, the same durability, no framework.
pub(crate) struct Bare {
    connection: Connection,
    steps: usize,
}

impl Bare {
    pub(crate) fn open(file: &Path) -> Outcome<Self> {
        let connection = Connection::open(file)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL;
             PRAGMA synchronous = FULL;
             CREATE TABLE session (id INTEGER PRIMARY KEY, version INTEGER, steps INTEGER, data TEXT);
             CREATE TABLE entry (session INTEGER, first INTEGER, data TEXT, PRIMARY KEY (session, first)) WITHOUT ROWID;
             CREATE TABLE open_step (session INTEGER PRIMARY KEY, data TEXT);
             CREATE TABLE checkpoint (session INTEGER, n INTEGER, id TEXT, messages INTEGER, time INTEGER, PRIMARY KEY (session, n)) WITHOUT ROWID;
             CREATE TABLE usage (id INTEGER PRIMARY KEY, session INTEGER, data TEXT);
             CREATE TABLE run (id INTEGER PRIMARY KEY, data TEXT);
             CREATE TABLE chunk (session INTEGER, first INTEGER, data TEXT, PRIMARY KEY (session, first)) WITHOUT ROWID;
             INSERT INTO session VALUES (1, 0, 0, '{}');",
        )?;
        Ok(Self {
            connection,
            steps: 0,
        })
    }

    /// The reply with its intent, and the settled step.
    pub(crate) fn step(&mut self) -> Outcome<()> {
        self.steps += 1;
        let n = self.steps;
        let row = u32::try_from(n)?;
        let (message, result) = reference_step(n)?;
        let reply = self.connection.transaction()?;
        reply
            .prepare_cached("INSERT INTO open_step VALUES (1, ?1)")?
            .execute([serde_json::to_string(&message)?])?;
        reply
            .prepare_cached("UPDATE session SET version = version + 1 WHERE id = 1")?
            .execute([])?;
        reply.commit()?;

        let settle = self.connection.transaction()?;
        settle
            .prepare_cached("INSERT INTO entry VALUES (1, ?1, ?2)")?
            .execute(params![row * 2, serde_json::to_string(&(message, result))?])?;
        settle
            .prepare_cached("DELETE FROM open_step WHERE session = 1")?
            .execute([])?;
        settle
            .prepare_cached("INSERT INTO checkpoint VALUES (1, ?1, ?2, ?3, 1700000000000)")?
            .execute(params![
                row,
                format!("cp-{n:08x}-0000-7000-8000-000000000000"),
                row * 2
            ])?;
        for usage in [r#"{"tokens":[12,3]}"#, r#"{"tool":"add","ms":1}"#] {
            settle
                .prepare_cached("INSERT INTO usage (session, data) VALUES (1, ?1)")?
                .execute([usage])?;
        }
        settle
            .prepare_cached(
                "UPDATE session SET version = version + 1, steps = steps + 1 WHERE id = 1",
            )?
            .execute([])?;
        settle.commit()?;
        Ok(())
    }

    /// Commits a step as a loop with a readable stream does: first the reply with its intent and
    /// the chunks that readers saw, then the settled step with its checkpoint, usage, run and
    /// chunks.
    pub(crate) fn streamed_step(
        &mut self,
        message: &AssistantMessage,
        results: &[ToolMessage],
    ) -> Outcome<()> {
        self.steps += 1;
        let row = u32::try_from(self.steps)?;
        let rows = StepRows::of(self.steps, message, results)?;
        let reply = self.connection.transaction()?;
        reply
            .prepare_cached("INSERT INTO open_step VALUES (1, ?1)")?
            .execute([rows.open_step])?;
        reply
            .prepare_cached("INSERT INTO chunk VALUES (1, ?1, ?2)")?
            .execute(params![row * 20, rows.reply_chunks])?;
        reply
            .prepare_cached("UPDATE session SET version = version + 1, data = ?1 WHERE id = 1")?
            .execute([&rows.session])?;
        reply.commit()?;

        let settle = self.connection.transaction()?;
        settle
            .prepare_cached("INSERT INTO entry VALUES (1, ?1, ?2)")?
            .execute(params![row * 2, rows.entry])?;
        settle
            .prepare_cached("DELETE FROM open_step WHERE session = 1")?
            .execute([])?;
        settle
            .prepare_cached("INSERT INTO checkpoint VALUES (1, ?1, ?2, ?3, 1700000000000)")?
            .execute(params![row, rows.checkpoint, row * 2])?;
        settle
            .prepare_cached("INSERT INTO usage (session, data) VALUES (1, ?1)")?
            .execute([rows.usage])?;
        settle
            .prepare_cached("INSERT OR REPLACE INTO run VALUES (1, ?1)")?
            .execute([rows.run])?;
        settle
            .prepare_cached("INSERT INTO chunk VALUES (1, ?1, ?2)")?
            .execute(params![row * 20 + 10, rows.result_chunks])?;
        settle
            .prepare_cached(
                "UPDATE session SET version = version + 1, steps = steps + 1, data = ?1 WHERE id = 1",
            )?
            .execute([rows.session])?;
        settle.commit()?;
        Ok(())
    }

    /// Moves the log into the file, and gives the bytes of the pages that hold something: a file that
    /// was just set up has free ones, which the first steps fill.
    pub(crate) fn bytes_used(file: &Path) -> Outcome<u64> {
        let connection = Connection::open(file)?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, u32>(0));
        let pages = pragma("page_count")? - pragma("freelist_count")?;
        Ok(u64::from(pages) * u64::from(pragma("page_size")?))
    }
}
