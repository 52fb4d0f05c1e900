//! Calls of sub-agents: starts the child of a call, and makes its outcome the result.

use serde_json::Value;

use super::Calling;
use super::run::CallOutcome;
use crate::entries::{CHILD_STOPPED, Delegation, Performer, Start, plan_child};
use crate::hooks::BeforeSubAgent;
use crate::id::{IdSourceExt, SessionId};
use crate::machine::Event;
use crate::message::{Message, ResultStatus, ToolCall, ToolMessage, UserMessage};
use crate::perform::children::{Consultation, consultation};
use crate::perform::commit::{CommitOutcome, EffectCommit};
use crate::perform::deltas::Deltas;
use crate::perform::executable::ExecutableCall;
use crate::perform::guard::caught_now;
use crate::perform::hooks::{Hooks, fire};
use crate::perform::patience::patiently;
use crate::perform::reading::Reading;
use crate::perform::scope::{EffectContext, Scope};
use crate::perform::{PerformError, SessionView};
use crate::session::{
    CallState, ChildCall, ChildStatus, OpenCall, OpenStep, RunRecord, RunStatus, SessionStatus,
    SubSessionRef,
};
use crate::state::StepWrites;
use crate::step::{
    SubAgentCall, SubAgentResultInput, create_sub_agent_result_message, failed_result,
    sub_agent_type, synthesize_not_executed_result,
};
use crate::store::{Change, Commit, Page, Precondition, SessionKey, Snapshot};
use crate::stream::ChunkPayload;
use crate::time::Timestamp;
use crate::tool::{SubAgent, Tool};
use crate::usage::{UsageKind, UsageRollup};

/// What the model reads of a sub-agent whose session was deleted.
const DELETED: &str = "The session of the sub-agent was deleted.";

/// How often the outcome of a child is looked at again when it changed in between.
const MAX_TRIES: usize = 8;

/// The end of a child, as the commit of its result tells it.
pub(super) struct ChildEnd {
    pub(super) child: Option<SubSessionRef>,
    pub(super) usage: Option<UsageKind>,
    pub(super) told: Option<ChunkPayload>,
}

/// Changes to a child, and a chunk for readers, that are made in the commit of a call. The commit is refused if the run
/// is asked to stop.
pub(super) struct Beside {
    pub(super) commit: Commit,
    pub(super) told: Option<ChunkPayload>,
}

impl Beside {
    pub(super) fn add<'a>(&self, commit: EffectCommit<'a>) -> EffectCommit<'a> {
        let commit = commit.unless_stopped().tell(self.told.clone());
        commit.with(|commit| commit.and(self.commit.clone()))
    }
}

