//! A conversation that a model can reply to.

use std::time::Duration;

use futures_util::StreamExt;
use helix_agents_core::id::{CallId, SessionId};
use helix_agents_core::message::{AssistantMessage, ToolCall, ToolMessage, UserMessage};
use helix_agents_core::model::{
    Model, ModelConfig, ModelError, ModelErrorKind, ModelEvent, ModelExt, ModelReply, ModelRequest,
    ToolChoice,
};
use helix_agents_core::step::{
    SystemPrompt, ToolResultInput, build_messages_for_llm, create_tool_result_message,
};
use helix_agents_core::time::{Clock, Timestamp};
use helix_agents_core::transcript::{PairedStep, Transcript};
use helix_agents_models::{Script, ScriptedModel};
use helix_agents_testkit::{SequentialIds, VirtualClock, block_on};
use serde_json::{Value, json};

/// Builds a model from a script.
pub(crate) fn model(script: Value) -> ScriptedModel {
    ScriptedModel::new(Script::from_value(script).unwrap())
}

/// Builds a model that plays one step for every user message.
pub(crate) fn one_step(step: Value) -> ScriptedModel {
    let steps = vec![step];
    model(json!({ "default": steps }))
}

/// A model error as comparable data.
#[derive(Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) kind: ModelErrorKind,
    pub(crate) detail: String,
    pub(crate) retry_after: Option<Duration>,
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self {
            kind: error.kind,
            detail: error.detail,
            retry_after: error.retry_after,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) history: Transcript,
    pub(crate) state: Value,
    pub(crate) attempt: u32,
    ids: SequentialIds,
}

impl Scene {
    /// Creates a conversation with one user message.
    pub(crate) fn user(text: &str) -> Self {
        let mut scene = Self {
            history: Transcript::new(),
            state: json!({}),
            attempt: 1,
            ids: SequentialIds::new(),
        };
        scene.push_user(text);
        scene
    }

    pub(crate) fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    pub(crate) fn state(mut self, state: Value) -> Self {
        self.state = state;
        self
    }

    pub(crate) fn push_user(&mut self, text: &str) {
        self.history.push_user(UserMessage::new(text));
    }

    pub(crate) fn push_hidden_user(&mut self, text: &str) {
        self.history.push_user(UserMessage::hidden(text));
    }

    /// Appends an assistant message that another model produced, with its results.
    pub(crate) fn other_model(&mut self, message: AssistantMessage, results: Vec<ToolMessage>) {
        let step = PairedStep::new(message, results).unwrap();
        self.history.push_step(step).unwrap();
    }

    fn with_request<T>(&self, clock: &dyn Clock, act: impl FnOnce(ModelRequest<'_>) -> T) -> T {
        let system = SystemPrompt::from("You help.");
        let prompt = build_messages_for_llm(&self.history, &system, &self.state);
        let config = ModelConfig::default();
        let session = SessionId::new("s1").unwrap();
        act(ModelRequest {
            prompt,
            config: &config,
            state: &self.state,
            agent_type: "support",
            session_id: &session,
            clock,
            tools: &[],
            tool_choice: ToolChoice::Auto,
            native_output: None,
            attempt: self.attempt,
        })
    }

    /// Returns every event of a reply, with the milliseconds before it.
    pub(crate) fn timed_events(
        &self,
        model: &dyn Model,
    ) -> Vec<(u64, Result<ModelEvent, Failure>)> {
        let clock = VirtualClock::new(Timestamp::from_millis(0)).auto_advance();
        self.with_request(&clock, |request| {
            let events = model
                .stream(request)
                .map(|event| (clock.now().as_millis(), event.map_err(Failure::from)));
            block_on(events.collect())
        })
    }

    /// Returns every event of a reply.
    pub(crate) fn events(&self, model: &dyn Model) -> Vec<Result<ModelEvent, Failure>> {
        let events = self.timed_events(model).into_iter();
        events.map(|(_, event)| event).collect()
    }

    /// Returns every event of a reply that must not fail, on a given clock.
    pub(crate) fn events_on(&self, clock: &dyn Clock, model: &dyn Model) -> Vec<ModelEvent> {
        self.with_request(clock, |request| {
            block_on(model.stream(request).map(Result::unwrap).collect())
        })
    }

    /// Returns the whole reply.
    pub(crate) fn try_reply(&self, model: &dyn Model) -> Result<ModelReply, Failure> {
        let clock = VirtualClock::new(Timestamp::from_millis(0)).auto_advance();
        self.with_request(&clock, |request| {
            block_on(model.reply(request, &self.ids)).map_err(Failure::from)
        })
    }

    /// Returns the whole reply of a model that must not fail.
    pub(crate) fn reply(&self, model: &dyn Model) -> ModelReply {
        self.try_reply(model).unwrap()
    }

    /// Returns the text of the reply.
    pub(crate) fn text(&self, model: &dyn Model) -> String {
        self.reply(model).message.content().unwrap_or_default()
    }

    /// Returns the calls of the reply.
    pub(crate) fn calls(&self, model: &dyn Model) -> Vec<ToolCall> {
        self.reply(model).message.tool_calls().cloned().collect()
    }

    /// Appends the model's reply, and these results for its calls, in order.
    pub(crate) fn step<const N: usize>(&mut self, model: &dyn Model, results: [Value; N]) {
        let message = self.reply(model).message;
        let calls: Vec<_> = message.tool_calls().cloned().collect();
        assert_eq!(calls.len(), N, "one result for each call");
        let results = calls.into_iter().zip(results);
        let results = results.map(|(call, value)| result(call.id.as_str(), &call.name, value));
        self.other_model(message, results.collect());
    }
}

/// Builds the result of a tool call.
pub(crate) fn result(call: &str, tool: &str, value: Value) -> ToolMessage {
    create_tool_result_message(ToolResultInput {
        tool_call_id: CallId::new(call).unwrap(),
        tool_name: tool.into(),
        result: Ok(value),
    })
}

/// Builds a call as a session stores it.
pub(crate) fn call(id: &str, tool: &str, arguments: Value) -> ToolCall {
    ToolCall::new(CallId::new(id).unwrap(), tool, arguments)
}
