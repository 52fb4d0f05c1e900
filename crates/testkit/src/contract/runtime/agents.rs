//! Agents, tools, logs and gates for the cases.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::select;
use helix_agents_core::agent::{Agent, AgentBuilder};
use helix_agents_core::notify::Notify;
use helix_agents_core::tool::{Tool, ToolBuilder, ToolCx, ToolError, ToolResult};
use serde_json::{Value, json};

use super::super::runner::in_time;
use crate::{MockModel, MockReply};

/// The agent of a case, which gives these replies.
pub(in crate::contract) fn agent(replies: impl IntoIterator<Item = MockReply>) -> AgentBuilder {
    of_model(&Arc::new(MockModel::replies(replies)))
}

/// The agent of a case, with a model that the case inspects.
pub(in crate::contract) fn of_model(model: &Arc<MockModel>) -> AgentBuilder {
    Agent::builder("agent")
        .model(Arc::clone(model))
        .system_prompt("You are held against a contract.")
}

/// A tool that takes any arguments and runs this function.
pub(in crate::contract) fn tool<Fut>(
    name: &str,
    run: impl Fn(Value, ToolCx) -> Fut + Send + Sync + 'static,
) -> ToolBuilder
where
    Fut: Future<Output = ToolResult<Value>> + Send + 'static,
{
    let schema = json!({ "type": "object" });
    Tool::raw(name, "A tool of the contract suite.", schema, run)
}

/// A tool that returns its arguments.
pub(in crate::contract) fn echo(name: &str) -> ToolBuilder {
    tool(name, async |arguments, _| Ok(arguments))
}

/// A tool that logs its runs and returns `"done"`.
pub(in crate::contract) fn noted(name: &'static str, log: &Log) -> ToolBuilder {
    let log = log.clone();
    tool(name, move |arguments, cx| {
        log.note(format!("{name} {} {arguments}", cx.call_id()));
        async { Ok(json!("done")) }
    })
}

/// A tool that increments the key `count` of the state.
pub(in crate::contract) fn counting(name: &str) -> ToolBuilder {
    tool(name, async |_, cx: ToolCx| {
        cx.edit_state(|draft| draft.increment("/count", 1))?;
        Ok(json!("done"))
    })
}

/// A tool whose calls end the run.
pub(in crate::contract) fn fatal(name: &str) -> ToolBuilder {
    tool(name, async |_, _| Err(ToolError::fatal("it is broken")))
}

/// A tool that the client runs.
pub(in crate::contract) fn browser(name: &str) -> ToolBuilder {
    let schema = json!({ "type": "object" });
    Tool::client_raw(name, "A tool that the client runs.", schema)
}

/// Calls, written as id and tool, with empty arguments.
pub(in crate::contract) fn calling<const N: usize>(calls: [(&str, &str); N]) -> MockReply {
    MockReply::calls(calls.map(|(id, tool)| (id, tool, json!({}))))
}

/// The schema of an output `{"answer": number}`.
pub(in crate::contract) fn answer_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "answer": { "type": "integer" } },
        "required": ["answer"],
    })
}

/// Lines that tools and hooks write, in order. Clones are the same log.
#[derive(Debug, Clone, Default)]
pub(in crate::contract) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(in crate::contract) fn note(&self, line: impl Into<String>) {
        self.lock().push(line.into());
    }

    /// Removes and returns the lines so far.
    pub(in crate::contract) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A gate at which tasks wait until it is opened. Clones are the same gate.
#[derive(Debug, Clone, Default)]
pub(in crate::contract) struct Gate {
    inner: Arc<Mutex<GateState>>,
    bell: Notify,
}

#[derive(Debug, Default)]
struct GateState {
    came: usize,
    open: bool,
}

impl Gate {
    /// Waits at the gate until it is open.
    pub(in crate::contract) async fn pass(&self) {
        self.lock().came += 1;
        self.bell.ring();
        self.until(|passing| passing.open).await;
    }

    /// Waits at the gate until it is open, or the run of a tool is stopped.
    pub(in crate::contract) async fn pass_or_stop(&self, cx: &ToolCx) {
        let (open, stopped) = (pin!(self.pass()), pin!(cx.abort_signal().aborted()));
        select(open, stopped).await;
    }

    /// Waits until so many tasks have arrived at the gate.
    pub(in crate::contract) async fn reached(&self, many: usize) {
        let come = self.until(|passing| passing.came >= many);
        in_time("somebody comes to the gate", come).await;
    }

    /// Opens the gate for good.
    pub(in crate::contract) fn open(&self) {
        self.lock().open = true;
        self.bell.ring();
    }

    async fn until(&self, holds: impl Fn(&GateState) -> bool) {
        loop {
            let heard = self.bell.heard();
            if holds(&self.lock()) {
                return;
            }
            heard.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A tool that waits at a gate, unless its run is stopped.
pub(in crate::contract) fn gated(name: &str, gate: &Gate) -> ToolBuilder {
    let gate = gate.clone();
    tool(name, move |_, cx: ToolCx| {
        let gate = gate.clone();
        async move {
            gate.pass_or_stop(&cx).await;
            Ok(json!("done"))
        }
    })
}