impl Calling<'_> {
    /// Starts the child of a call: its session, its run, the reference to it and the state of the call are one
    /// commit, so there is one child or none. A run that is asked to stop starts none.
    pub(super) async fn start_child(
        self,
        tool: &Tool,
        sub_agent: &SubAgent,
        mut deltas: Deltas<'_>,
    ) -> Result<Event, PerformError> {
        let Self { cx, call, open, .. } = self;
        let state = self.state()?.bounded(cx.ports().bounds());
        let hooks = Hooks::on(cx, Some(state.clone()));
        if cx.scope.effect.first {
            hooks.fire_resumed().await;
        }
        let refusal = if ExecutableCall::new(call, open, tool).is_none() {
            tracing::error!(event = "approval.missing", session = %cx.at().session_id, call = %call.id);
            Some("it needs an approval that it does not have.")
        } else if cx.time_left().is_some_and(|left| left.is_zero()) {
            Some("the time that the budget allows is over.")
        } else {
            None
        };
        if refusal.is_none() {
            let asked = sub_agent_call(self);
            let named = format!("before_sub_agent:{}", call.id);
            fire!(hooks, before_sub_agent, &named, BeforeSubAgent::new(&asked));
        }
        deltas.extend(hooks.take_said());
        let not_started = |result: ToolMessage| {
            let writes = state.writes()?;
            Ok::<_, PerformError>(CallOutcome::not_run(result).with_writes(writes))
        };
        if let Some(why) = refusal {
            let result = synthesize_not_executed_result(&call.id, &call.name, why);
            return self.finish(not_started(result)?, deltas).await;
        }
        let arguments = Value::clone(&call.arguments);
        let message = match caught_now(|| sub_agent.message(arguments)) {
            Ok(Ok(message)) => message,
            Ok(Err(error)) => {
                let text = error.model_text();
                let result = failed_result(&call.id, &call.name, text, ResultStatus::Error);
                return self.finish(not_started(result)?, deltas).await;
            }
            Err(panicked) => {
                let result = not_dispatched(call, &panicked.to_string());
                return self.finish(not_started(result)?, deltas).await;
            }
        };
        // Any process may have to perform it.
        if !cx.ports().agents.has(sub_agent.agent.name()) {
            let result = not_dispatched(call, "its agent is not registered");
            return self.finish(not_started(result)?, deltas).await;
        }
        let starting = self.starting(sub_agent, message)?;
        let planned = match plan_child(&starting.delegation, &starting.start) {
            Ok(planned) => planned,
            Err(error) => {
                let result = not_dispatched(call, &error.to_string());
                return self.finish(not_started(result)?, deltas).await;
            }
        };
        let (child, run) = (&starting.delegation.session, &starting.start.run_id);
        let at = starting.start.at;
        let agent = sub_agent.agent.name();
        let mut link = SubSessionRef::new(child.clone(), agent, call.id.clone(), at);
        link.run_id = Some(run.clone());
        let link = Change::Child(Box::new(link));
        let beside = Beside {
            commit: planned.commit.then_in(cx.at().session_id.clone(), link),
            told: Some(self.child_started(agent, child)),
        };
        let child = ChildCall::new(child.clone(), run.clone());
        let waits = self
            .at(at)
            .wait_for_child(child, &beside, state.writes()?, &mut deltas);
        match waits.await {
            Err(error) if error.is_moved() => {
                let why = "the run was stopped before it.";
                let result = synthesize_not_executed_result(&call.id, &call.name, why);
                self.finish(not_started(result)?, deltas).await
            }
            other => other,
        }
    }

    /// The same call at another instant.
    pub(super) fn at(self, now: Timestamp) -> Self {
        let cx = EffectContext { now, ..self.cx };
        Self { cx, ..self }
    }

    /// The chunk that tells readers that a child works on the call.
    pub(super) fn child_started(self, agent: &str, child: &SessionId) -> ChunkPayload {
        ChunkPayload::SubagentStart {
            tool_call_id: self.call.id.clone(),
            sub_agent_type: agent.to_owned(),
            sub_session_id: child.clone(),
        }
    }

    /// The child that the call starts.
    fn starting<'b>(
        &'b self,
        sub_agent: &'b SubAgent,
        message: UserMessage,
    ) -> Result<Starting<'b>, PerformError> {
        let EffectContext { scope, view, .. } = self.cx;
        let (at, ports) = (scope.at(), scope.ports);
        let performer = ports.performer.clone();
        Ok(Starting {
            start: Start {
                run_id: ports.ids.run_id()?,
                at: scope.now(),
                performer: performer.unwrap_or_else(|| Performer::new(view.run.host.clone())),
                after: view.sequence.unwrap_or(self.step.start_sequence),
                rollback: None,
                children: Vec::new(),
            },
            delegation: Delegation {
                session: ports.ids.session_id()?,
                agent: &sub_agent.agent,
                parent: &at.session_id,
                root: &at.root_session_id,
                call: &self.call.id,
                message,
                user_id: view.context.user_id.clone(),
                budget: view.budget.clone(),
            },
        })
    }

    /// Lets the call wait for a child.
    pub(super) async fn wait_for_child(
        self,
        child: ChildCall,
        beside: &Beside,
        writes: StepWrites,
        deltas: &mut Deltas<'_>,
    ) -> Result<Event, PerformError> {
        let Self {
            cx,
            step,
            index,
            call,
            ..
        } = self;
        let scope = cx.scope;
        let session = child.session_id.clone();
        let mut waiting = OpenCall {
            state: CallState::AwaitingChild,
            child: Some(Box::new(child)),
            writes,
            ..self.open.clone()
        };
        if let Some(effect) = &mut waiting.effect {
            // Another attempt that read the call before cannot do it a second time.
            effect.attempts += 1;
        }
        let unsent = deltas.take().await?;
        let commit = || {
            let commit = cx.begin().chunks(&unsent);
            beside.add(commit.set_call(index, &call.id, &waiting))
        };
        let committed = match scope.write(commit).await? {
            CommitOutcome::Made(committed) => committed,
            CommitOutcome::Before(event) => return Ok(event),
        };
        let at = scope.at();
        tracing::info!(event = "sub_agent.awaited", session = %at.session_id, call = %call.id, child = %session);
        let mut step = OpenStep::clone(step);
        step.set_call(&call.id, waiting.clone());
        let memory = &scope.ports.memory;
        memory.update(&committed, |view| view.set_call(&call.id, waiting));
        self.event(&step, committed.stop.is_some())
    }
}

