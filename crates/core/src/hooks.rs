//! Hooks: user code at fixed points of a run.
//!
//! For a tool call the order is always `before_tool`, the tool itself, `on_state_change`,
//! `on_message`, `after_tool`; with parallel calls the last two follow the model's order. Hooks of
//! a parent run before those of the agent, those of the execution last. After a crash a hook may be
//! called again, with the same [`HookCx::invocation_id`].

mod context;
mod payloads;

use std::fmt;

use async_trait::async_trait;

pub use context::HookCx;
// Runtimes make the context of a hook.
#[doc(hidden)]
pub use context::HookCxBuilder;
pub use payloads::{
    AfterModelCall, AfterTool, AgentComplete, AgentFail, AgentResumed, AgentStart, AgentSuspended,
    BeforeModelCall, BeforeTool, MessageAdded, StateChange, SuspendReason,
};
#[doc(hidden)]
pub use payloads::{AfterSubAgent, BeforeSubAgent};

/// The result of a hook. A failing hook is logged and fails nothing else.
///
/// ```
/// use helix_agents::HookResult;
///
/// fn audit(line: &str) -> HookResult {
///     std::fs::write("audit.log", line)?;
///     Ok(())
/// }
/// ```
pub type HookResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

macro_rules! hooks {
    ($($(#[$doc:meta])* $name:ident($payload:ident);)*) => {
        /// User code at fixed points of a run. By default every method does nothing.
        ///
        /// ```
        /// use helix_agents::prelude::*;
        /// use helix_agents::{AfterTool, AgentHooks, HookCx, HookResult, async_trait};
        ///
        /// struct Timing;
        ///
        /// #[async_trait]
        /// impl AgentHooks for Timing {
        ///     async fn after_tool(&self, payload: &AfterTool<'_>, _cx: &HookCx) -> HookResult {
        ///         println!("{} took {:?}", payload.call.name, payload.duration);
        ///         Ok(())
        ///     }
        /// }
        ///
        /// let agent = Agent::builder("assistant").model("anthropic/claude-sonnet-4-5").hooks(Timing).build()?;
        /// # Ok::<(), Error>(())
        /// ```
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
    /// Called before the first model call of a turn.
    on_agent_start(AgentStart);
    /// Called after a suspension, before the run continues.
    on_agent_resumed(AgentResumed);
    /// Called when the run waits for a person, a client or a child.
    on_agent_suspended(AgentSuspended);
    /// Called when the turn is completed.
    on_agent_complete(AgentComplete);
    /// Called when the turn failed.
    on_agent_fail(AgentFail);
    /// Called before each model call.
    before_llm_call(BeforeModelCall);
    /// Called after each model call, before its calls are run.
    after_llm_call(AfterModelCall);
    /// Called before a tool runs.
    before_tool(BeforeTool);
    /// Called when the result of a call is settled, as the last of the call's hooks.
    after_tool(AfterTool);
    // Reserved, like the next: no runtime starts sub-agents yet.
    #[doc(hidden)]
    /// Called before a sub-agent runs.
    before_sub_agent(BeforeSubAgent);
    #[doc(hidden)]
    /// Called when a sub-agent's result is settled.
    after_sub_agent(AfterSubAgent);
    /// Called when a message is about to enter the history.
    on_message(MessageAdded);
    /// Called when a tool changed the state.
    on_state_change(StateChange);
}

impl fmt::Debug for dyn AgentHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentHooks")
    }
}
