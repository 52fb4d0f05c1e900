//! Requests to Gemini.

use helix_agents_core::model::{ModelConfig, ModelError, ModelErrorKind, ModelRequest};
use helix_agents_core::model::{ToolChoice, ToolSchema};
use serde_json::{Value, json};

use super::messages::{CLOSED, GeminiContents};
use crate::provider::body::{Body, Options, merge, write};
use crate::provider::endpoint::Endpoint;
use crate::provider::settings::{Settings, options};

const GENERATION: &str = "generationConfig";
const TOOLS: &str = "toolConfig";

/// Writes the body of a request.
pub(super) fn body(
    endpoint: &Endpoint,
    contents: &GeminiContents,
    request: &ModelRequest<'_>,
) -> Result<Vec<u8>, ModelError> {
    let mut options = options(request.config, endpoint.provider)?;
    let mut head = generation(request.config)?;
    // Gemini has the schema of the output among the settings, and the function to call beside those of other
    // tools. What differs from step to step is written behind the conversation, so such an object is there.
    let mut tail = Settings::default();
    if let Some(schema) = request.native_output {
        let mut generation = json!({
            "responseMimeType": "application/json",
            "responseJsonSchema": schema.json(),
        });
        if let (Some(Value::Object(settings)), Value::Object(generation)) =
            (head.0.remove(GENERATION), &mut generation)
        {
            merge(generation, &settings);
        }
        tail.set(
            GENERATION,
            with_options(generation, &mut options, GENERATION),
        );
    }
    if let Some(choice) = tool_choice(request) {
        let choice = json!({ "functionCallingConfig": choice });
        tail.set(TOOLS, with_options(choice, &mut options, TOOLS));
    }
    let mut body = Body::new(head.0, options, &["contents", "systemInstruction"])?;
    let system = request.prompt.system();
    if !system.is_empty() {
        body.field(
            "systemInstruction",
            &json!({ "parts": [{ "text": system }] }),
        )?;
    }
    let functions = (!request.tools.is_empty()).then_some(request.tools);
    body.tools(functions, write_functions)?;
    body.raw("contents", |out| {
        out.push(b'[');
        let history = request.prompt.history();
        history.render_into(contents, out)?;
        if !history.is_empty() {
            out.extend(CLOSED);
        }
        out.push(b']');
        Ok(())
    })?;
    for (name, value) in &tail.0 {
        body.field(name, value)?;
    }
    Ok(body.finish())
}

/// Returns the settings, in the one object in which Gemini has them.
fn generation(config: &ModelConfig) -> Result<Settings, ModelError> {
    let mut all = Settings::default();
    all.set_if("temperature", config.temperature);
    all.set_if("topP", config.top_p);
    all.set_if("topK", config.top_k);
    all.set_if("maxOutputTokens", config.max_output_tokens);
    all.set_if("presencePenalty", config.presence_penalty);
    all.set_if("frequencyPenalty", config.frequency_penalty);
    if let Some(seed) = config.seed {
        let seed = i32::try_from(seed).map_err(|_| {
            let detail = format!("gemini takes no seed above {}; set a smaller one", i32::MAX);
            ModelError::new(ModelErrorKind::Invalid, detail)
        })?;
        all.set("seed", seed);
    }
    if !config.stop_sequences.is_empty() {
        all.set("stopSequences", config.stop_sequences.clone());
    }
    let mut head = Settings::default();
    if !all.0.is_empty() {
        head.set(GENERATION, all.0);
    }
    Ok(head)
}

/// Merges what the options say about one field into a value of ours.
fn with_options(mut ours: Value, options: &mut Options, name: &str) -> Value {
    match (&mut ours, options.remove(name)) {
        (Value::Object(ours), Some(Value::Object(theirs))) => merge(ours, &theirs),
        (_, Some(theirs)) => return theirs,
        _ => {}
    }
    ours
}

fn tool_choice(request: &ModelRequest<'_>) -> Option<Value> {
    if request.tools.is_empty() {
        return None;
    }
    Some(match &request.tool_choice {
        ToolChoice::Required => json!({ "mode": "ANY" }),
        ToolChoice::Tool(name) => json!({ "mode": "ANY", "allowedFunctionNames": [name] }),
        ToolChoice::None => json!({ "mode": "NONE" }),
        // Schemas are enforced for all functions or for none.
        _ if request.tools.iter().any(|tool| tool.strict) => json!({ "mode": "VALIDATED" }),
        _ => return None,
    })
}

fn write_functions(tools: &[ToolSchema], out: &mut Vec<u8>) -> Result<(), ModelError> {
    out.extend(br#"{"functionDeclarations":"#);
    let mut begin = b'[';
    for tool in tools {
        out.push(begin);
        out.extend(br#"{"name":"#);
        write(out, &tool.name)?;
        out.extend(br#","description":"#);
        write(out, &tool.description)?;
        out.extend(br#","parametersJsonSchema":"#);
        out.extend(tool.input.text().as_bytes());
        out.push(b'}');
        begin = b',';
    }
    out.extend(b"]}");
    Ok(())
}
