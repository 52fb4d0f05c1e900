//! Carrying out the rows of a plan, one after another.

use std::collections::{BTreeMap, BTreeSet};

use helix_agents_core::SessionId;
use helix_agents_core::store::{Header, Plan, Row};
use helix_agents_core::usage::UsageEntry;
use rusqlite::Connection;

use crate::error::Fail;
use crate::headers::{self, Found};
use crate::key::Owner;
use crate::{checkpoints, delete, messages, pending, records, states, usage};

/// Writes what a plan says, but its chunks.
pub(crate) fn write(
    conn: &Connection,
    found: &BTreeMap<SessionId, Found>,
    plan: &mut Plan,
) -> Result<(), Fail> {
    let rows = std::mem::take(&mut plan.rows);
    let mut writing = Writing {
        conn,
        found,
        headers: &plan.headers,
        made: BTreeMap::new(),
        gone: BTreeSet::new(),
        usage: BTreeMap::new(),
    };
    // What is written before its session is deleted need not be written.
    let deleted: BTreeMap<SessionId, usize> = rows
        .iter()
        .enumerate()
        .filter(|(_, (_, row))| *row == Row::DeleteAll)
        .map(|(at, (session, _))| (session.clone(), at))
        .collect();
    for (at, (session, row)) in rows.into_iter().enumerate() {
        match deleted.get(&session) {
            Some(last) if at < *last => {}
            Some(last) if at == *last => writing.delete(session)?,
            _ => writing.row(session, row)?,
        }
    }
    writing.finish()
}

struct Writing<'a> {
    conn: &'a Connection,
    found: &'a BTreeMap<SessionId, Found>,
    headers: &'a BTreeMap<SessionId, Option<Header>>,
    /// Sessions that this commit made, with their numbers.
    made: BTreeMap<SessionId, Owner>,
    /// Sessions that this commit removed.
    gone: BTreeSet<SessionId>,
    /// The usage of one commit is one row.
    usage: BTreeMap<SessionId, Vec<UsageEntry>>,
}

impl Writing<'_> {
    /// The session as it was found, unless it was removed since.
    fn before(&self, session: &SessionId) -> Option<&Found> {
        let found = self.found.get(session);
        found.filter(|_| !self.gone.contains(session))
    }

    /// The number of a session, which is made when it does not exist yet.
    fn owner(&mut self, session: &SessionId) -> Result<Owner, Fail> {
        if let Some(found) = self.before(session) {
            return Ok(found.owner);
        }
        if let Some(made) = self.made.get(session) {
            return Ok(*made);
        }
        let Some(Some(header)) = self.headers.get(session) else {
            return Err(Fail::corrupt("plan", "a row belongs to no session"));
        };
        let owner = headers::insert(self.conn, session, header)?;
        self.made.insert(session.clone(), owner);
        Ok(owner)
    }

    fn delete(&mut self, session: SessionId) -> Result<(), Fail> {
        if let Some(found) = self.before(&session) {
            delete::session(self.conn, found.owner, &session)?;
        }
        self.gone.insert(session);
        Ok(())
    }

    fn row(&mut self, session: SessionId, row: Row) -> Result<(), Fail> {
        let conn = self.conn;
        let owner = self.owner(&session)?;
        match row {
            Row::Messages { at, messages } => messages::append(conn, owner, at, &messages),
            Row::TruncateMessages { keep } => messages::truncate(conn, owner, keep),
            Row::StateWrites { version, writes } => {
                states::apply(conn, (owner, &session), version, &writes)
            }
            Row::StateSet { version, value } => states::set(conn, owner, version, &value),
            Row::StateRewind { version, to } => {
                states::rewind(conn, (owner, &session), version, to)
            }
            Row::Run(run) => records::put_run(conn, owner, &run),
            Row::Checkpoint(one) => checkpoints::put(conn, owner, &one),
            Row::OpenStep(step) => records::put_open_step(conn, owner, step.as_deref()),
            Row::OpenCall(call, open) => records::put_open_call(conn, owner, &call, *open),
            Row::Pending(call) => {
                let header = self.headers.get(&session).and_then(Option::as_ref);
                let user = header.and_then(|header| header.session.user_id.as_ref());
                pending::put(conn, owner, user.map(AsRef::as_ref), &call)
            }
            Row::Answer(call, answer) => pending::answer(conn, owner, &call, *answer),
            Row::RemovePending(call) => pending::remove(conn, owner, &call),
            Row::Child(child) => records::put_child(conn, owner, &child),
            Row::Usage(entry) => {
                self.usage.entry(session).or_default().push(entry);
                Ok(())
            }
            Row::Stage(step, call, writes) => records::stage(conn, owner, &step, &call, &writes),
            Row::Unstage(which) => records::unstage(conn, owner, &which),
            Row::RetireCallIds(ids) => messages::retire(conn, owner, ids.iter()),
            other => {
                let reason = format!("this store does not know {other:?}");
                Err(Fail::corrupt("row", reason))
            }
        }
    }

    /// Writes what comes last: usage, whose runs are known now, and headers.
    fn finish(mut self) -> Result<(), Fail> {
        for (session, entries) in std::mem::take(&mut self.usage) {
            let owner = self.owner(&session)?;
            usage::append(self.conn, owner, &entries)?;
        }
        let headers = self.headers;
        for (session, header) in headers {
            let Some(header) = header else {
                continue;
            };
            match self.before(session) {
                Some(found) => headers::update(self.conn, found, header)?,
                // One that was just made has its header already.
                None => drop(self.owner(session)?),
            }
        }
        Ok(())
    }
}
