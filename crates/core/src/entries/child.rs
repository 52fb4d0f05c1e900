//! The start of a sub-agent for a call of another agent.

use std::sync::Arc;

use super::execute::begin;
use super::{BudgetRequest, Drive, EntryError, Start};
use crate::agent::AnyAgent;
use crate::budget::BudgetLedger;
use crate::id::{CallId, SessionId, StreamId, UserId};
use crate::message::UserMessage;
use crate::session::{RunTrigger, SessionState};
use crate::store::{Change, Commit, Fence, Header, Precondition, Snapshot};
/// A call that another agent answers, in a session of its own.
#[derive(Debug)]
pub(crate) struct Delegation<'a> {
    /// The session of the child, a new one.
    pub(crate) session: SessionId,
    /// The agent of the child.
    pub(crate) agent: &'a AnyAgent,
    pub(crate) parent: &'a SessionId,
    pub(crate) root: &'a SessionId,
    /// The call of the parent.
    pub(crate) call: &'a CallId,
    pub(crate) message: UserMessage,
    pub(crate) user_id: Option<UserId>,
    /// What the tree has used, where there are limits.
    pub(crate) budget: Option<Arc<BudgetLedger>>,
}

/// Plans the start of a child. Its commit is a part of that in which the parent notes the child.
pub(crate) fn plan_child(delegation: &Delegation<'_>, start: &Start) -> Result<Drive, EntryError> {
    let Delegation {
        session,
        agent,
        root,
        ..
    } = delegation;
    let mut state = SessionState::new(session.clone(), agent.name(), start.at);
    state.parent_session_id = Some(delegation.parent.clone());
    state.root_session_id = Some((*root).clone());
    state.stream_id = Some(StreamId::of_session(root));
    state.custom_state = Arc::clone(agent.initial_state());
    state.user_id.clone_from(&delegation.user_id);
    let commit = Commit::new((*root).clone(), start.at)
        .when_in(session.clone(), Precondition::Absent)
        .then_in(session.clone(), Change::Create(Box::new(state.clone())));
    let mut run = start.run(session.clone(), RunTrigger::Execute);
    run.parent_call = Some(delegation.call.clone());
    let header = Header::created(state.clone(), Fence::default());
    let mut found = Snapshot::new(header, state, None, None, |_| Ok::<_, EntryError>(false))?;
    found.budget.clone_from(&delegation.budget);
    let messages = (vec![delegation.message.clone()], false);
    let budget = BudgetRequest::of(delegation.agent);
    begin(&found, commit, run, messages, (&budget, start))
}