/// A child that is about to be started.
struct Starting<'a> {
    delegation: Delegation<'a>,
    start: Start,
}

/// The result of a call whose sub-agent could not be started.
fn not_dispatched(call: &ToolCall, why: &str) -> ToolMessage {
    tracing::warn!(event = "sub_agent.not_started", call = %call.id, tool = %call.name, why);
    let text = "The sub-agent could not be started.";
    failed_result(&call.id, &call.name, text, ResultStatus::Error)
}

/// The call of a sub-agent, as hooks see it.
fn sub_agent_call(calling: Calling<'_>) -> SubAgentCall {
    let call = calling.call;
    let agent = sub_agent_type(&call.name).unwrap_or(&call.name);
    SubAgentCall::new(call.id.clone(), agent, call.arguments.clone())
}

/// Takes the outcome of the child of a call: its result, or that it is suspended.
pub(in crate::perform) async fn take_child(
    scope: Scope<'_>,
    index: u32,
) -> Result<Event, PerformError> {
    for _ in 0..MAX_TRIES {
        let view = match scope.reading().await? {
            Reading::View(view) => view,
            Reading::Recorded(event) => return Ok(event),
        };
        let calling = Calling::of(scope, &view, index)?;
        match calling.take(&view).await {
            // It was continued between looking and writing, for example.
            Err(error) if error.is_moved() => scope.ports.memory.forget(),
            other => return other,
        }
    }
    Err(scope.moving())
}

impl Calling<'_> {
    async fn take(self, view: &SessionView) -> Result<Event, PerformError> {
        let Self { cx, step, call, .. } = self;
        let (scope, at) = (cx.scope, cx.at());
        let child = self.open.child.as_deref();
        let child = child.ok_or_else(|| scope.missing("the child of that call"))?;
        let key = SessionKey::new(&at.root_session_id, &child.session_id);
        let found = patiently(scope.ports, || scope.ports.store.load(key)).await?;
        let run = match consultation(scope.ports, found.as_ref(), child).await? {
            Consultation::Works => {
                let session = child.session_id.clone();
                return Err(PerformError::ChildRuns { session });
            }
            Consultation::Suspended(run) => return self.note_suspended(view, child, &run).await,
            Consultation::Over(run) => run,
        };
        if let Some(found) = &found
            && let Some(persistent) = found.state.persistent.as_deref()
        {
            return self.take_companion(found, persistent, run.as_deref()).await;
        }
        let agent = sub_agent_type(&call.name).unwrap_or(&call.name).to_owned();
        let (outcome, used) = match &found {
            Some(found) => {
                let outcome = outcome(scope, found, run.as_deref()).await?;
                (outcome, used(scope, key).await?)
            }
            None => (Err(DELETED.to_owned()), UsageRollup::default()),
        };
        let outcome = outcome.and_then(|value| scope.ports.bounds().take_result(value));
        let result = create_sub_agent_result_message(SubAgentResultInput {
            tool_call_id: call.id.clone(),
            agent_type: agent.clone(),
            result: outcome,
        });
        let mut end = self.ended(&agent, child, run.as_deref(), (&result, &used));
        if found.is_none() {
            // A reference would lead nowhere.
            end.child = None;
        }
        let outcome = self.outcome_of_child(result, run.as_deref(), end);
        let deltas = Deltas::of_call(scope, step, self.index, self.open.attempts());
        self.finish(outcome, deltas).await
    }

    /// The outcome of a call whose child has ended.
    pub(super) fn outcome_of_child(
        self,
        result: ToolMessage,
        run: Option<&RunRecord>,
        end: ChildEnd,
    ) -> CallOutcome {
        let mut ended = CallOutcome::not_run(result).with_writes(self.open.writes.clone());
        if let Some(run) = run {
            ended.duration = run.ended_at.unwrap_or(self.cx.now).since(run.started_at);
        }
        ended.child = Some(Box::new(end));
        ended
    }

    /// The chunk that tells readers that the child of the call has ended.
    pub(super) fn child_ended(
        self,
        agent: &str,
        child: &SessionId,
        result: &ToolMessage,
    ) -> ChunkPayload {
        ChunkPayload::SubagentEnd {
            tool_call_id: self.call.id.clone(),
            sub_agent_type: agent.to_owned(),
            sub_session_id: child.clone(),
            success: result.status.is_success(),
            result: result.status.is_success().then(|| result.value()),
        }
    }

    fn ended(
        self,
        agent: &str,
        child: &ChildCall,
        run: Option<&RunRecord>,
        (result, used): (&ToolMessage, &UsageRollup),
    ) -> ChildEnd {
        let Self { cx, call, .. } = self;
        let status = match run.map(|run| run.status) {
            Some(RunStatus::Completed) => ChildStatus::Completed,
            Some(RunStatus::Interrupted) => ChildStatus::Interrupted,
            _ => ChildStatus::Failed,
        };
        let created_at = run.map_or(cx.now, |run| run.started_at);
        let mut link =
            SubSessionRef::new(child.session_id.clone(), agent, call.id.clone(), created_at);
        link.run_id = Some(child.run_id.clone());
        link.status = status;
        ChildEnd {
            child: Some(link),
            usage: Some(UsageKind::Subagent {
                name: agent.to_owned(),
                tokens: used.tokens,
                micro_dollars: used.micro_dollars,
            }),
            told: Some(self.child_ended(agent, &child.session_id, result)),
        }
    }

    /// Notes that the child waits for somebody, so that the run can pause.
    async fn note_suspended(
        self,
        view: &SessionView,
        child: &ChildCall,
        run: &RunRecord,
    ) -> Result<Event, PerformError> {
        let Self {
            step, index, call, ..
        } = self;
        let cx = EffectContext::new(self.cx.scope, view);
        let scope = cx.scope;
        let mut waiting = self.open.clone();
        waiting.child = Some(Box::new(ChildCall {
            suspended: true,
            ..child.clone()
        }));
        let is_suspended = Precondition::Run(run.id.clone(), vec![run.status]);
        let commit = || {
            let commit = cx.begin().set_call(index, &call.id, &waiting);
            let (session, is_suspended) = (child.session_id.clone(), is_suspended.clone());
            commit.with(|commit| commit.when_in(session, is_suspended))
        };
        let committed = match scope.write(commit).await? {
            CommitOutcome::Made(committed) => committed,
            CommitOutcome::Before(event) => return Ok(event),
        };
        let mut step = OpenStep::clone(step);
        step.set_call(&call.id, waiting.clone());
        let memory = &scope.ports.memory;
        memory.update(&committed, |view| view.set_call(&call.id, waiting));
        self.event(&step, committed.stop.is_some())
    }
}

