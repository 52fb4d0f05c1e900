//! The smaller belongings of a session: runs, the open step, children, kept writes.

use std::collections::BTreeMap;

use helix_agents_core::session::{OpenCall, OpenStep, RunRecord, SubSessionRef};
use helix_agents_core::state::StepWrites;
use helix_agents_core::store::{Family, Lookup, Paged, Staged, Unstage};
use helix_agents_core::stored::{decode, encode};
use helix_agents_core::{CallId, RunId, SessionId, StepId};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, ToSql, params};
use serde::{Deserialize, Serialize};

use crate::content::{self, Holder, Kind};
use crate::error::Fail;
use crate::headers;
use crate::key::{Owner, parsed, signed, size, wide};

/// How other rows name a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum RunNumber {
    /// Its number in the session.
    Number(u64),
    /// Its id: there is no record of it.
    Id(RunId),
}

impl ToSql for RunNumber {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Number(number) => signed(*number).into(),
            Self::Id(id) => id.as_str().into(),
        })
    }
}

impl FromSql for RunNumber {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value {
            ValueRef::Integer(number) => Ok(Self::Number(crate::key::unsigned(number))),
            other => RunId::new(other.as_str()?)
                .map(Self::Id)
                .map_err(|error| FromSqlError::Other(Box::new(error))),
        }
    }
}

/// How a run is named.
pub(crate) fn run_number(
    conn: &Connection,
    session: Owner,
    run: &RunId,
) -> Result<RunNumber, Fail> {
    Ok(match run_key(conn, session, run)? {
        Some(key) => RunNumber::Number(session.number(key)),
        None => RunNumber::Id(run.clone()),
    })
}

fn run_key(conn: &Connection, session: Owner, run: &RunId) -> Result<Option<i64>, Fail> {
    let key = conn
        .prepare_cached("SELECT at FROM run WHERE id = ? AND at BETWEEN ? AND ?")?
        .query_row(
            params![run.as_str(), session.first(), session.last()],
            |row| row.get(0),
        )
        .optional()?;
    Ok(key)
}

/// The ids of runs by their numbers, each read once.
pub(crate) struct Runs<'a> {
    conn: &'a Connection,
    session: Owner,
    known: BTreeMap<u64, RunId>,
}

impl<'a> Runs<'a> {
    pub(crate) fn new(conn: &'a Connection, session: Owner) -> Self {
        Self {
            conn,
            session,
            known: BTreeMap::new(),
        }
    }

    pub(crate) fn id(&mut self, run: RunNumber) -> Result<RunId, Fail> {
        let number = match run {
            RunNumber::Id(id) => return Ok(id),
            RunNumber::Number(number) => number,
        };
        if let Some(id) = self.known.get(&number) {
            return Ok(id.clone());
        }
        let id: RunId = self
            .conn
            .prepare_cached("SELECT id FROM run WHERE at = ?")?
            .query_row([self.session.row(number)?], |row| parsed(row, 0))?;
        self.known.insert(number, id.clone());
        Ok(id)
    }
}

/// The next free key of a table whose rows are numbered from 1.
pub(crate) fn next_key(conn: &Connection, session: Owner, sql: &str) -> Result<i64, Fail> {
    let last: Option<i64> = conn
        .prepare_cached(sql)?
        .query_row([session.first(), session.last()], |row| row.get(0))?;
    let number = last.map_or(0, |key| session.number(key));
    session.row(number + 1)
}

/// Writes a run under its id.
pub(crate) fn put_run(conn: &Connection, session: Owner, run: &RunRecord) -> Result<(), Fail> {
    let known = run_key(conn, session, &run.id)?;
    let key = match known {
        Some(key) => key,
        None => next_key(
            conn,
            session,
            "SELECT max(at) FROM run WHERE at BETWEEN ? AND ?",
        )?,
    };
    let holder = Holder::new(session, Kind::Run, key);
    if known.is_some() {
        content::release(conn, holder)?;
    }
    let cell = content::put(conn, holder, encode(run)?)?;
    conn.prepare_cached("INSERT OR REPLACE INTO run (at, id, data) VALUES (?, ?, ?)")?
        .execute(params![key, run.id.as_str(), cell])?;
    Ok(())
}

