//! The table `usage`: the entries of one commit in one packed row.
//!
//! A row is a JSON array of entries. `[id, run, step, time, 0, model, input, output, cached,
//! reasoning]` is a model call, `[id, run, step, time, 1, name, success, duration]` a tool call; what
//! is missing at the end is not known. Anything else is an object, the entry's stored form. A run is
//! named by its number in the session, or by its id when there is no such run.

use helix_agents_core::model::TokenUsage;
use helix_agents_core::store::{Page, PageRoom, Paged, SessionKey};
use helix_agents_core::time::Timestamp;
use helix_agents_core::usage::{UsageEntry, UsageKind};
use helix_agents_core::{RunId, UsageId};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::content::{self, RowRef, ValueKind};
use crate::key::{OwnerId, signed, size, wide};
use crate::operation_error::OperationError;
use crate::runs::{self, RunNumber, Runs};
use crate::write_connection::WriteConnection;
use crate::{headers, json};

const TOKENS: u8 = 0;
const TOOL: u8 = 1;

/// Inserts the usage entries of a commit.
pub(crate) fn append(
    db: &WriteConnection,
    session: OwnerId,
    entries: &[UsageEntry],
) -> Result<(), OperationError> {
    let conn = &db.conn;
    let mut packed = Vec::with_capacity(entries.len());
    for entry in entries {
        let run = runs::number(db, session, &entry.run_id)?;
        packed.push(Packed { entry, run });
    }
    let known = db.cache.borrow().usage(session);
    let count = match known {
        Some(count) => count,
        None => wide(total(conn, session)?),
    };
    let key = session.row(count)?;
    let holder = RowRef::new(session, ValueKind::Usage, key);
    let cell = content::put(conn, holder, json::text("usage", &packed)?)?;
    conn.prepare_cached("INSERT INTO usage (at, count, data) VALUES (?, ?, ?)")?
        .execute(params![key, signed(wide(entries.len())), cell])?;
    let count = count + wide(entries.len());
    db.cache.borrow_mut().put_usage(session, count);
    Ok(())
}

struct Packed<'a> {
    entry: &'a UsageEntry,
    run: RunNumber,
}

impl Serialize for Packed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { entry, run } = self;
        let (id, step, time) = (&entry.id, entry.step, entry.timestamp);
        match &entry.kind {
            UsageKind::Tokens { model, tokens } => {
                let (input, output) = (tokens.input, tokens.output);
                match (tokens.cached, tokens.reasoning) {
                    (None, None) => {
                        (id, run, step, time, TOKENS, model, input, output).serialize(serializer)
                    }
                    (cached, reasoning) => (
                        id, run, step, time, TOKENS, model, input, output, cached, reasoning,
                    )
                        .serialize(serializer),
                }
            }
            UsageKind::Tool {
                name,
                success,
                duration_ms,
            } => (id, run, step, time, TOOL, name, success, duration_ms).serialize(serializer),
            _ => entry.serialize(serializer),
        }
    }
}

fn unpack(value: Value, runs: &mut Runs<'_>) -> Result<UsageEntry, OperationError> {
    let corrupt =
        |error: serde_json::Error| OperationError::corrupt("usage entry", error.to_string());
    let Value::Array(mut parts) = value else {
        return UsageEntry::deserialize(value).map_err(corrupt);
    };
    let rest = parts.split_off(parts.len().min(5));
    let (id, run, step, time, kind): (UsageId, RunNumber, u32, Timestamp, u8) =
        Deserialize::deserialize(Value::Array(parts)).map_err(corrupt)?;
    let run: RunId = runs.id(run)?;
    let kind = match kind {
        TOKENS => {
            let mut tokens = TokenUsage::default();
            let mut rest = rest.into_iter();
            let mut next = || rest.next().unwrap_or_default();
            let model = String::deserialize(next()).map_err(corrupt)?;
            tokens.input = u64::deserialize(next()).map_err(corrupt)?;
            tokens.output = u64::deserialize(next()).map_err(corrupt)?;
            tokens.cached = Option::deserialize(next()).map_err(corrupt)?;
            tokens.reasoning = Option::deserialize(next()).map_err(corrupt)?;
            UsageKind::Tokens {
                model: model.into(),
                tokens,
            }
        }
        TOOL => {
            let (name, success, duration_ms) =
                Deserialize::deserialize(Value::Array(rest)).map_err(corrupt)?;
            UsageKind::Tool {
                name,
                success,
                duration_ms,
            }
        }
        other => {
            let reason = format!("there is no usage kind {other}");
            return Err(OperationError::corrupt("usage entry", reason));
        }
    };
    Ok(UsageEntry {
        id,
        run_id: run,
        step,
        timestamp: time,
        kind,
    })
}

fn total(conn: &Connection, session: OwnerId) -> Result<usize, OperationError> {
    let end: Option<i64> = conn
        .prepare_cached(
            "SELECT at + count FROM usage WHERE at BETWEEN ? AND ? ORDER BY at DESC LIMIT 1",
        )?
        .query_row([session.first(), session.last()], |row| row.get(0))
        .optional()?;
    Ok(end.map_or(0, |end| size(session.number(end))))
}

/// Reads a page of the usage of a session, oldest first.
pub(crate) fn page(
    conn: &Connection,
    session: SessionKey<'_>,
    page: Page,
) -> Result<Paged<UsageEntry>, OperationError> {
    let Some(owner) = headers::owner(conn, session)? else {
        return Ok(Paged::new(Vec::new(), 0, page));
    };
    let total = total(conn, owner)?;
    let end = page.offset.saturating_add(page.limit).min(total);
    let mut items = Vec::new();
    let mut runs = Runs::new(conn, owner);
    let mut statement = conn.prepare_cached(
        "SELECT at, data FROM usage WHERE at BETWEEN ? AND ? AND at + count > ? ORDER BY at",
    )?;
    let from = owner.bound(wide(page.offset));
    let mut rows = statement.query([owner.first(), owner.bound(wide(end)) - 1, from])?;
    let mut room = PageRoom::of(page);
    'rows: while let Some(row) = rows.next()? {
        let at = size(owner.number(row.get(0)?));
        let text = content::get(conn, row.get(1)?)?;
        let entries: Vec<Value> = serde_json::from_str(&text)
            .map_err(|error| OperationError::corrupt("usage entry", error.to_string()))?;
        for (entry, position) in entries.into_iter().zip(at..) {
            if (page.offset..end).contains(&position) {
                let entry = unpack(entry, &mut runs)?;
                if !room.takes(&entry) {
                    break 'rows;
                }
                items.push(entry);
            }
        }
    }
    Ok(Paged::new(items, total, page))
}
