//! The table `origin`: who wrote the chunks of a stream, each once, so that batches name them by number.

use std::collections::BTreeMap;
use std::sync::Arc;

use helix_agents_core::id::AgentId;
use helix_agents_core::shared_str::SharedStr;
use helix_agents_core::stream::{Chunk, ChunkOrigin};
use helix_agents_core::{RunId, SessionId};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use crate::json;
use crate::key::OwnerId;
use crate::operation_error::OperationError;
use crate::runs::next_key;

/// How many of the last authors of a stream are remembered. An author that is forgotten gets another
/// number.
const REMEMBERED: u8 = 8;

/// A row: session, run, agent type, and the agent's id unless it is that of the session.
#[derive(Serialize, Deserialize)]
struct Author(SessionId, RunId, SharedStr, Option<AgentId>);

impl From<&ChunkOrigin> for Author {
    fn from(origin: &ChunkOrigin) -> Self {
        let is_usual = origin.agent_id.as_str() == origin.session_id.as_str();
        Self(
            origin.session_id.clone(),
            origin.run_id.clone(),
            origin.agent_type.clone(),
            (!is_usual).then(|| origin.agent_id.clone()),
        )
    }
}

fn parse(text: &str) -> Result<Arc<ChunkOrigin>, OperationError> {
    let corrupt = |reason: String| OperationError::corrupt("origin", reason);
    let Author(session, run, agent, id) =
        serde_json::from_str(text).map_err(|error| corrupt(error.to_string()))?;
    let id = match id {
        Some(id) => id,
        None => AgentId::new(session.as_str()).map_err(|error| corrupt(error.to_string()))?,
    };
    Ok(Arc::new(ChunkOrigin::new(id, agent, session, run, 0)))
}

/// The last authors of a stream, for its writer.
#[derive(Debug, Default)]
pub(crate) struct Authors {
    /// Whether the rows were read.
    is_read: bool,
    known: Vec<(u64, Arc<ChunkOrigin>)>,
    /// The result of [`Authors::numbers`], which is made for every batch.
    numbers: Vec<u64>,
}

impl Authors {
    /// The numbers of the authors of chunks. An author that has no row gets one.
    pub(crate) fn numbers(
        &mut self,
        conn: &Connection,
        stream: OwnerId,
        chunks: &[Chunk],
    ) -> Result<&[u64], OperationError> {
        self.numbers.clear();
        let mut last: Option<(&Arc<ChunkOrigin>, u64)> = None;
        for chunk in chunks {
            let number = match last {
                // Most often it is the very same one.
                Some((base, number)) if Arc::ptr_eq(base, &chunk.base) => number,
                _ => self.number(conn, stream, &chunk.base)?,
            };
            self.numbers.push(number);
            last = Some((&chunk.base, number));
        }
        Ok(&self.numbers)
    }

    fn number(
        &mut self,
        conn: &Connection,
        stream: OwnerId,
        origin: &Arc<ChunkOrigin>,
    ) -> Result<u64, OperationError> {
        if !self.is_read {
            self.known = last(conn, stream)?;
            self.is_read = true;
        }
        let is_same = |one: &ChunkOrigin| {
            one.run_id == origin.run_id
                && one.session_id == origin.session_id
                && one.agent_type == origin.agent_type
                && one.agent_id == origin.agent_id
        };
        if let Some((number, _)) = self.known.iter().rev().find(|(_, one)| is_same(one)) {
            return Ok(*number);
        }
        let max = "SELECT max(at) FROM origin WHERE at BETWEEN ? AND ?";
        let key = next_key(conn, stream, max)?;
        let row = json::text("origin", &Author::from(&**origin))?;
        conn.prepare_cached("INSERT INTO origin (at, data) VALUES (?, ?)")?
            .execute(params![key, row])?;
        let number = stream.number(key);
        if self.known.len() >= usize::from(REMEMBERED) {
            self.known.remove(0);
        }
        self.known.push((number, Arc::clone(origin)));
        Ok(number)
    }

    /// Removes all authors of a stream that has no chunks.
    pub(crate) fn clear(
        &mut self,
        conn: &Connection,
        stream: OwnerId,
    ) -> Result<(), OperationError> {
        *self = Self::default();
        remove(conn, stream)
    }
}

/// The last authors of a stream, oldest first.
fn last(
    conn: &Connection,
    stream: OwnerId,
) -> Result<Vec<(u64, Arc<ChunkOrigin>)>, OperationError> {
    let mut statement = conn.prepare_cached(
        "SELECT at, data FROM origin WHERE at BETWEEN ? AND ? ORDER BY at DESC LIMIT ?",
    )?;
    let mut rows = statement.query(params![stream.first(), stream.last(), REMEMBERED])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let text: String = row.get(1)?;
        found.push((stream.number(row.get(0)?), parse(&text)?));
    }
    found.reverse();
    Ok(found)
}

/// Removes all authors of a stream.
pub(crate) fn remove(conn: &Connection, stream: OwnerId) -> Result<(), OperationError> {
    conn.prepare_cached("DELETE FROM origin WHERE at BETWEEN ? AND ?")?
        .execute([stream.first(), stream.last()])?;
    Ok(())
}

/// Reads authors of a stream by their numbers, each once.
#[derive(Debug)]
pub(crate) struct AuthorReader<'a> {
    conn: &'a Connection,
    stream: OwnerId,
    known: BTreeMap<u64, Arc<ChunkOrigin>>,
}

impl<'a> AuthorReader<'a> {
    pub(crate) fn new(conn: &'a Connection, stream: OwnerId) -> Self {
        Self {
            conn,
            stream,
            known: BTreeMap::new(),
        }
    }

    pub(crate) fn get(&mut self, number: u64) -> Result<Arc<ChunkOrigin>, OperationError> {
        if let Some(known) = self.known.get(&number) {
            return Ok(Arc::clone(known));
        }
        let text: Option<String> = self
            .conn
            .prepare_cached("SELECT data FROM origin WHERE at = ?")?
            .query_row([self.stream.row(number)?], |row| row.get(0))
            .optional()?;
        let Some(text) = text else {
            let reason = format!("its author {number} is missing");
            return Err(OperationError::corrupt("chunk", reason));
        };
        let author = parse(&text)?;
        self.known.insert(number, Arc::clone(&author));
        Ok(author)
    }
}