/// One run.
pub(crate) fn run(
    conn: &Connection,
    session: Owner,
    run: &RunId,
) -> Result<Option<RunRecord>, Fail> {
    let data = conn
        .prepare_cached("SELECT data FROM run WHERE id = ? AND at BETWEEN ? AND ?")?
        .query_row(
            params![run.as_str(), session.first(), session.last()],
            |row| row.get(0),
        )
        .optional()?;
    data.map(|data| Ok(decode(&content::get(conn, data)?)?))
        .transpose()
}

/// Runs, oldest first.
pub(crate) fn runs(
    conn: &Connection,
    session: &SessionId,
    which: Lookup<RunId>,
) -> Result<Paged<RunRecord>, Fail> {
    let owner = headers::owner(conn, session)?;
    match (owner, which) {
        (Some(owner), Lookup::One(id)) => Ok(one(run(conn, owner, &id)?)),
        (Some(owner), Lookup::Page(page)) => {
            let bounds = [owner.first(), owner.last()];
            let total: i64 = conn
                .prepare_cached("SELECT count(*) FROM run WHERE at BETWEEN ? AND ?")?
                .query_row(bounds, |row| row.get(0))?;
            let mut statement = conn.prepare_cached(
                "SELECT data FROM run WHERE at BETWEEN ? AND ? ORDER BY at LIMIT ? OFFSET ?",
            )?;
            let mut rows = statement.query(params![
                owner.first(),
                owner.last(),
                signed(wide(page.limit)),
                signed(wide(page.offset))
            ])?;
            let mut items = Vec::new();
            while let Some(row) = rows.next()? {
                items.push(decode(&content::get(conn, row.get(0)?)?)?);
            }
            let total = size(crate::key::unsigned(total));
            Ok(Paged::new(items, total, page))
        }
        _ => Ok(one(None)),
    }
}

/// A list of one, or of none.
pub(crate) fn one<T>(found: Option<T>) -> Paged<T> {
    let items: Vec<T> = found.into_iter().collect();
    let total = items.len();
    Paged::new(items, total, helix_agents_core::store::Page::ALL)
}

/// Writes the open step, or removes it.
pub(crate) fn put_open_step(
    conn: &Connection,
    session: Owner,
    step: Option<&OpenStep>,
) -> Result<(), Fail> {
    let holder = Holder::new(session, Kind::OpenStep, 0);
    let was_large: Option<bool> = conn
        .prepare_cached("DELETE FROM open_step WHERE session = ? RETURNING typeof(data) = 'blob'")?
        .query_row([session], |row| row.get(0))
        .optional()?;
    if was_large == Some(true) {
        content::release(conn, holder)?;
    }
    if let Some(step) = step {
        let cell = content::put(conn, holder, encode(step)?)?;
        conn.prepare_cached("INSERT INTO open_step (session, data) VALUES (?, ?)")?
            .execute(params![session, cell])?;
    }
    Ok(())
}

/// The open step.
pub(crate) fn open_step(conn: &Connection, session: Owner) -> Result<Option<OpenStep>, Fail> {
    let data = conn
        .prepare_cached("SELECT data FROM open_step WHERE session = ?")?
        .query_row([session], |row| row.get(0))
        .optional()?;
    data.map(|data| Ok(decode(&content::get(conn, data)?)?))
        .transpose()
}

/// Writes one call of the open step.
pub(crate) fn put_open_call(
    conn: &Connection,
    session: Owner,
    call: &CallId,
    open: OpenCall,
) -> Result<(), Fail> {
    let Some(mut step) = open_step(conn, session)? else {
        return Ok(());
    };
    let index = step.message.tool_calls().position(|made| made.id == *call);
    if let Some(slot) = index.and_then(|index| step.calls.get_mut(index)) {
        *slot = open;
        put_open_step(conn, session, Some(&step))?;
    }
    Ok(())
}

