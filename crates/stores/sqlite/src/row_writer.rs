//! Writes the rows and headers of a plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::store::{Header, Headers, PerSession, Plan, Row};
use helix_agents_core::usage::UsageEntry;

use crate::headers::{self, HeaderPlace};
use crate::key::{OwnerId, signed};
use crate::open_steps::OpenStepChange;
use crate::operation_error::OperationError;
use crate::write_connection::WriteConnection;
use crate::{
    answered_calls, checkpoints, delete, due, extras, messages, pending, runs, states, usage,
};

/// Writes the rows and headers of a plan, in their order. Its chunks are written by `streams`. `places`
/// and `before` are the sessions as they were read; deleted sessions are removed from `places`.
pub(crate) fn write(
    db: &WriteConnection,
    places: &mut BTreeMap<SessionId, HeaderPlace>,
    before: &Headers,
    plan: &mut Plan,
) -> Result<(), OperationError> {
    let rows = std::mem::take(&mut plan.rows);
    let mut writing = RowWriter {
        db,
        places,
        before,
        headers: &plan.headers,
        inserted: BTreeMap::new(),
        steps: BTreeMap::new(),
        usage: BTreeMap::new(),
    };
    // Rows before the deletion of their session need not be written.
    let deleted: BTreeMap<SessionId, usize> = rows
        .iter()
        .enumerate()
        .filter(|(_, (_, row))| *row == Row::DeleteAll)
        .map(|(at, (session, _))| (session.clone(), at))
        .collect();
    for (at, (session, row)) in rows.into_iter().enumerate() {
        match deleted.get(&session) {
            Some(last) if at < *last => {}
            Some(last) if at == *last => writing.delete(&session)?,
            _ => writing.row(session, row, at)?,
        }
    }
    writing.finish()
}

struct RowWriter<'a> {
    db: &'a WriteConnection,
    /// The sessions that existed before this commit.
    places: &'a mut BTreeMap<SessionId, HeaderPlace>,
    before: &'a Headers,
    headers: &'a PerSession<Option<Arc<Header>>>,
    /// The sessions that this commit has inserted, with their numbers.
    inserted: BTreeMap<SessionId, OwnerId>,
    /// Changes of open steps, which are written with the headers.
    steps: BTreeMap<SessionId, OpenStepChange>,
    /// Usage entries, which are written as one row for each session.
    usage: BTreeMap<SessionId, Vec<UsageEntry>>,
}

impl RowWriter<'_> {
    /// The number of a session, which is inserted when it does not exist yet.
    fn owner(&mut self, session: &SessionId) -> Result<OwnerId, OperationError> {
        if let Some(place) = self.places.get(session) {
            return Ok(place.owner);
        }
        if let Some(owner) = self.inserted.get(session) {
            return Ok(*owner);
        }
        let Some(Some(header)) = self.headers.get(session) else {
            return Err(OperationError::internal(
                "a row of a plan belongs to no session",
            ));
        };
        let owner = headers::insert(&self.db.conn, session, header)?;
        self.inserted.insert(session.clone(), owner);
        Ok(owner)
    }

    /// A number that grows with each commit of a session, and with each row within a commit.
    fn moment(&self, session: &SessionId, at: usize) -> i64 {
        let header = self.headers.get(session).and_then(Option::as_ref);
        let version = header.map_or(0, |header| header.session.version);
        signed(version) << 16 | i64::from(u16::try_from(at).unwrap_or(u16::MAX))
    }

    fn delete(&mut self, session: &SessionId) -> Result<(), OperationError> {
        if let Some(place) = self.places.remove(session) {
            let before = self.before.get(session).map(|before| &**before);
            due::update_index(&self.db.conn, session, before, None)?;
            delete::session(&self.db.conn, place.owner, session)?;
            self.db.cache.borrow_mut().clear();
        }
        Ok(())
    }

    #[deny(clippy::wildcard_enum_match_arm)]
    fn row(&mut self, session: SessionId, row: Row, at: usize) -> Result<(), OperationError> {
        let conn = &self.db.conn;
        let owner = self.owner(&session)?;
        match row {
            Row::DeleteAll => self.delete(&session),
            Row::Messages { at, messages } => messages::append(conn, owner, at, &messages),
            Row::TruncateMessages { keep } => messages::truncate(conn, owner, keep),
            Row::StateWrites { version, writes } => {
                states::apply(self.db, (owner, &session), version, &writes)
            }
            Row::StateSet { version, value } => states::set(conn, owner, version, &value),
            Row::StateRewind { version, to } => {
                states::rewind(conn, (owner, &session), version, to)
            }
            Row::Run(run) => runs::put(self.db, owner, &run),
            Row::Checkpoint(one) => {
                let moment = self.moment(&session, at);
                checkpoints::put(self.db, owner, moment, &one)
            }
            Row::DropCheckpoints { after } => checkpoints::drop_after(conn, owner, after.as_ref()),
            Row::OpenStep(step) => {
                self.steps.insert(session, OpenStepChange::Replaced(step));
                Ok(())
            }
            Row::OpenCall(call, open) => {
                let step = self.steps.entry(session).or_default();
                step.set_call(conn, owner, &call, *open)
            }
            Row::Pending(call) => {
                let header = self.headers.get(&session).and_then(Option::as_ref);
                let user = header.and_then(|header| header.session.user_id.as_ref());
                pending::put(conn, owner, user.map(AsRef::as_ref), &call)
            }
            Row::Answer(call, answer) => pending::answer(conn, owner, &call, *answer),
            Row::RemovePending(call) => pending::remove(conn, owner, &call),
            Row::Answered(answered) => answered_calls::put(conn, owner, &answered),
            Row::ForgetAnswered(calls) => answered_calls::remove(conn, owner, &calls),
            Row::Child(child) => extras::put_child(conn, owner, &child),
            Row::UpdateChild(child) => extras::update_child(conn, owner, &child),
            Row::Unlink(calls) => extras::remove_children(conn, owner, &calls),
            Row::Usage(entry) => {
                self.usage.entry(session).or_default().push(entry);
                Ok(())
            }
            Row::Stage(step, call, writes) => extras::stage(conn, owner, &step, &call, &writes),
            Row::Unstage(which) => extras::unstage(conn, owner, &which),
            Row::RetireCallIds(ids) => extras::retire(conn, owner, ids.iter()),
        }
    }

    /// Writes usage, whose runs have rows now, and the headers.
    fn finish(mut self) -> Result<(), OperationError> {
        for (session, entries) in std::mem::take(&mut self.usage) {
            let owner = self.owner(&session)?;
            usage::append(self.db, owner, &entries)?;
        }
        let headers = self.headers;
        for (session, header) in headers.iter() {
            let Some(header) = header else {
                continue;
            };
            let step = self.steps.remove(session).unwrap_or_default();
            let conn = &self.db.conn;
            match (self.places.get_mut(session), self.before.get(session)) {
                (Some(place), Some(before)) => {
                    headers::update(conn, place, before, header, &step)?;
                }
                // A new session was inserted with its header.
                _ => headers::write_step(conn, self.owner(session)?, &step)?,
            }
        }
        Ok(())
    }
}
