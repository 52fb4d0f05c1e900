//! A conversation with a provider's model, and what came of it.

use futures_util::StreamExt;
use helix_agents_core::SessionId;
use helix_agents_core::message::{FilePart, UserMessage};
use helix_agents_core::model::{
    EventStream, Model, ModelConfig, ModelError, ModelEvent, ModelReply, ModelRequest,
    ReplyBuilder, ToolChoice, ToolSchema,
};
use helix_agents_core::schema::Schema;
use helix_agents_core::step::{
    SystemPrompt, ToolResultInput, build_messages_for_llm, create_tool_result_message,
};
use helix_agents_core::time::Timestamp;
use helix_agents_core::transcript::{PairedStep, Transcript};
use helix_agents_testkit::{SequentialIds, VirtualClock};
use serde_json::{Map, Value, json};

use super::cassette::SceneFile;

/// A conversation under way.
pub(super) struct Scene {
    pub(super) history: Transcript,
    system: SystemPrompt,
    state: Value,
    session: SessionId,
    clock: VirtualClock,
    pub(super) tools: Vec<ToolSchema>,
    pub(super) tool_choice: ToolChoice,
    pub(super) native_output: Option<Schema>,
    pub(super) config: ModelConfig,
    results: Map<String, Value>,
    ids: SequentialIds,
}

impl Scene {
    pub(super) fn of(file: &SceneFile) -> Self {
        let files = file.files.iter().map(|file| {
            let file: FilePart = serde_json::from_value(file.clone()).unwrap();
            file
        });
        let user = files.fold(UserMessage::new(&file.user), UserMessage::with_file);
        let mut history = Transcript::new();
        history.push_user(user);
        let tools = file.tools.iter().map(|tool| {
            let input = Schema::object("a tool", tool.input.clone()).unwrap();
            let mut schema = ToolSchema::new(&tool.name, &tool.description, input);
            schema.strict = tool.strict;
            schema
        });
        let tool_choice = match &file.tool_choice {
            None => ToolChoice::Auto,
            Some(Value::String(word)) if word == "required" => ToolChoice::Required,
            Some(Value::String(word)) if word == "none" => ToolChoice::None,
            Some(value) => ToolChoice::Tool(value["tool"].as_str().unwrap().to_owned()),
        };
        let native_output = file.native_output.clone();
        Self {
            history,
            system: file.system.clone().into(),
            state: json!({}),
            session: SessionId::new("s1").unwrap(),
            clock: VirtualClock::new(Timestamp::from_millis(0)),
            tools: tools.collect(),
            tool_choice,
            native_output: native_output
                .map(|schema| Schema::object("the output", schema).unwrap()),
            config: serde_json::from_value(Value::Object(file.config.clone())).unwrap(),
            results: file.results.clone(),
            ids: SequentialIds::new(),
        }
    }

    /// A plain question, with default settings.
    pub(super) fn asking(text: &str) -> Self {
        let file = SceneFile {
            user: text.to_owned(),
            ..SceneFile::default()
        };
        Self::of(&file)
    }

    /// Returns all events of one attempt.
    pub(super) async fn events(&self, model: &dyn Model) -> Vec<Result<ModelEvent, ModelError>> {
        self.stream(model).collect().await
    }

    /// Starts one attempt.
    pub(super) fn stream<'a>(&'a self, model: &'a dyn Model) -> EventStream<'a> {
        model.stream(ModelRequest {
            prompt: build_messages_for_llm(&self.history, &self.system, &self.state),
            tools: &self.tools,
            tool_choice: self.tool_choice.clone(),
            native_output: self.native_output.as_ref(),
            config: &self.config,
            state: &self.state,
            agent_type: "support",
            session_id: &self.session,
            attempt: 1,
            clock: &self.clock,
        })
    }

    /// Makes one attempt, and returns the whole reply, with the error and the usage of one that failed.
    pub(super) async fn reply(&self, model: &dyn Model) -> Result<ModelReply, (ModelError, Value)> {
        let mut builder = ReplyBuilder::new(&self.history);
        for event in self.events(model).await {
            let used = |builder: &ReplyBuilder| serde_json::to_value(builder.usage()).unwrap();
            let pushed = event.and_then(|event| builder.push(event, &self.ids));
            if let Err(error) = pushed {
                return Err((error, used(&builder)));
            }
        }
        let used = serde_json::to_value(builder.usage()).unwrap();
        builder.finish().map_err(|error| (error, used))
    }

    /// Appends a reply, with the results of its calls.
    pub(super) fn push(&mut self, reply: &ModelReply) {
        let results: Vec<_> = reply
            .message
            .tool_calls()
            .map(|call| {
                let result = self.results.get(call.name.as_str());
                create_tool_result_message(ToolResultInput {
                    tool_call_id: call.id.clone(),
                    tool_name: call.name.clone(),
                    result: Ok(result.cloned().unwrap_or_else(|| json!("done"))),
                })
            })
            .collect();
        let step = PairedStep::new(reply.message.clone(), results).unwrap();
        self.history.push_step(step).unwrap();
    }
}

/// A reply in the form that cassettes expect, and that the providers' own SDKs are compared in.
pub(super) fn described(reply: &ModelReply) -> Value {
    let message = &reply.message;
    let thinking: Vec<_> = message
        .thinking()
        .filter(|block| !block.text.is_empty())
        .collect();
    let thinking: Vec<_> = thinking.iter().map(|block| block.text.as_str()).collect();
    let calls: Vec<_> = message
        .tool_calls()
        .map(|call| json!({ "name": call.name, "arguments": *call.arguments }))
        .collect();
    json!({
        "text": message.content().unwrap_or_default(),
        "thinking": thinking,
        "calls": calls,
        "stopReason": reply.stop_reason,
        "usage": reply.usage,
    })
}

/// An error in the form that cassettes expect.
pub(super) fn described_error(error: &ModelError, usage: &Value) -> Value {
    let mut described = json!({ "error": error.kind });
    if let Some(wait) = error.retry_after {
        described["retryAfterMs"] = json!(u64::try_from(wait.as_millis()).unwrap());
    }
    if !usage.is_null() {
        described["usage"] = usage.clone();
    }
    described
}
