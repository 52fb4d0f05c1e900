//! Requests to Anthropic.

use helix_agents_core::message::Message;
use helix_agents_core::model::{ModelError, ModelRequest, ToolChoice, ToolSchema};
use serde_json::{Map, Value, json};

use super::binding;
use super::messages::AnthropicMessages;
use super::strict_schema::strict;
use super::thinking;
use crate::provider::body::{Body, Options, write};
use crate::provider::endpoint::Endpoint;
use crate::provider::settings::{Settings, no_such_setting, options};

/// The maximum length of a reply, where neither the configuration nor the model says one. The provider
/// wants one in every request.
const MAX_TOKENS: u64 = 4096;

/// A request that is written.
pub(super) struct Written {
    pub(super) body: Vec<u8>,
    /// The beta that a field of the body needs.
    pub(super) beta: Option<&'static str>,
}

/// Writes the body of a request.
pub(super) fn body(
    endpoint: &Endpoint,
    messages: &AnthropicMessages,
    known_limit: Option<u64>,
    request: &ModelRequest<'_>,
) -> Result<Written, ModelError> {
    let config = request.config;
    for (name, is_set) in [
        ("presence_penalty", config.presence_penalty.is_some()),
        ("frequency_penalty", config.frequency_penalty.is_some()),
        ("seed", config.seed.is_some()),
    ] {
        if is_set {
            return Err(no_such_setting(endpoint.provider, name));
        }
    }
    let history = request.prompt.history();
    let mut options = options(config, endpoint.provider)?;
    let budget = thinking::budget(&options);
    if budget.is_some() && !thinking::is_allowed(history, messages, &request.tool_choice) {
        options.remove("thinking");
    }
    let binds = binding::binds_thinking(&endpoint.model);
    let has_binding = binds && binding::drop_unfit_blocks(&mut options);
    let mut settings = Settings::default();
    settings.set("model", endpoint.model.as_str());
    settings.set("stream", true);
    settings.set("max_tokens", max_tokens(request, known_limit, budget));
    settings.set_if("temperature", config.temperature);
    settings.set_if("top_p", config.top_p);
    settings.set_if("top_k", config.top_k);
    if !config.stop_sequences.is_empty() {
        settings.set("stop_sequences", config.stop_sequences.clone());
    }
    let last = Last::of(request, !binds, &mut options);
    let is_without_tools = request.tools.is_empty() && !options.contains_key("tools");
    let mut body = Body::new(settings.0, options, &["messages", "stream", "system"])?;
    if is_without_tools && history.iter().any(is_result) {
        body.field("tools", &[no_tool()])?;
    } else {
        body.tools(request.tools, write_tool)?;
    }
    let system = request.prompt.system();
    if !system.trim().is_empty() {
        body.field("system", system)?;
    }
    body.raw("messages", |out| {
        out.push(b'[');
        history.render_into(messages, out)?;
        messages.close(history.last(), out)?;
        out.push(b']');
        Ok(())
    })?;
    if let Some(choice) = &last.tool_choice {
        body.field("tool_choice", choice)?;
    }
    if let Some(output) = &last.output_config {
        body.field("output_config", output)?;
    }
    Ok(Written {
        body: body.finish(),
        beta: has_binding.then_some(binding::BETA),
    })
}

fn max_tokens(request: &ModelRequest<'_>, known_limit: Option<u64>, budget: Option<u64>) -> u64 {
    if let Some(limit) = request.config.max_output_tokens {
        return limit.into();
    }
    let limit = known_limit.unwrap_or(MAX_TOKENS);
    // The budget is part of the limit, and must be less.
    match budget {
        Some(budget) if budget >= limit => budget.saturating_add(MAX_TOKENS),
        _ => limit,
    }
}

/// The fields behind the conversation, which may differ from step to step. The options of a user are merged
/// into them.
struct Last {
    tool_choice: Option<Map<String, Value>>,
    output_config: Option<Map<String, Value>>,
}

impl Last {
    fn of(request: &ModelRequest<'_>, may_force: bool, options: &mut Options) -> Self {
        let choice = tool_choice(request, may_force);
        if choice.is_some() && request.tool_choice == ToolChoice::None {
            // The options of a choice are about calls, which there will be none of.
            options.remove("tool_choice");
        }
        let tool_choice = choice.map(|choice| merged(options, "tool_choice", choice));
        let format = |schema: &Value| json!({ "format": { "type": "json_schema", "schema": strict(schema) } });
        let output = request.native_output.map(|schema| format(schema.json()));
        Self {
            tool_choice,
            output_config: output.map(|output| merged(options, "output_config", output)),
        }
    }
}

/// Takes a field out of the options, and puts ours into it.
fn merged(options: &mut Options, field: &str, ours: Value) -> Map<String, Value> {
    let mut all = match options.remove(field) {
        Some(Value::Object(theirs)) => theirs,
        _ => Map::new(),
    };
    if let Value::Object(ours) = ours {
        all.extend(ours);
    }
    all
}

/// Returns the choice of a tool. A model that refuses to be forced decides itself: the conversation tells it
/// which tool to call, and the loop looks at what it called.
fn tool_choice(request: &ModelRequest<'_>, may_force: bool) -> Option<Value> {
    if request.tools.is_empty() {
        return None;
    }
    match &request.tool_choice {
        ToolChoice::Required | ToolChoice::Tool(_) if !may_force => None,
        ToolChoice::Required => Some(json!({ "type": "any" })),
        ToolChoice::None => Some(json!({ "type": "none" })),
        ToolChoice::Tool(name) => Some(json!({ "type": "tool", "name": name })),
        _ => None,
    }
}

fn is_result(message: &Message) -> bool {
    matches!(message, Message::Tool(_))
}

/// A tool for a conversation that has calls while there is no tool any more: the provider wants tools where
/// there are calls.
fn no_tool() -> Value {
    json!({
        "name": "no_tool",
        "description": "There are no tools any more. Do not call this.",
        "input_schema": { "type": "object", "properties": {} },
    })
}

fn write_tool(tool: &ToolSchema, out: &mut Vec<u8>) -> Result<(), ModelError> {
    out.extend(br#"{"name":"#);
    write(out, &tool.name)?;
    if !tool.description.trim().is_empty() {
        out.extend(br#","description":"#);
        write(out, &tool.description)?;
    }
    out.extend(br#","input_schema":"#);
    if tool.strict {
        write(out, &strict(tool.input.json()))?;
        out.extend(br#","strict":true"#);
    } else {
        out.extend(tool.input.text().as_bytes());
    }
    out.push(b'}');
    Ok(())
}