/// What a session has used.
async fn used(scope: Scope<'_>, session: SessionKey<'_>) -> Result<UsageRollup, PerformError> {
    let store = &scope.ports.store;
    let entries = patiently(scope.ports, || store.usage(session, Page::ALL)).await?;
    Ok(entries.items.iter().collect())
}

/// The output of a child that has ended, or a text for the model that says why there is none.
pub(super) async fn outcome(
    scope: Scope<'_>,
    found: &Snapshot,
    run: Option<&RunRecord>,
) -> Result<Result<Value, String>, PerformError> {
    let Some(run) = run else {
        return Ok(Err("The sub-agent never ran.".to_owned()));
    };
    let is_latest = found.run.as_ref().is_some_and(|last| last.id == run.id);
    Ok(match run.status {
        RunStatus::Completed => match &run.output {
            Some(output) => Ok(output.clone()),
            None => {
                // A later turn has messages of its own.
                let later = found.run.as_ref().filter(|last| last.turn > run.turn);
                let end = later.and_then(|later| later.turn_start);
                let end = end.map_or(found.message_count, |start| start.messages);
                Ok(last_text(scope, found.state.key(), end).await?)
            }
        },
        RunStatus::Failed => {
            let error = run.error.as_ref();
            let why = error.map_or("it gave no reason", |error| error.message.as_str());
            Err(format!("The sub-agent failed: {why}"))
        }
        _ if is_latest && found.state.status == SessionStatus::Paused => {
            Err("The sub-agent was stopped because a budget is used up.".to_owned())
        }
        _ => Err(CHILD_STOPPED.to_owned()),
    })
}

/// How many messages are read at once to find the last one of the model.
const LOOK_BACK: usize = 8;

/// The text of the model's last message among the first ones. Notices may stand behind it.
async fn last_text(
    scope: Scope<'_>,
    key: SessionKey<'_>,
    mut messages: usize,
) -> Result<Value, PerformError> {
    let store = &scope.ports.store;
    while messages > 0 {
        let from = messages.saturating_sub(LOOK_BACK);
        let page = Page::new(from, messages - from);
        let read = patiently(scope.ports, || store.messages(key, page)).await?;
        let mut replies = read.items.into_iter().filter_map(|message| match message {
            Message::Assistant(message) => Some(message),
            _ => None,
        });
        if let Some(reply) = replies.next_back() {
            return Ok(reply.content().map_or(Value::Null, Value::String));
        }
        messages = from;
    }
    Ok(Value::Null)
}
