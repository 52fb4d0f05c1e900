//! Requests to `genai`.

use std::collections::BTreeMap;

use ::genai::chat::{
    ChatOptions, ChatRequest, ChatResponseFormat, JsonSpec, Tool, ToolChoice as Choice,
};
use helix_agents_core::model::{ModelConfig, ModelError, ModelErrorKind, ModelRequest, ToolChoice};
use serde_json::Value;

use super::PROVIDER;
use super::messages::messages;
use super::support::Support;
use crate::provider::endpoint::header;

const REMOVE: &str = "remove it from the model's configuration";

/// Returns the conversation and the tools.
pub(super) fn conversation(
    request: &ModelRequest<'_>,
    model: &str,
    support: Support,
) -> Result<ChatRequest, ModelError> {
    let mut chat = ChatRequest::new(messages(request.prompt.history(), model, support)?);
    let system = request.prompt.system();
    if !system.is_empty() {
        chat = chat.with_system(system);
    }
    if !request.tools.is_empty() {
        support.require(support.tools, "tools", "use another adapter")?;
        chat = chat.with_tools(request.tools.iter().map(|tool| {
            let schema = tool.input.json().clone();
            let new = Tool::new(&tool.name).with_description(&tool.description);
            let new = new.with_schema(schema);
            match tool.strict {
                true => new.with_strict(true),
                false => new,
            }
        }));
    }
    Ok(chat)
}

/// Returns the settings. One that `genai` or the adapter lacks is refused.
pub(super) fn options(
    request: &ModelRequest<'_>,
    headers: &BTreeMap<String, String>,
    support: Support,
) -> Result<ChatOptions, ModelError> {
    let config = request.config;
    refuse_unknown(config, support)?;
    let mut options = ChatOptions::default()
        .with_capture_usage(true)
        // Pieces of calls are then told with everything before them, and reasoning with its signatures.
        .with_capture_tool_calls(true)
        .with_capture_reasoning_content(true);
    options.temperature = config.temperature;
    options.top_p = config.top_p;
    options.max_tokens = config.max_output_tokens;
    options.seed = config.seed;
    options.stop_sequences.clone_from(&config.stop_sequences);
    options.extra_body = extra_body(config, support)?;
    options.tool_choice = tool_choice(request, support)?;
    if let Some(schema) = request.native_output {
        let remedy = "let the agent use the tool for its output";
        support.require(support.native_output, "schema of the output", remedy)?;
        let spec = JsonSpec::new("output", schema.json().clone());
        options.response_format = Some(ChatResponseFormat::JsonSpec(spec));
    }
    let mut all = Vec::with_capacity(headers.len() + config.headers.len());
    for (name, value) in headers.iter().chain(&config.headers) {
        header(name, value)?;
        all.push((name.clone(), value.clone()));
    }
    if !all.is_empty() {
        options = options.with_extra_headers(all);
    }
    Ok(options)
}

fn refuse_unknown(config: &ModelConfig, support: Support) -> Result<(), ModelError> {
    for (name, is_set, has) in [
        ("top_k", config.top_k.is_some(), false),
        ("presence_penalty", config.presence_penalty.is_some(), false),
        (
            "frequency_penalty",
            config.frequency_penalty.is_some(),
            false,
        ),
        ("seed", config.seed.is_some(), support.seed),
    ] {
        if is_set {
            support.require(has, &format!("setting `{name}`"), REMOVE)?;
        }
    }
    Ok(())
}

/// Returns the fields that a user adds to the body.
fn extra_body(config: &ModelConfig, support: Support) -> Result<Option<Value>, ModelError> {
    match config.provider_options.get(PROVIDER) {
        None => Ok(None),
        Some(options) if options.is_object() => {
            support.require(support.options, "provider options", REMOVE)?;
            Ok(Some(options.clone()))
        }
        Some(_) => {
            let detail = "the provider options of genai are not an object; write one";
            Err(ModelError::new(ModelErrorKind::Invalid, detail))
        }
    }
}

/// Returns the choice of a tool. With an adapter that cannot force one, the model decides: the conversation
/// tells it which to call, and the loop looks at what it called.
fn tool_choice(request: &ModelRequest<'_>, support: Support) -> Result<Option<Choice>, ModelError> {
    if request.tools.is_empty() {
        return Ok(None);
    }
    let choice = match &request.tool_choice {
        ToolChoice::Required => Choice::Required,
        ToolChoice::Tool(name) => Choice::tool(name),
        ToolChoice::None => {
            let remedy = "send the request without tools";
            support.require(support.tool_choice, "way to forbid tools", remedy)?;
            Choice::None
        }
        _ => return Ok(None),
    };
    Ok(Some(choice).filter(|_| support.tool_choice))
}