/// Writes a child under its session id.
pub(crate) fn put_child(
    conn: &Connection,
    session: Owner,
    child: &SubSessionRef,
) -> Result<(), Fail> {
    let name = child.session_id.as_str();
    let known: Option<i64> = conn
        .prepare_cached("SELECT at FROM child WHERE name = ? AND at BETWEEN ? AND ?")?
        .query_row(params![name, session.first(), session.last()], |row| {
            row.get(0)
        })
        .optional()?;
    let key = match known {
        Some(key) => key,
        None => next_key(
            conn,
            session,
            "SELECT max(at) FROM child WHERE at BETWEEN ? AND ?",
        )?,
    };
    let cell = content::put(conn, Holder::new(session, Kind::Child, key), encode(child)?)?;
    conn.prepare_cached("INSERT OR REPLACE INTO child (at, name, data) VALUES (?, ?, ?)")?
        .execute(params![key, name, cell])?;
    Ok(())
}

/// Keeps a call's writes.
pub(crate) fn stage(
    conn: &Connection,
    session: Owner,
    step: &StepId,
    call: &CallId,
    writes: &StepWrites,
) -> Result<(), Fail> {
    let (step, call) = (step.as_str(), call.as_str());
    let known: Option<i64> = conn
        .prepare_cached("SELECT at FROM staged WHERE at BETWEEN ? AND ? AND step = ? AND call = ?")?
        .query_row(
            params![session.first(), session.last(), step, call],
            |row| row.get(0),
        )
        .optional()?;
    let key = match known {
        Some(key) => key,
        None => next_key(
            conn,
            session,
            "SELECT max(at) FROM staged WHERE at BETWEEN ? AND ?",
        )?,
    };
    let holder = Holder::new(session, Kind::Staged, key);
    content::release(conn, holder)?;
    let cell = content::put(conn, holder, encode(writes)?)?;
    conn.prepare_cached(
        "INSERT OR REPLACE INTO staged (at, step, call, data) VALUES (?, ?, ?, ?)",
    )?
    .execute(params![key, step, call, cell])?;
    Ok(())
}

/// Forgets kept writes.
pub(crate) fn unstage(conn: &Connection, session: Owner, which: &Unstage) -> Result<(), Fail> {
    let (sql, step) = match which {
        Unstage::Step(step) => (
            "DELETE FROM staged WHERE at BETWEEN ? AND ? AND step = ? RETURNING at",
            Some(step),
        ),
        Unstage::AllBut(step) => (
            "DELETE FROM staged WHERE at BETWEEN ? AND ? AND step IS NOT ? RETURNING at",
            step.as_ref(),
        ),
        other => {
            let reason = format!("this store does not know {other:?}");
            return Err(Fail::corrupt("change", reason));
        }
    };
    let step = step.map(StepId::as_str);
    let keys: Vec<i64> = conn
        .prepare_cached(sql)?
        .query_map(params![session.first(), session.last(), step], |row| {
            row.get(0)
        })?
        .collect::<Result<_, _>>()?;
    for key in keys {
        content::release(conn, Holder::new(session, Kind::Staged, key))?;
    }
    Ok(())
}

/// Children, kept writes and retired call ids.
pub(crate) fn family(conn: &Connection, session: &SessionId) -> Result<Family, Fail> {
    let Some(owner) = headers::owner(conn, session)? else {
        return Ok(Family::default());
    };
    let bounds = [owner.first(), owner.last()];
    let mut children = Vec::new();
    let mut statement =
        conn.prepare_cached("SELECT data FROM child WHERE at BETWEEN ? AND ? ORDER BY at")?;
    let mut rows = statement.query(bounds)?;
    while let Some(row) = rows.next()? {
        children.push(decode(&content::get(conn, row.get(0)?)?)?);
    }
    let mut staged: BTreeMap<StepId, Vec<Staged>> = BTreeMap::new();
    let mut statement = conn.prepare_cached(
        "SELECT step, call, data FROM staged WHERE at BETWEEN ? AND ? ORDER BY at",
    )?;
    let mut rows = statement.query(bounds)?;
    while let Some(row) = rows.next()? {
        let writes = decode(&content::get(conn, row.get(2)?)?)?;
        let kept = Staged::new(parsed(row, 1)?, writes);
        staged.entry(parsed(row, 0)?).or_default().push(kept);
    }
    let retired = conn
        .prepare_cached("SELECT id FROM retired_call WHERE session = ? ORDER BY id")?
        .query_map([owner], |row| parsed(row, 0))?
        .collect::<Result<_, _>>()?;
    Ok(Family::new(children, staged, retired))
}
