//! Requests to Chat Completions.

use helix_agents_core::model::{ModelError, ModelRequest, ToolChoice, ToolSchema};
use serde_json::{Value, json};

use super::messages::ChatMessages;
use crate::provider::body::{Body, write};
use crate::provider::endpoint::Endpoint;
use crate::provider::settings::{Settings, no_such_setting, options};

/// Writes the body of a request.
pub(super) fn body(
    endpoint: &Endpoint,
    messages: &ChatMessages,
    request: &ModelRequest<'_>,
) -> Result<Vec<u8>, ModelError> {
    let config = request.config;
    let is_openai = is_openai(&endpoint.base_url);
    let mut settings = Settings::default();
    settings.set("model", endpoint.model.as_str());
    settings.set("stream", true);
    settings.set("stream_options", json!({ "include_usage": true }));
    settings.set_if("temperature", config.temperature);
    settings.set_if("top_p", config.top_p);
    settings.set_if("presence_penalty", config.presence_penalty);
    settings.set_if("frequency_penalty", config.frequency_penalty);
    settings.set_if("seed", config.seed);
    if config.top_k.is_some() && is_openai {
        return Err(no_such_setting(endpoint.provider, "top_k"));
    }
    settings.set_if("top_k", config.top_k);
    settings.set_if(limit_name(is_openai), config.max_output_tokens);
    if !config.stop_sequences.is_empty() {
        settings.set("stop", config.stop_sequences.clone());
    }
    let options = options(config, endpoint.provider)?;
    let mut body = Body::new(settings.0, options, &["messages", "stream"])?;
    body.tools(request.tools, write_tool)?;
    body.raw("messages", |out| {
        out.push(b'[');
        let system = request.prompt.system();
        if !system.is_empty() {
            write(out, &json!({ "role": "system", "content": system }))?;
            if !request.prompt.history().is_empty() {
                out.push(b',');
            }
        }
        request.prompt.history().render_into(messages, out)?;
        out.push(b']');
        Ok(())
    })?;
    if let Some(choice) = tool_choice(request) {
        body.field("tool_choice", &choice)?;
    }
    if let Some(schema) = request.native_output {
        let format = json!({
            "type": "json_schema",
            "json_schema": { "name": "output", "schema": schema.json(), "strict": config.strict_output },
        });
        body.field("response_format", &format)?;
    }
    Ok(body.finish())
}

/// Whether a server is OpenAI's own, or Azure's.
fn is_openai(base_url: &str) -> bool {
    let url = reqwest::Url::parse(base_url).ok();
    let host = url.as_ref().and_then(|url| url.host_str());
    host.is_some_and(|host| host.ends_with(".openai.com") || host.ends_with(".azure.com"))
}

/// Returns the name of the limit on tokens. Servers other than OpenAI's know the older one.
fn limit_name(is_openai: bool) -> &'static str {
    match is_openai {
        true => "max_completion_tokens",
        false => "max_tokens",
    }
}

fn tool_choice(request: &ModelRequest<'_>) -> Option<Value> {
    if request.tools.is_empty() {
        return None;
    }
    match &request.tool_choice {
        ToolChoice::Required => Some("required".into()),
        ToolChoice::None => Some("none".into()),
        ToolChoice::Tool(name) => Some(json!({ "type": "function", "function": { "name": name } })),
        _ => None,
    }
}

fn write_tool(tool: &ToolSchema, out: &mut Vec<u8>) -> Result<(), ModelError> {
    out.extend(br#"{"type":"function","function":{"name":"#);
    write(out, &tool.name)?;
    out.extend(br#","description":"#);
    write(out, &tool.description)?;
    out.extend(br#","parameters":"#);
    out.extend(tool.input.text().as_bytes());
    if tool.strict {
        out.extend(br#","strict":true"#);
    }
    out.extend(b"}}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_on_tokens_has_the_name_that_the_server_knows() {
        let name = |url: &str| limit_name(is_openai(url));
        for url in [
            "https://api.openai.com/v1",
            "https://eu.api.openai.com/v1",
            "https://me.openai.azure.com/openai/v1",
        ] {
            assert_eq!(name(url), "max_completion_tokens", "{url}");
        }
        for url in [
            "http://127.0.0.1:11434/v1",
            "https://openrouter.ai/api/v1",
            "https://api.openai.com.example.org/v1",
        ] {
            assert_eq!(name(url), "max_tokens", "{url}");
        }
    }
}
