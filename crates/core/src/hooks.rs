//! Hooks: a user's code at fixed points of a run.
//!
//! For a tool call the order is always `before_tool`, the tool itself, `on_state_change`,
//! `on_message`, `after_tool`; with parallel calls the last two follow the model's order. Hooks of
//! a parent come before those of the agent, those of the execution last. After a crash a hook may be
//! called again, with the same [`HookCx::invocation_id`].

mod context;
mod payloads;

use std::fmt;

use async_trait::async_trait;

pub use context::{HookCx, HookCxBuilder};
pub use payloads::{
    AfterModelCall, AfterSubAgent, AfterTool, AgentComplete, AgentFail, AgentResumed, AgentStart,
    AgentSuspended, BeforeModelCall, BeforeSubAgent, BeforeTool, MessageAdded, StateChange,
    SuspendReason,
};

/// What a hook returns. A failing hook is logged; it fails nothing else.
pub type HookResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

macro_rules! hooks {
    ($($(#[$doc:meta])* $name:ident($payload:ident);)*) => {
        /// A user's code at fixed points of a run. Every method does nothing unless it is given.
        #[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
        #[cfg_attr(not(target_arch = "wasm32"), async_trait)]
        pub trait AgentHooks: Send + Sync {
            $(
                $(#[$doc])*
                async fn $name(&self, payload: &$payload<'_>, cx: &HookCx) -> HookResult {
                    let _ = (payload, cx);
                    Ok(())
                }
            )*
        }
    };
}

hooks! {
    /// Before the first model call of a turn.
    on_agent_start(AgentStart);
    /// After a pause, before the run goes on.
    on_agent_resumed(AgentResumed);
    /// The run waits for a person, a client or a child.
    on_agent_suspended(AgentSuspended);
    /// The turn is completed.
    on_agent_complete(AgentComplete);
    /// The turn failed.
    on_agent_fail(AgentFail);
    /// Before each model call.
    before_llm_call(BeforeModelCall);
    /// After each model call, before its calls are run.
    after_llm_call(AfterModelCall);
    /// Before a tool runs.
    before_tool(BeforeTool);
    /// The result of a call is settled; the last of a call's hooks.
    after_tool(AfterTool);
    /// Before a sub-agent runs.
    before_sub_agent(BeforeSubAgent);
    /// A sub-agent's result is settled.
    after_sub_agent(AfterSubAgent);
    /// A message is about to enter the history.
    on_message(MessageAdded);
    /// A tool changed the state.
    on_state_change(StateChange);
}

impl fmt::Debug for dyn AgentHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentHooks")
    }
}
