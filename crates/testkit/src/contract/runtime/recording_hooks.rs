//! Hooks that write a line to a log for each call.

use std::sync::Arc;

use async_trait::async_trait;
use helix_agents_core::CallId;
use helix_agents_core::hooks::{
    AfterModelCall, AfterSubAgent, AfterTool, AgentComplete, AgentFail, AgentHooks, AgentResumed,
    AgentStart, AgentSuspended, BeforeModelCall, BeforeSubAgent, BeforeTool, HookCx, HookResult,
    MessageAdded, StateChange,
};
use helix_agents_core::message::Message;

use super::agents::Log;

type OnHook = Arc<dyn Fn(&str, &HookCx) + Send + Sync>;

/// Hooks that write a line to a log for each call, and may call a function.
#[derive(Clone)]
pub(super) struct RecordingHooks {
    log: Log,
    doing: OnHook,
}

impl RecordingHooks {
    pub(super) fn new(log: &Log) -> Self {
        Self::doing(log, |_, _| {})
    }

    /// Calls this function in every hook, with the line.
    pub(super) fn doing(log: &Log, doing: impl Fn(&str, &HookCx) + Send + Sync + 'static) -> Self {
        Self {
            log: log.clone(),
            doing: Arc::new(doing),
        }
    }

    fn note(&self, line: String, cx: &HookCx) -> HookResult {
        (self.doing)(&line, cx);
        self.log.note(line);
        Ok(())
    }
}

fn list(calls: &[CallId]) -> String {
    let texts: Vec<_> = calls.iter().map(CallId::as_str).collect();
    format!("[{}]", texts.join(", "))
}

#[async_trait]
impl AgentHooks for RecordingHooks {
    async fn on_agent_start(&self, it: &AgentStart<'_>, cx: &HookCx) -> HookResult {
        let input: Vec<_> = it.input.iter().map(|said| said.content.as_str()).collect();
        self.note(format!("start {input:?}"), cx)
    }

    async fn on_agent_resumed(&self, it: &AgentResumed<'_>, cx: &HookCx) -> HookResult {
        self.note(format!("resumed {:?} {}", it.reason, list(it.calls)), cx)
    }

    async fn on_agent_suspended(&self, it: &AgentSuspended<'_>, cx: &HookCx) -> HookResult {
        self.note(format!("suspended {:?} {}", it.reason, list(it.calls)), cx)
    }

    async fn on_agent_complete(&self, it: &AgentComplete<'_>, cx: &HookCx) -> HookResult {
        let output = it.output.map(ToString::to_string).unwrap_or_default();
        let line = format!("complete {output} after {}", it.step_count);
        self.note(line, cx)
    }

    async fn on_agent_fail(&self, it: &AgentFail<'_>, cx: &HookCx) -> HookResult {
        self.note(format!("fail {}", it.error.code), cx)
    }

    async fn before_llm_call(&self, it: &BeforeModelCall<'_>, cx: &HookCx) -> HookResult {
        let line = format!("before_llm {} attempt {}", cx.step, it.attempt);
        self.note(line, cx)
    }

    async fn after_llm_call(&self, it: &AfterModelCall<'_>, cx: &HookCx) -> HookResult {
        let reason = it.reply.stop_reason;
        self.note(format!("after_llm {} {reason:?}", cx.step), cx)
    }

    async fn before_tool(&self, it: &BeforeTool<'_>, cx: &HookCx) -> HookResult {
        self.note(format!("before_tool {} {}", it.tool.name, it.call.id), cx)
    }

    async fn after_tool(&self, it: &AfterTool<'_>, cx: &HookCx) -> HookResult {
        let status = it.result.status;
        self.note(format!("after_tool {} {status:?}", it.call.id), cx)
    }

    async fn before_sub_agent(&self, it: &BeforeSubAgent<'_>, cx: &HookCx) -> HookResult {
        let (id, agent) = (&it.call.id, &it.call.agent_type);
        self.note(format!("before_sub_agent {id} {agent}"), cx)
    }

    async fn after_sub_agent(&self, it: &AfterSubAgent<'_>, cx: &HookCx) -> HookResult {
        let status = it.result.status;
        self.note(format!("after_sub_agent {} {status:?}", it.call.id), cx)
    }

    async fn on_message(&self, it: &MessageAdded<'_>, cx: &HookCx) -> HookResult {
        let whose = match it.message {
            Message::Tool(result) => result.tool_call_id.to_string(),
            Message::Assistant(_) => "assistant".to_owned(),
            other => format!("{other:?}"),
        };
        self.note(format!("on_message {whose}"), cx)
    }

    async fn on_state_change(&self, it: &StateChange<'_>, cx: &HookCx) -> HookResult {
        self.note(format!("on_state_change {} {}", it.call, it.state), cx)
    }
}
