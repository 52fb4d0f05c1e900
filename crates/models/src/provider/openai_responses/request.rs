//! Requests to Responses.

use helix_agents_core::model::{ModelConfig, ModelError, ModelErrorKind, ModelRequest};
use helix_agents_core::model::{ToolChoice, ToolSchema};
use serde_json::{Map, Value, json};

use super::messages::ResponsesMessages;
use crate::provider::Provider;
use crate::provider::body::{Body, Options, write};
use crate::provider::endpoint::Endpoint;
use crate::provider::settings::{Settings, no_such_setting, options};

/// The fields that the client alone writes. The last two name a conversation that the provider keeps; a
/// request carries the whole conversation itself.
const OURS: &[&str] = &[
    "input",
    "instructions",
    "stream",
    "conversation",
    "previous_response_id",
];
/// The beginnings of the names of models that do not reason. They refuse to be asked for their reasoning.
const WITHOUT_REASONING: &[&str] = &["gpt-3", "gpt-4", "chatgpt-", "gpt-5-chat"];

/// Writes the body of a request.
pub(super) fn body(
    endpoint: &Endpoint,
    messages: &ResponsesMessages,
    request: &ModelRequest<'_>,
) -> Result<Vec<u8>, ModelError> {
    let config = request.config;
    refuse_unknown(config)?;
    let mut options = options(config, endpoint.provider)?;
    let text = options.remove("text");
    let include = included(&endpoint.model, &mut options)?;
    let mut settings = Settings::default();
    settings.set("model", endpoint.model.as_str());
    settings.set("stream", true);
    settings.set("store", false);
    settings.set_if("include", include);
    settings.set_if("temperature", config.temperature);
    settings.set_if("top_p", config.top_p);
    settings.set_if("max_output_tokens", config.max_output_tokens);
    let mut body = Body::new(settings.0, options, OURS)?;
    body.tools(request.tools, write_tool)?;
    let system = request.prompt.system();
    if !system.is_empty() {
        body.field("instructions", system)?;
    }
    body.raw("input", |out| {
        out.push(b'[');
        request.prompt.history().render_into(messages, out)?;
        // Each item ends with a comma.
        if out.ends_with(b",") {
            out.pop();
        }
        out.push(b']');
        Ok(())
    })?;
    if let Some(choice) = tool_choice(request) {
        body.field("tool_choice", &choice)?;
    }
    if let Some(text) = text_settings(text, request)? {
        body.field("text", &text)?;
    }
    Ok(body.finish())
}

/// Whether the provider keeps the reply, so that its items are known by their ids.
pub(super) fn is_stored(config: &ModelConfig) -> bool {
    let options = config
        .provider_options
        .get(Provider::OpenAiResponses.name());
    let store = options.and_then(|options| options.get("store"));
    store.and_then(Value::as_bool).unwrap_or(false)
}

fn refuse_unknown(config: &ModelConfig) -> Result<(), ModelError> {
    let unknown = [
        ("top_k", config.top_k.is_some()),
        ("presence_penalty", config.presence_penalty.is_some()),
        ("frequency_penalty", config.frequency_penalty.is_some()),
        ("seed", config.seed.is_some()),
        ("stop_sequences", !config.stop_sequences.is_empty()),
    ];
    match unknown.iter().find(|(_, is_set)| *is_set) {
        Some((name, _)) => Err(no_such_setting(Provider::OpenAiResponses, name)),
        None => Ok(()),
    }
}

/// Returns what a reply shall include: the encrypted reasoning, and what the options add. The option `null`
/// asks for nothing, for a model that does not reason and whose name does not tell.
fn included(model: &str, options: &mut Options) -> Result<Option<Value>, ModelError> {
    const REASONING: &str = "reasoning.encrypted_content";
    let name = model.strip_prefix("ft:").unwrap_or(model);
    let reasons = !WITHOUT_REASONING
        .iter()
        .any(|prefix| name.starts_with(prefix));
    let ours = reasons.then(|| Value::from(REASONING));
    let mut included: Vec<Value> = ours.into_iter().collect();
    match options.remove("include") {
        None => {}
        Some(Value::Null) => included.clear(),
        Some(Value::Array(more)) => {
            included.extend(more.into_iter().filter(|one| *one != REASONING || !reasons));
        }
        Some(_) => return Err(not_a("include", "an array")),
    }
    Ok((!included.is_empty()).then(|| included.into()))
}

/// Returns the settings of the text: those of the options, and the schema of the output.
fn text_settings(
    options: Option<Value>,
    request: &ModelRequest<'_>,
) -> Result<Option<Value>, ModelError> {
    let mut text = match options {
        None => Map::new(),
        Some(Value::Object(text)) => text,
        Some(_) => return Err(not_a("text", "an object")),
    };
    if let Some(schema) = request.native_output {
        let strict = request.config.strict_output;
        let format = json!({
            "type": "json_schema", "name": "output", "schema": schema.json(), "strict": strict,
        });
        text.insert("format".to_owned(), format);
    }
    Ok((!text.is_empty()).then(|| text.into()))
}

fn not_a(field: &str, what: &str) -> ModelError {
    let detail = format!("the provider options set `{field}` to something that is not {what}");
    ModelError::new(ModelErrorKind::Invalid, detail)
}

fn tool_choice(request: &ModelRequest<'_>) -> Option<Value> {
    if request.tools.is_empty() {
        return None;
    }
    match &request.tool_choice {
        ToolChoice::Required => Some("required".into()),
        ToolChoice::None => Some("none".into()),
        ToolChoice::Tool(name) => Some(json!({ "type": "function", "name": name })),
        _ => None,
    }
}

fn write_tool(tool: &ToolSchema, out: &mut Vec<u8>) -> Result<(), ModelError> {
    out.extend(br#"{"type":"function","name":"#);
    write(out, &tool.name)?;
    out.extend(br#","description":"#);
    write(out, &tool.description)?;
    out.extend(br#","parameters":"#);
    out.extend(tool.input.text().as_bytes());
    // The provider enforces a schema unless it is told not to.
    out.extend(br#","strict":"#);
    write(out, &tool.strict)?;
    out.push(b'}');
    Ok(())
}
