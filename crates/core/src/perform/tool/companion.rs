//! Calls of companion tools: they start persistent children, and work with those that there are.

mod report;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::report::{current_run, outcome_of};
use super::Calling;
use super::child::Beside;
use super::run::CallOutcome;
use crate::entries::{Delegation, MessagePlan, plan_companion, plan_message, plan_termination};
use crate::hooks::BeforeTool;
use crate::id::{IdSourceExt, RunId, SessionId};
use crate::machine::Event;
use crate::message::{ToolMessage, UserMessage};
use crate::perform::PerformError;
use crate::perform::deltas::Deltas;
use crate::perform::hooks::{Hooks, fire};
use crate::perform::patience::patiently;
use crate::perform::reading::Reading;
use crate::perform::scope::Scope;
use crate::session::{
    ChildCall, ChildMode, PersistentChild, RunStatus, SubSessionRef, companion_address,
};
use crate::state::StepWrites;
use crate::step::{ToolResultInput, create_tool_result_message, synthesize_not_executed_result};
use crate::store::{Commit, Reach, SessionKey, Sessions, Snapshot, WorkingChild};
use crate::stream::ChunkPayload;
use crate::tool::{Addressed, CompanionOp, CompanionTool, SpawnAgent, parse_input};

/// How often a call is tried because the child changed between looking and writing.
const MAX_TRIES: usize = 16;
/// The maximum length of the name of a child.
const MAX_NAME: usize = 64;

/// The outcome of a call of a companion tool, before anything is written.
enum Act {
    /// A result, and nothing else.
    Tells(Result<Value, String>),
    /// A result, with what is done beside it.
    Does {
        result: Value,
        beside: Beside,
        /// The child that has something to do now.
        wakes: Option<SessionId>,
    },
    /// The outcome of a child is the result.
    Waits { child: ChildCall, beside: Beside },
}

impl Act {
    fn refuses(why: impl Into<String>) -> Self {
        Self::Tells(Err(why.into()))
    }
}

/// The state writes and chunks of the hooks before a call. They are kept for each try of its commit.
struct Hooked {
    writes: StepWrites,
    said: Vec<ChunkPayload>,
}

/// Performs a call of a companion tool. It takes effect with its commit, so it may be performed any number of times.
pub(super) async fn call_companion(scope: Scope<'_>, index: u32) -> Result<Event, PerformError> {
    let mut hooked: Option<Hooked> = None;
    for _ in 0..MAX_TRIES {
        let view = match scope.reading().await? {
            Reading::View(view) => view,
            Reading::Recorded(event) => return Ok(event),
        };
        let calling = Calling::of(scope, &view, index)?;
        if hooked.is_none() {
            hooked = Some(calling.before_companion().await?);
        }
        let Some(hooked) = &hooked else { continue };
        match calling.companion(hooked).await {
            // The child has ended between looking and writing, for example.
            Err(error) if error.is_moved() => scope.ports.memory.forget(),
            other => return other,
        }
    }
    Err(scope.moving())
}

