//! Turns a plan into the arguments of the one write.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::message::Message;
use helix_agents_core::session::SubSessionRef;
use helix_agents_core::store::{Fence, Header, PerSession, Plan, Row, Unstage};
use helix_agents_core::stream::StreamStatus;
use helix_agents_core::usage::UsageEntry;
use serde_json::Value;

use crate::commit::States;
use crate::convert;
use crate::cuts;
use crate::headers::ReadHeaders;
use crate::listeners;
use crate::operation_error::OperationError;
use crate::ops::{self, Op, Ops, StoredAnswer};
use crate::outbox;
use crate::remembered::KnownState;
use crate::session_rows::{Act, SessionColumns, SessionRow, StepChange, has_same_columns};
use crate::states::{self, StateRow};
use crate::store::Inner;
use crate::stream_rows::{self, StreamWrite};

/// A plan, ready to be written.
#[derive(Debug)]
pub(crate) struct PreparedCommit {
    pub(crate) plan: Plan,
    pub(crate) sessions: SessionColumns,
    pub(crate) ops: Ops,
    /// What is written to the stream of the root, if it is.
    pub(crate) stream: Option<StreamWrite>,
    /// Whether a session is created, at the floor that was read.
    pub(crate) creates: bool,
    pub(crate) floor: Fence,
    /// The numbers of the sessions after the commit.
    pub(crate) keys: BTreeMap<SessionId, i64>,
    pub(crate) writes_stream: bool,
    pub(crate) ends_turn: bool,
    /// Whether it leaves an entry in the outbox.
    pub(crate) leaves: bool,
}

/// Prepares a plan. `states` are those that are remembered, and then those after the commit.
pub(crate) async fn prepare(
    on: &Inner,
    root: &SessionId,
    read: &ReadHeaders,
    mut plan: Plan,
    states: &mut States,
) -> Result<PreparedCommit, OperationError> {
    let left = outbox::entry(on, root, read, &plan);
    let rows = std::mem::take(&mut plan.rows);
    // Rows before the deletion of their session need not be written.
    let mut deleted: BTreeMap<SessionId, usize> = BTreeMap::new();
    for (at, (session, row)) in rows.iter().enumerate() {
        if matches!(row, Row::DeleteAll) {
            deleted.insert(session.clone(), at);
            states.remove(session);
        }
    }
    let rewinds_state = rows
        .iter()
        .any(|(_, row)| matches!(row, Row::StateRewind { .. }));
    let mut writer = RowWriter {
        on,
        read,
        headers: &plan.headers,
        keys: BTreeMap::new(),
        ops: Ops::default(),
        steps: BTreeMap::new(),
        usage: BTreeMap::new(),
        messages: BTreeMap::new(),
        states,
        made: rewinds_state.then(BTreeMap::new),
    };
    let mut creates = false;
    for (session, header) in plan.headers.iter() {
        let key = match (read.keys.get(session), header) {
            (_, None) => continue,
            (Some(key), Some(_)) if !deleted.contains_key(session) => *key,
            _ => {
                creates = true;
                on.keys.next(&on.database).await?
            }
        };
        writer.keys.insert(session.clone(), key);
    }
    for (session, key) in &read.keys {
        if !plan.headers.contains_key(session) {
            writer.keys.insert(session.clone(), *key);
        }
    }
    for (at, (session, row)) in rows.into_iter().enumerate() {
        if deleted.get(&session).is_none_or(|last| at > *last) {
            writer.row(&session, row, at).await?;
        }
    }
    let (sessions, mut ops, keys) = writer.finish(&deleted)?;
    let writes_stream = !on.config.outbox
        && (!plan.chunks.is_empty() || plan.stream.is_some() || plan.rewind.is_some());
    let stream = match keys.get(root).filter(|_| writes_stream) {
        Some(key) => Some(stream_rows::prepare(on, *key, &mut plan, &mut ops).await?),
        None => None,
    };
    let leaves = left.is_some();
    if let Some(left) = left {
        let key = keys.get(root).copied();
        let new_key = key.filter(|key| read.keys.get(root) != Some(key));
        let is_gone = matches!(plan.headers.get(root), Some(None));
        ops.push(outbox::leave(&left, new_key, is_gone)?);
    }
    Ok(PreparedCommit {
        sessions,
        ops,
        stream,
        creates,
        floor: read.floor,
        keys,
        writes_stream,
        ends_turn: writes_stream
            && matches!(
                plan.stream,
                Some(StreamStatus::Ended | StreamStatus::Failed)
            ),
        leaves,
        plan,
    })
}

