//! Applies each change to a header, and collects the rows that it writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{STEP_IS_OPEN, labels};
use crate::budget::BudgetLedger;
use crate::id::{CallId, SessionId};
use crate::message::Message;
use crate::session::{
    Checkpoint, CheckpointSource, RunStatus, RunTrigger, SessionState, StopKind, StopRequest,
    TurnStart,
};
use crate::state::check_whole;
use crate::store::header::{Header, LatestRun, PendingCallMark};
use crate::store::{AnsweredCall, Change, Fence, Field, OpenStepMark, Row, StoreError};
use crate::time::Timestamp;

const MODE_IS_SET: &str = "its mode is set already, and is set only once";

/// Applies the changes of one session, one after another.
pub(super) struct Applying<'a> {
    pub(super) root: &'a SessionId,
    pub(super) session: &'a SessionId,
    pub(super) at: Timestamp,
    pub(super) now: Timestamp,
    pub(super) rows: &'a mut Vec<(SessionId, Row)>,
    pub(super) raised: &'a mut Option<Fence>,
    pub(super) floor: &'a mut dyn FnMut() -> Result<Fence, StoreError>,
    pub(super) messages_kept: &'a mut dyn FnMut(&SessionId, usize) -> Result<usize, StoreError>,
}

impl Applying<'_> {
    fn row(&mut self, row: Row) {
        self.rows.push((self.session.clone(), row));
    }

    fn invalid(&self, reason: impl Into<String>) -> StoreError {
        StoreError::Invalid {
            session: self.session.clone(),
            reason: reason.into(),
        }
    }

    /// Applies a change to a header, which is copied only if it is shared.
    pub(super) fn apply(
        &mut self,
        header: &mut Option<Arc<Header>>,
        change: Change,
    ) -> Result<(), StoreError> {
        let Some(present) = header else {
            let Change::Create(session) = change else {
                return Err(StoreError::NotFound {
                    session: self.session.clone(),
                });
            };
            *header = Some(Arc::new(self.create(&session)?));
            return Ok(());
        };
        match change {
            Change::Create(_) => Err(StoreError::AlreadyExists {
                session: self.session.clone(),
            }),
            _ if present.session.root() != self.root => Err(StoreError::NotFound {
                session: self.session.clone(),
            }),
            Change::Delete => {
                self.row(Row::DeleteAll);
                let above = Fence(present.fence.0 + 1);
                *self.raised = (*self.raised).max(Some(above));
                *header = None;
                Ok(())
            }
            change => {
                let present = Arc::make_mut(present);
                // A header of an earlier version holds the answered calls.
                let before = std::mem::take(&mut present.session.completed_client_tool_calls);
                self.add_answered(before);
                self.change(present, change)
            }
        }
    }

    fn create(&mut self, session: &SessionState) -> Result<Header, StoreError> {
        if session.session_id != *self.session {
            return Err(self.invalid("it is created under another id"));
        }
        if session.root() != self.root {
            return Err(self.invalid("it is created under another root"));
        }
        self.check_labels(session)?;
        if session.parent_session_id.is_none() && self.session != self.root {
            return Err(self.invalid("it is created under a root without a parent"));
        }
        let floor = (self.floor)()?.max(self.raised.unwrap_or_default());
        let session_now = SessionState {
            created_at: self.at,
            ..without_content(session)
        };
        let mut header = Header::created(session_now, floor);
        self.set_state(&mut header, &session.custom_state)?;
        self.add_pending(&mut header, session);
        self.add_answered(session.completed_client_tool_calls.clone());
        Ok(header)
    }

    fn check_labels(&self, session: &SessionState) -> Result<(), StoreError> {
        labels::limit_violation(session)
            .map_or(Ok(()), |limit_violation| Err(self.invalid(limit_violation)))
    }

    fn add_answered(&mut self, calls: BTreeMap<CallId, Timestamp>) {
        for (call, at) in calls {
            self.row(Row::Answered(AnsweredCall::new(call, at)));
        }
    }

    fn add_pending(&mut self, header: &mut Header, session: &SessionState) {
        for pending in session.pending_client_tool_calls.values() {
            mark(header, pending);
            self.row(Row::Pending(Box::new(pending.clone())));
        }
    }

    fn overwrite(&mut self, header: &mut Header, with: &SessionState) -> Result<(), StoreError> {
        if with.session_id != *self.session {
            return Err(self.invalid("what is to be saved belongs to another session"));
        }
        self.check_labels(with)?;
        let old = &header.session;
        if old.mode.is_some() && with.mode != old.mode {
            return Err(self.invalid(MODE_IS_SET));
        }
        // The calls of a run that is running or suspended must not be changed by others: its step
        // would be left without its pending calls.
        let keeps_pending = header.run.is_some() && header.may_have_open_step();
        let mut with_session = without_content(with);
        if keeps_pending {
            let kept = old.clone();
            with_session.suspended_step_id = kept.suspended_step_id;
            with_session.suspended_awaiting_children = kept.suspended_awaiting_children;
            with_session.client_tool_call_ownership = kept.client_tool_call_ownership;
        }
        header.session = SessionState {
            created_at: old.created_at,
            version: old.version,
            parent_session_id: old.parent_session_id.clone(),
            root_session_id: old.root_session_id.clone(),
            persistent: old.persistent.clone(),
            // Saving an older reading must not point the session at an older checkpoint.
            checkpoint_id: old.checkpoint_id.clone(),
            checkpointed_at: old.checkpointed_at,
            checkpoint_source: old.checkpoint_source,
            ..with_session
        };
        if !keeps_pending {
            for call in std::mem::take(&mut header.calls).into_keys() {
                self.row(Row::RemovePending(call));
            }
            self.add_pending(header, with);
        }
        // Saving a reading without them takes no answer back.
        self.add_answered(with.completed_client_tool_calls.clone());
        self.set_state(header, &with.custom_state)
    }

    fn set_state(&mut self, header: &mut Header, value: &Arc<Value>) -> Result<(), StoreError> {
        check_whole(value).map_err(|source| StoreError::State {
            session: self.session.clone(),
            source,
        })?;
        header.state_version += 1;
        self.row(Row::StateSet {
            version: header.state_version,
            value: Arc::clone(value),
        });
        Ok(())
    }

    fn change(&mut self, header: &mut Header, change: Change) -> Result<(), StoreError> {
        match change {
            Change::Create(_) | Change::Delete => {}
            Change::Truncate(count) => {
                header.notices.clear();
                if count < header.messages {
                    let keep = (self.messages_kept)(self.session, count)?;
                    header.messages = keep;
                    header.cuts = header.cuts.saturating_add(1);
                    self.row(Row::TruncateMessages { keep });
                }
            }
            Change::AppendUser(message) => {
                self.append(header, vec![Message::User(message)]);
            }
            Change::AppendStep(step) => {
                let mut messages = Vec::with_capacity(step.message_count());
                let (assistant, results) = step.into_parts();
                messages.push(Message::Assistant(assistant));
                messages.extend(results.into_iter().map(Message::Tool));
                self.append(header, messages);
                append_notices(header, self.session, self.rows);
            }
            Change::WriteState(writes) => {
                if !writes.is_empty() {
                    header.state_version += 1;
                    self.row(Row::StateWrites {
                        version: header.state_version,
                        writes,
                    });
                }
            }
            Change::Overwrite(with) => self.overwrite(header, &with)?,
            Change::SetState(value) => self.set_state(header, &value)?,
            Change::RewindState(to) => {
                if to == 0 || to > header.state_version {
                    return Err(self.invalid(format!("its state has no version {to}")));
                }
                header.state_version += 1;
                let version = header.state_version;
                self.row(Row::StateRewind { version, to });
            }
            Change::Set(field) => self.set(&mut header.session, field)?,
            Change::RaiseFence => {
                header.fence.0 += 1;
                header.mark.fenced();
            }
            Change::Lease(lease) => header.lease = lease.map(|lease| lease.at(self.now)),
            Change::TakeOver => {
                let in_order = header.lease.as_ref().is_some_and(|lease| lease.given_up);
                header.takeovers = header.takeovers.saturating_add(u32::from(!in_order));
            }
            Change::StartRun(mut run) => {
                if header.mark.open.is_some() && run.trigger != RunTrigger::Continue {
                    return Err(self.invalid(STEP_IS_OPEN));
                }
                // A stop request of a suspended run passes to the run that continues it.
                let owed = header.stop.take();
                let owed = owed.filter(|_| run.trigger == RunTrigger::Continue);
                header.stop = owed.map(|stop| StopRequest {
                    run_id: run.id.clone(),
                    ..stop
                });
                if matches!(run.trigger, RunTrigger::Execute | RunTrigger::WithMessage) {
                    let (sent, messages) = (run.messages, header.messages);
                    let filled = |one: TurnStart| one.filled(sent, messages, header.state_version);
                    run.turn_start = run.turn_start.map(filled);
                }
                header.run = Some(LatestRun::of(&run));
                header.takeovers = 0;
                self.row(Row::Run(run));
            }
            Change::Run(run) => {
                let is_latest = |latest: &LatestRun| latest.id == run.id;
                if header.run.as_ref().is_some_and(is_latest) {
                    header.run = Some(LatestRun::of(&run));
                    if run.status.is_ended() && !run.status.is_suspended() {
                        // The run has stopped by itself: the request is obsolete.
                        header.stop = None;
                    }
                }
                self.row(Row::Run(run));
            }
            Change::CheckpointHere(checkpoint) => {
                let here = Checkpoint {
                    step_count: header.session.step_count,
                    message_count: header.messages,
                    state_version: header.state_version,
                    status: header.session.status,
                    ..checkpoint
                };
                let change = Change::Checkpoint(here, CheckpointSource::Staging);
                self.change(header, change)?;
            }
            Change::Checkpoint(checkpoint, source) => {
                if checkpoint.session_id != *self.session {
                    return Err(self.invalid("a checkpoint belongs to another session"));
                }
                header.session.checkpoint_id = Some(checkpoint.id.clone());
                header.session.checkpointed_at = Some(checkpoint.timestamp);
                header.session.checkpoint_source = Some(source);
                self.row(Row::Checkpoint(checkpoint));
            }
            Change::DropCheckpointsAfter(kept) => {
                if kept
                    .as_ref()
                    .is_some_and(|kept| kept.session_id != *self.session)
                {
                    return Err(self.invalid("a checkpoint belongs to another session"));
                }
                let session = &mut header.session;
                session.checkpoint_id = kept.as_ref().map(|kept| kept.id.clone());
                session.checkpointed_at = kept.as_ref().map(|kept| kept.timestamp);
                session.checkpoint_source = kept.as_ref().map(|_| CheckpointSource::Staging);
                let after = kept.map(|kept| kept.id);
                self.row(Row::DropCheckpoints { after });
            }
            Change::OpenStep(step) => {
                header.mark.open = step.as_deref().map(OpenStepMark::of);
                self.row(Row::OpenStep(step));
            }
            Change::OpenCall(index, call, state) => {
                if let Some(open) = &mut header.mark.open {
                    open.set(index, &state);
                }
                self.row(Row::OpenCall(call, state));
            }
            Change::Effect(n, failure) => {
                header.mark.effect = n;
                header.mark.begun = None;
                header.mark.failure = failure;
            }
            Change::Begin(begun) => header.mark.begun = Some(begun),
            Change::Adopt(steps, open) => {
                if let Some(run) = &mut header.run {
                    run.steps = steps;
                }
                header.mark.open = open;
            }
            Change::Pending(pending) => {
                mark(header, &pending);
                self.row(Row::Pending(pending));
            }
            Change::Answer(call, answer) => {
                let Some(mark) = header.calls.get_mut(&call) else {
                    return Err(self.invalid(format!("call {call} is not pending")));
                };
                mark.answered = true;
                self.row(Row::Answer(call, answer));
            }
            Change::RemovePending(call) => {
                if header.calls.remove(&call).is_some() {
                    self.row(Row::RemovePending(call));
                }
            }
            Change::Notice(message) => header.notices.push(message),
            Change::Child(child) => self.row(Row::Child(child)),
            Change::UpdateChild(child) => self.row(Row::UpdateChild(child)),
            Change::Stop(stop) => {
                let running = header.run.as_ref().is_some_and(|run| {
                    run.id == stop.run_id
                        && (run.status == RunStatus::Running || run.status.is_suspended())
                });
                // The first request counts, and nothing takes an abort back.
                let weaker = header.stop.as_ref().is_some_and(|have| {
                    have.run_id == stop.run_id
                        && (have.kind == stop.kind || have.kind == StopKind::Abort)
                });
                if running && !weaker {
                    header.stop = Some(stop);
                }
            }
            Change::ClearStop => header.stop = None,
            Change::Inbox(row) => {
                if !header.inbox.iter().any(|have| have.id == row.id) {
                    header.inbox.push(row);
                }
            }
            Change::DrainInbox(ids) => header.inbox.retain(|row| !ids.contains(&row.id)),
            Change::Usage(entry) => self.row(Row::Usage(entry)),
            Change::Stage(step, call, writes) => {
                self.row(Row::Stage(step, call, writes));
            }
            Change::Unstage(which) => self.row(Row::Unstage(which)),
            Change::RetireCallIds(ids) => self.row(Row::RetireCallIds(ids)),
            Change::ForgetAnswered(ids) => self.row(Row::ForgetAnswered(ids)),
            Change::Unlink(calls) => self.row(Row::Unlink(calls)),
            Change::Budget(change) => {
                if self.session != self.root {
                    return Err(self.invalid("only a root keeps what its tree has used"));
                }
                BudgetLedger::apply(&mut header.budget, self.root, *change, self.now);
            }
        }
        Ok(())
    }

    fn append(&mut self, header: &mut Header, messages: Vec<Message>) {
        let at = header.messages;
        header.messages += messages.len();
        self.row(Row::Messages { at, messages });
    }

    fn set(&mut self, session: &mut SessionState, field: Field) -> Result<(), StoreError> {
        match field {
            Field::Status(status) => session.status = status,
            Field::StepCount(count) => session.step_count = count,
            Field::OneStepMore => session.step_count += 1,
            Field::OneResumeMore => session.resume_count += 1,
            Field::Output(output) => session.output = output,
            Field::Error(error) => session.error = error,
            Field::FailureReason(reason) => session.failure_reason = reason,
            Field::InterruptContext(context) => session.interrupt_context = context,
            Field::EndedChild(child) => {
                let waits = &mut session.suspended_awaiting_children;
                waits.retain(|_, wait| wait.session_id != child);
            }
            Field::AwaitedChild(call, wait) => {
                put(&mut session.suspended_awaiting_children, call, wait);
            }
            Field::SuspendedStep(step) => session.suspended_step_id = step,
            Field::CompletedCall(answered) => self.row(Row::Answered(answered)),
            Field::DisownedCall(call, owner) => {
                let owners = &mut session.client_tool_call_ownership;
                if owners.get(&call) == Some(&owner) {
                    owners.remove(&call);
                }
            }
            Field::CallOwner(call, owner) => {
                put(&mut session.client_tool_call_ownership, call, owner);
            }
            Field::Tracing(context) => session.tracing_context = context,
            Field::ExpiresAt(at) => session.expires_at = at,
            Field::Mode(mode) => {
                if session.mode.is_some_and(|set| set != mode) {
                    return Err(self.invalid(MODE_IS_SET));
                }
                session.mode = Some(mode);
            }
            Field::User(user) => session.user_id = user,
            Field::Tags(tags) => {
                session.tags = tags;
                self.check_labels(session)?;
            }
            Field::Metadata(patch) => {
                for (key, value) in patch {
                    put(&mut session.metadata, key, value);
                }
                self.check_labels(session)?;
            }
            Field::Workspace(workspace) => session.workspace_ref = workspace,
            Field::Stream(stream) => session.stream_id = stream,
        }
        Ok(())
    }
}

/// Appends the messages that waited for the end of a step or of the run.
pub(super) fn append_notices(
    header: &mut Header,
    session: &SessionId,
    rows: &mut Vec<(SessionId, Row)>,
) {
    for notice in std::mem::take(&mut header.notices) {
        let messages = vec![Message::User(notice)];
        let at = header.messages;
        header.messages += 1;
        rows.push((session.clone(), Row::Messages { at, messages }));
    }
}

/// Returns the fields that a header keeps of a session: its content is in rows.
fn without_content(session: &SessionState) -> SessionState {
    SessionState {
        custom_state: Arc::default(),
        pending_client_tool_calls: BTreeMap::new(),
        completed_client_tool_calls: BTreeMap::new(),
        ..session.clone()
    }
}

fn mark(header: &mut Header, pending: &crate::session::PendingCall) {
    header.calls.insert(
        pending.tool_call_id.clone(),
        PendingCallMark {
            kind: pending.kind,
            run_id: pending.run_id.clone(),
            answered: pending.answer.is_some(),
            deadline: pending.deadline,
            warn_at: pending.warn_at,
        },
    );
}

fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key, value)),
        None => drop(map.remove(&key)),
    }
}