impl Calling<'_> {
    async fn before_companion(self) -> Result<Hooked, PerformError> {
        let Self { cx, call, .. } = self;
        let state = self.state()?.bounded(cx.ports().bounds());
        let hooks = Hooks::on(cx, Some(state.clone()));
        if cx.scope.effect.first {
            hooks.fire_resumed().await;
        }
        if let Some(tool) = cx.view.agent().tool(&call.name) {
            let named = format!("before_tool:{}", call.id);
            fire!(
                hooks,
                before_tool,
                &named,
                BeforeTool::new(tool.spec(), call)
            );
        }
        let said = hooks.take_said();
        let writes = state.writes()?;
        Ok(Hooked { writes, said })
    }

    async fn companion(self, hooked: &Hooked) -> Result<Event, PerformError> {
        let Self { cx, call, .. } = self;
        let scope = cx.scope;
        let mut deltas = Deltas::of_call(scope, self.step, self.index, self.open.attempts());
        deltas.extend(hooked.said.clone());
        let not_run =
            |result: ToolMessage| CallOutcome::not_run(result).with_writes(hooked.writes.clone());
        let tool = cx.view.agent().tool(&call.name);
        let Some(tool) = tool.and_then(|tool| tool.companion()) else {
            return Err(scope.missing("the companion tool of that call"));
        };
        if cx.view.stop {
            let why = "the run was stopped before it.";
            let result = synthesize_not_executed_result(&call.id, &call.name, why);
            return self.finish(not_run(result), deltas).await;
        }
        let gives_work = matches!(tool.op, CompanionOp::SpawnAgent | CompanionOp::SendMessage);
        if gives_work && cx.time_left().is_some_and(|left| left.is_zero()) {
            let why = "the time that the budget allows is over.";
            let result = synthesize_not_executed_result(&call.id, &call.name, why);
            return self.finish(not_run(result), deltas).await;
        }
        match self.act(tool).await? {
            Act::Tells(result) => self.finish(not_run(self.told(result)), deltas).await,
            Act::Does {
                result,
                beside,
                wakes,
            } => {
                let mut outcome = not_run(self.told(Ok(result)));
                outcome.ran = true;
                outcome.beside = Some(Box::new(beside));
                let event = self.finish(outcome, deltas).await?;
                Ok(event.waking(wakes))
            }
            Act::Waits { child, beside } => {
                let writes = hooked.writes.clone();
                self.wait_for_child(child, &beside, writes, &mut deltas)
                    .await
            }
        }
    }

    /// The result of the call.
    fn told(self, result: Result<Value, String>) -> ToolMessage {
        let bounds = self.cx.ports().bounds();
        create_tool_result_message(ToolResultInput {
            tool_call_id: self.call.id.clone(),
            tool_name: self.call.name.clone(),
            result: result.and_then(|value| bounds.take_result(value)),
        })
    }

    async fn act(self, tool: &CompanionTool) -> Result<Act, PerformError> {
        match tool.op {
            CompanionOp::SpawnAgent => match self.arguments() {
                Ok(spawn) => self.spawn(tool, spawn).await,
                Err(why) => Ok(Act::refuses(why)),
            },
            CompanionOp::ListChildren => self.list().await,
            CompanionOp::SendMessage
            | CompanionOp::GetChildStatus
            | CompanionOp::TerminateChild
            | CompanionOp::WaitForResult => match self.arguments() {
                Ok(addressed) => self.address(tool.op, addressed).await,
                Err(why) => Ok(Act::refuses(why)),
            },
        }
    }

    /// The arguments of the call, or what the model is told.
    fn arguments<In: DeserializeOwned>(self) -> Result<In, String> {
        let arguments = Value::clone(&self.call.arguments);
        let input = parse_input(&self.call.name, arguments);
        input.map_err(|error| error.model_text().to_owned())
    }

    /// The references to the persistent children of the session.
    async fn companions(self) -> Result<Vec<SubSessionRef>, PerformError> {
        let (at, ports) = (self.cx.at(), self.cx.ports());
        let family = patiently(ports, || ports.store.extras(at.key())).await?;
        let all = family.children.into_iter();
        Ok(all
            .filter(|child| child.mode == ChildMode::Persistent)
            .collect())
    }

    async fn load(self, child: &SessionId) -> Result<Option<Snapshot>, PerformError> {
        let (at, ports) = (self.cx.at(), self.cx.ports());
        let key = SessionKey::new(&at.root_session_id, child);
        patiently(ports, || ports.store.load(key)).await
    }

    async fn spawn(self, tool: &CompanionTool, spawn: SpawnAgent) -> Result<Act, PerformError> {
        let Self { cx, call, .. } = self;
        let (at, ports) = (cx.at(), cx.ports());
        let mut agents = tool.agents.iter();
        let Some(agent) = agents.find(|one| one.agent.name() == spawn.agent) else {
            return Ok(Act::refuses(format!("There is no agent {}.", spawn.agent)));
        };
        // Any process may have to perform it.
        if !ports.agents.has(agent.agent.name()) {
            tracing::warn!(event = "sub_agent.not_started", call = %call.id, agent = spawn.agent);
            return Ok(Act::refuses("The agent could not be started."));
        }
        let names = self.companions().await?;
        let names: Vec<_> = names.into_iter().filter_map(|child| child.name).collect();
        let name = match spawn.name {
            None => next_name(&spawn.agent, &names),
            Some(name) => match check_name(&name, &names) {
                Ok(()) => name,
                Err(why) => return Ok(Act::refuses(why)),
            },
        };
        let delegation = Delegation {
            session: ports.ids.session_id()?,
            agent: &agent.agent,
            parent: &at.session_id,
            root: &at.root_session_id,
            call: &call.id,
            message: UserMessage::from(spawn.initial_message),
            user_id: cx.view.context.user_id.clone(),
            budget: None,
        };
        let run = ports.ids.run_id()?;
        let (session, blocking) = (delegation.session.clone(), agent.blocking);
        let mut child = PersistentChild::new(&name, blocking, call.id.clone());
        let family = cx.view.context.family.as_deref();
        child.above = family.map_or_else(Vec::new, |family| family.above(&at.agent_type));
        let beside = Beside {
            commit: plan_companion(&delegation, child, &run, cx.now),
            told: Some(self.child_started(&spawn.agent, &session)),
        };
        let result = json!({
            "name": name,
            "address": companion_address(&at.session_id, &name),
            "status": "running",
        });
        Ok(given(blocking, (session, run), beside, result))
    }

    async fn list(self) -> Result<Act, PerformError> {
        let mut all = Vec::new();
        for child in self.companions().await? {
            if let Some(found) = self.load(&child.session_id).await?
                && let Some(persistent) = &found.state.persistent
            {
                all.push(self.report(&found, persistent));
            }
        }
        Ok(Act::Tells(Ok(json!({ "children": all }))))
    }

    async fn address(self, op: CompanionOp, to: Addressed) -> Result<Act, PerformError> {
        let all = self.companions().await?;
        let prefix = companion_address(&self.cx.at().session_id, "");
        let name = to.name.strip_prefix(&prefix).unwrap_or(&to.name);
        let mut named = all
            .iter()
            .filter(|child| child.name.as_deref() == Some(name));
        let found = match named.next() {
            Some(child) => self.load(&child.session_id).await?,
            None => None,
        };
        let child = found.as_ref();
        let Some((found, child)) =
            child.and_then(|found| Some((found, found.state.persistent.as_deref()?)))
        else {
            let names: Vec<_> = all.iter().filter_map(|one| one.name.as_deref()).collect();
            return Ok(Act::refuses(match names.as_slice() {
                [] => format!("There is no agent named {name:?}; you have started none."),
                names => format!(
                    "There is no agent named {name:?}. You have started: {}.",
                    names.join(", ")
                ),
            }));
        };
        match op {
            CompanionOp::SendMessage => self.send(found, child, to.message).await,
            CompanionOp::TerminateChild => self.terminate(found, child).await,
            CompanionOp::WaitForResult => match current_run(found) {
                Some(run) => {
                    let child = ChildCall::new(found.state.session_id.clone(), run);
                    let beside = self.nothing_beside();
                    Ok(Act::Waits { child, beside })
                }
                None => {
                    let outcome = self.full_report(found, child).await?;
                    Ok(Act::Tells(outcome_of(&outcome)))
                }
            },
            _ => {
                let report = self.full_report(found, child).await?;
                Ok(Act::Tells(Ok(json!(report))))
            }
        }
    }

    async fn send(
        self,
        found: &Snapshot,
        child: &PersistentChild,
        message: String,
    ) -> Result<Act, PerformError> {
        let Self { cx, call, .. } = self;
        if !cx.ports().agents.has(&found.state.agent_type) {
            return Ok(Act::refuses("Its agent is not here any more."));
        }
        let below = self.working(found, Reach::Awaited).await?;
        let message = (UserMessage::from(message), &call.id);
        let run = cx.ports().ids.run_id()?;
        let MessagePlan {
            commit,
            run,
            interrupts,
        } = match plan_message(found, message, &below, run, cx.now) {
            Ok(planned) => planned,
            Err(why) => return Ok(Act::refuses(why)),
        };
        let session = found.state.session_id.clone();
        let beside = Beside {
            commit,
            told: Some(self.child_started(&found.state.agent_type, &session)),
        };
        let mut result = json!({ "name": child.name, "status": "running" });
        if let Some(result) = result.as_object_mut().filter(|_| interrupts) {
            result.insert("interrupted".to_owned(), true.into());
        }
        Ok(given(child.blocking, (session, run), beside, result))
    }

    async fn terminate(
        self,
        found: &Snapshot,
        child: &PersistentChild,
    ) -> Result<Act, PerformError> {
        let below = self.working(found, Reach::All).await?;
        let commit = plan_termination(found, &below, self.cx.now);
        let beside = Beside { commit, told: None };
        let running = found.run.as_ref();
        let running = running.filter(|run| run.status == RunStatus::Running);
        if let Some(run) = running {
            let child = ChildCall::new(found.state.session_id.clone(), run.id.clone());
            return Ok(Act::Waits { child, beside });
        }
        let ended = current_run(found).is_some();
        let mut report = self.full_report(found, child).await?;
        if ended {
            report.status = "interrupted";
            report.waits_for.clear();
        }
        Ok(Act::Does {
            result: json!(report),
            beside,
            wakes: None,
        })
    }

    /// The sessions that work for a child.
    async fn working(
        self,
        found: &Snapshot,
        reach: Reach,
    ) -> Result<Vec<WorkingChild>, PerformError> {
        let ports = self.cx.ports();
        let sessions = Sessions::new(ports.store.as_ref(), ports.clock.as_ref());
        patiently(ports, || sessions.working_children(found, reach)).await
    }

    fn nothing_beside(self) -> Beside {
        let root = self.cx.at().root_session_id.clone();
        Beside {
            commit: Commit::new(root, self.cx.now),
            told: None,
        }
    }
}

