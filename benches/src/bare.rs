//! The rows of a durable tool step, written by hand: what the SQLite store is compared with.

use std::path::Path;

use rusqlite::{Connection, params};

use crate::sqlite::reference_step;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

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

    /// Moves the write-ahead log into the file.
    pub(crate) fn checkpoint(file: &Path) -> Outcome<()> {
        let connection = Connection::open(file)?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }
}
