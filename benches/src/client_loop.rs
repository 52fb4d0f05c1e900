//! An agent without a framework, over the client that the framework uses for a real provider.

use helix_agents_core::message::UserMessage;
use helix_agents_core::model::{
    Model, ModelConfig, ModelExt, ModelRequest, ToolChoice, ToolSchema,
};
use helix_agents_core::schema::Schema;
use helix_agents_core::step::{
    SystemPrompt, ToolResultInput, build_messages_for_llm, create_tool_result_message,
};
use helix_agents_core::transcript::PairedStep;
use helix_agents_core::{SessionId, Transcript};
use helix_agents_models::{Provider, ProviderModel};
use helix_agents_runtime_local::{SystemClock, UuidIds};
use serde_json::{Value, json};

use crate::http_loops::{SYSTEM, USER};
use crate::sqlite::Outcome;

/// The client of a provider, and what a loop by hand needs beside it.
pub(crate) struct ClientLoop {
    model: ProviderModel,
    tools: Vec<ToolSchema>,
    system: SystemPrompt,
    session: SessionId,
    config: ModelConfig,
}

/// A model of the mock server, as a provider's model.
pub(crate) fn provider_model(address: &str, model: &str) -> Outcome<ProviderModel> {
    let builder = ProviderModel::builder(Provider::OpenAi, model);
    Ok(builder.base_url(format!("http://{address}/v1")).build()?)
}

impl ClientLoop {
    pub(crate) fn new(address: &str, model: &str) -> Outcome<Self> {
        let schema = json!({
            "type": "object",
            "required": ["a", "b"],
            "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } },
        });
        let schema = Schema::object("add", schema)?;
        Ok(Self {
            model: provider_model(address, model)?,
            tools: vec![ToolSchema::new("add", "Adds two numbers.", schema)],
            system: SystemPrompt::from(SYSTEM),
            session: SessionId::new("s")?,
            config: ModelConfig::default(),
        })
    }

    /// One turn in a conversation of its own.
    pub(crate) async fn turn(&self) -> Outcome<String> {
        let (clock, ids, state) = (SystemClock::new(), UuidIds::new(), Value::Null);
        let mut history = Transcript::new();
        history.push_user(UserMessage::new(USER));
        loop {
            let request = ModelRequest {
                prompt: build_messages_for_llm(&history, &self.system, &state),
                tools: &self.tools,
                tool_choice: ToolChoice::Auto,
                native_output: None,
                config: &self.config,
                state: &state,
                agent_type: "adder",
                session_id: &self.session,
                attempt: 1,
                clock: &clock,
            };
            let reply = (&self.model as &dyn Model).reply(request, &ids).await?;
            let results: Vec<_> = reply
                .message
                .tool_calls()
                .map(|call| {
                    let number = |name| {
                        call.arguments
                            .get(name)
                            .and_then(Value::as_i64)
                            .unwrap_or(0)
                    };
                    let sum = json!({ "sum": number("a") + number("b") });
                    create_tool_result_message(ToolResultInput {
                        tool_call_id: call.id.clone(),
                        tool_name: call.name.clone(),
                        result: Ok(sum),
                    })
                })
                .collect();
            if results.is_empty() {
                return Ok(reply.message.content().unwrap_or_default());
            }
            history.push_step(PairedStep::new(reply.message, results)?)?;
        }
    }
}