/// What a call comes to that gives a child something to do.
fn given(blocking: bool, (session, run): (SessionId, RunId), beside: Beside, result: Value) -> Act {
    if blocking {
        let child = ChildCall::new(session, run);
        return Act::Waits { child, beside };
    }
    Act::Does {
        result,
        beside,
        wakes: Some(session),
    }
}

/// The first free name of the form `{agent}-{n}`.
fn next_name(agent: &str, names: &[String]) -> String {
    let numbers = names.iter().filter_map(|name| {
        let number = name.strip_prefix(agent)?.strip_prefix('-')?;
        number.parse::<u64>().ok()
    });
    let last = numbers.max().unwrap_or_default();
    format!("{agent}-{}", last.saturating_add(1))
}

/// Whether a name can be given to a child, or what the model is told.
fn check_name(name: &str, names: &[String]) -> Result<(), String> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_letter) {
        return Err(format!(
            "{name:?} cannot be the name of an agent. Use 1 to {MAX_NAME} letters, digits, _ and -."
        ));
    }
    if names.iter().any(|one| one == name) {
        return Err(format!(
            "You have an agent named {name} already. Send it a message, or choose another name."
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_without_a_name_gets_the_next_number() {
        let names = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
        assert_eq!(next_name("writer", &[]), "writer-1");
        let taken = names(&["writer-1", "scout-7", "writer-4", "writer-x", "writers-9"]);
        assert_eq!(next_name("writer", &taken), "writer-5");
    }

    #[test]
    fn a_bad_name_is_refused_with_the_reason() {
        let taken = ["anna".to_owned()];
        assert_eq!(check_name("bob_2-x", &taken), Ok(()));
        for bad in ["", "a b", "ä", "a/b", &"x".repeat(65)] {
            let why = check_name(bad, &taken).unwrap_err();
            assert!(why.contains("cannot be the name"), "{bad:?}: {why}");
        }
        assert_eq!(
            check_name("anna", &taken).unwrap_err(),
            "You have an agent named anna already. Send it a message, or choose another name."
        );
    }
}