struct RowWriter<'a> {
    on: &'a Inner,
    read: &'a ReadHeaders,
    headers: &'a PerSession<Option<Arc<Header>>>,
    keys: BTreeMap<SessionId, i64>,
    ops: Ops,
    steps: BTreeMap<SessionId, StepChange>,
    /// Usage entries, which are written as one row for each session.
    usage: BTreeMap<SessionId, Vec<UsageEntry>>,
    /// The messages that this commit adds, each with its position.
    messages: BTreeMap<SessionId, Vec<(usize, Vec<Message>)>>,
    states: &'a mut States,
    /// The versions of states that this commit makes, if it goes back to one.
    made: Option<BTreeMap<(SessionId, u64), Arc<Value>>>,
}

impl RowWriter<'_> {
    fn key(&self, session: &SessionId) -> Result<i64, OperationError> {
        let key = self.keys.get(session).copied();
        key.ok_or_else(|| OperationError::internal("a row of a plan belongs to no session"))
    }

    /// A number that grows with each commit of a session, and with each row within a commit.
    fn moment(&self, session: &SessionId, at: usize) -> i64 {
        let header = self.headers.get(session).and_then(Option::as_ref);
        let version = header.map_or(0, |header| header.session.version);
        convert::signed(version) << 16 | i64::from(u16::try_from(at).unwrap_or(u16::MAX))
    }

    #[deny(clippy::wildcard_enum_match_arm)]
    async fn row(
        &mut self,
        session: &SessionId,
        row: Row,
        at: usize,
    ) -> Result<(), OperationError> {
        let key = self.key(session)?;
        let moment = self.moment(session, at);
        match row {
            // It is carried out with the row of the session.
            Row::DeleteAll => {}
            Row::Messages { at, messages } => {
                self.ops.messages(key, at, &messages)?;
                let added = self.messages.entry(session.clone()).or_default();
                added.push((at, messages));
            }
            Row::TruncateMessages { keep } => self.truncate(session, key, keep).await?,
            Row::StateSet { version, value } => {
                self.make_state(session, key, states::whole(version, value)?);
            }
            Row::StateWrites { version, writes } => {
                let before = self.state(session, key, version.saturating_sub(1)).await?;
                let row = states::applied(session, before, version, &writes)?;
                self.make_state(session, key, row);
            }
            Row::StateRewind { version, to } => {
                let earlier = self.earlier_state(session, key, to).await?;
                self.make_state(session, key, states::whole(version, earlier)?);
            }
            Row::Run(run) => self.ops.document((ops::RUN, key), &run.id, moment, &*run)?,
            Row::Checkpoint(one) => {
                self.ops
                    .document((ops::CHECKPOINT, key), &one.id, moment, &one)?;
            }
            Row::DropCheckpoints { after } => self.ops.push(Op {
                kind: ops::DROP_CHECKPOINTS,
                key,
                id: after.and_then(ops::bytes),
                ..Op::default()
            }),
            Row::OpenStep(step) => {
                let step =
                    StepChange::Replaced(step.map(|step| Box::new(Arc::unwrap_or_clone(step))));
                self.steps.insert(session.clone(), step);
            }
            Row::OpenCall(call, open) => {
                let step = self.steps.entry(session.clone()).or_default();
                step.set_call(call, *open);
            }
            Row::Pending(call) => self.ops.push(Op {
                kind: ops::PENDING,
                key,
                n: convert::millis(call.created_at),
                m: i64::from(call.answer.is_none()),
                id: ops::bytes(&call.tool_call_id),
                sub: ops::bytes(&call.root_session_id),
                data: Some(convert::document(&*call)?),
            }),
            Row::Answer(call, answer) => {
                let answer = StoredAnswer(*answer);
                self.ops.document((ops::ANSWER, key), &call, 0, &answer)?;
            }
            Row::RemovePending(call) => self.ops.by_id(ops::REMOVE_PENDING, key, &call),
            Row::Answered(answered) => self.ops.answered(key, &answered)?,
            Row::ForgetAnswered(calls) => {
                for call in calls {
                    self.ops.by_id(ops::FORGET_ANSWERED, key, &call);
                }
            }
            Row::Child(child) => self.child((ops::CHILD, key), moment, &child)?,
            Row::UpdateChild(child) => self.child((ops::UPDATE_CHILD, key), moment, &child)?,
            Row::Unlink(calls) => {
                for call in calls {
                    self.ops.by_id(ops::UNLINK, key, &call);
                }
            }
            Row::Usage(entry) => self.usage.entry(session.clone()).or_default().push(entry),
            Row::Stage(step, call, writes) => self.ops.push(Op {
                kind: ops::STAGE,
                key,
                n: moment,
                m: 0,
                id: ops::bytes(&step),
                sub: ops::bytes(&call),
                data: Some(convert::document(&writes)?),
            }),
            Row::Unstage(Unstage::Step(step)) => self.ops.by_id(ops::UNSTAGE, key, &step),
            Row::Unstage(Unstage::AllBut(step)) => self.ops.push(Op {
                kind: ops::UNSTAGE_OTHERS,
                key,
                id: step.and_then(ops::bytes),
                ..Op::default()
            }),
            Row::RetireCallIds(ids) => self.ops.retire(key, ids),
        }
        Ok(())
    }

    fn child(
        &mut self,
        (kind, key): (i16, i64),
        moment: i64,
        child: &SubSessionRef,
    ) -> Result<(), OperationError> {
        self.ops.push(Op {
            kind,
            key,
            n: moment,
            m: 0,
            id: ops::bytes(&child.session_id),
            sub: ops::bytes(&child.tool_call_id),
            data: Some(convert::document(child)?),
        });
        Ok(())
    }

    /// Removes messages from a position on, stored ones and those of this commit, and retires their calls.
    async fn truncate(
        &mut self,
        session: &SessionId,
        key: i64,
        keep: usize,
    ) -> Result<(), OperationError> {
        if self.read.keys.get(session) == Some(&key) {
            let gone = cuts::calls_from(self.on, key, keep).await?;
            self.ops.retire(key, gone);
        }
        if let Some(added) = self.messages.get_mut(session) {
            let gone = added.extract_if(.., |(at, _)| *at >= keep);
            let gone: Vec<_> = gone.flat_map(|(_, messages)| messages).collect();
            self.ops.retire(key, cuts::call_ids(&gone));
        }
        self.ops.push(Op {
            kind: ops::TRUNCATE,
            key,
            n: convert::count(keep),
            ..Op::default()
        });
        Ok(())
    }

    fn make_state(&mut self, session: &SessionId, key: i64, mut row: StateRow) {
        self.ops.state(key, &mut row);
        if let Some(made) = &mut self.made {
            let value = Arc::clone(&row.known.value);
            made.insert((session.clone(), row.known.version), value);
        }
        self.states.insert(session.clone(), row.known);
    }

    /// Any version of the state.
    async fn earlier_state(
        &mut self,
        session: &SessionId,
        key: i64,
        version: u64,
    ) -> Result<Arc<Value>, OperationError> {
        let made = self.made.as_ref();
        match made.and_then(|made| made.get(&(session.clone(), version))) {
            Some(value) => Ok(Arc::clone(value)),
            None => Ok(self.state(session, key, version).await?.value),
        }
    }

    /// The latest version of the state, as this commit or an earlier one has made it.
    async fn state(
        &mut self,
        session: &SessionId,
        key: i64,
        version: u64,
    ) -> Result<KnownState, OperationError> {
        if let Some(known) = self.states.remove(session)
            && known.version == version
        {
            return Ok(known);
        }
        let stored = match self.read.keys.get(session) {
            Some(stored) if *stored == key => states::read(self.on, key, version).await?,
            _ => None,
        };
        stored.ok_or_else(|| states::no_version(session, version).into())
    }

    /// The rows of the sessions, with the operations that go with them.
    fn finish(
        mut self,
        deleted: &BTreeMap<SessionId, usize>,
    ) -> Result<(SessionColumns, Ops, BTreeMap<SessionId, i64>), OperationError> {
        for (session, entries) in std::mem::take(&mut self.usage) {
            let key = self.key(&session)?;
            self.ops.usage(key, &entries)?;
        }
        let mut columns = SessionColumns::default();
        let scope = self.on.config.schema.as_bytes();
        let scope = listeners::hash(0, scope);
        for session in self.names() {
            let session = &session;
            let key = self.read.keys.get(session).copied();
            let before = self.read.headers.get(session).map(|before| &**before);
            let planned = self.headers.get(session).map(Option::as_ref);
            let after = planned.flatten().map(|after| &**after);
            let is_new = key.is_none() || deleted.contains_key(session);
            let act = match (before, planned.is_some(), after) {
                (Some(_), false, _) => Act::Read,
                (Some(_), true, None) => Act::Delete,
                (_, true, Some(_)) if is_new => Act::Create,
                (Some(before), true, Some(after)) if has_same_columns(before, after) => Act::Update,
                (Some(_), true, Some(_)) => Act::UpdateWithColumns,
                (None, ..) => Act::Absent,
            };
            let new_key = self.keys.get(session).copied().filter(|_| is_new);
            if let Some(after) = after {
                let number = self.key(session)?;
                let before = before.filter(|_| !is_new);
                self.ops.due(number, session, before, after)?;
                self.ops.labels(number, before, after);
            }
            let step = self.steps.remove(session).unwrap_or_default();
            let row = SessionRow {
                session,
                key,
                before,
                after,
                new_key,
                act,
                step,
            };
            columns.push(scope, row)?;
        }
        Ok((columns, self.ops, self.keys))
    }

    /// The sessions that were read, and those that are written, in the order of their names.
    fn names(&self) -> BTreeSet<SessionId> {
        let written = self.headers.iter().map(|(session, _)| session);
        written.chain(&self.read.named).cloned().collect()
    }
}
