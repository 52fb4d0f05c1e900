//! Conversations that a provider must be able to continue, and the requests that continue them.

use helix_agents_core::message::Message;
use helix_agents_core::model::{ModelError, ModelErrorKind};
use helix_agents_core::transcript::Transcript;
use helix_agents_models::{Provider, ProviderModel};
use serde_json::{Value, json};

use super::http_server::{HttpServer, Response};
use super::scene::Scene;

/// Everything that may be in a history: messages in a row, a hidden one, reasoning of other providers and
/// models, arguments that are not an object, a call id that no provider takes, results of every kind, a call
/// without a result, a reply with nothing in it, and one that was cut off.
pub(super) fn hard() -> Transcript {
    let call = |id: &str, arguments: Value| json!({ "type": "tool_call", "id": id, "name": "f", "arguments": arguments });
    let result = |id: &str, status: &str| {
        json!({
            "role": "tool", "toolCallId": id, "toolName": "f", "status": status,
            "content": format!("{{\"error\":\"{status}\"}}"),
        })
    };
    let foreign = json!({
        "type": "thinking", "text": "Elsewhere", "signature": "sig",
        "providerMetadata": { "anthropic": { "model": "claude" } },
    });
    let signed_text = json!({
        "type": "text", "text": "", "providerMetadata": { "gemini": { "thoughtSignature": "x" } },
    });
    let messages = json!([
        { "role": "user", "content": "One" },
        { "role": "user", "content": "Two", "metadata": { "hidden": true } },
        { "role": "user", "content": "" },
        { "role": "assistant", "parts": [
            foreign, signed_text, { "type": "text", "text": "Said" },
            call("a.very:strange.id", json!("{\"x\": 1")), call("c2", json!([1])), call("c3", json!({})),
            call("c4", json!({ "b": 1, "a": 2 })), call("c5", json!({})), call("c6", json!({})),
        ]},
        result("c2", "denied"), result("a.very:strange.id", "error"), result("c3", "timed_out"),
        result("c4", "not_executed"), result("c5", "unknown"),
        { "role": "assistant", "parts": [foreign] },
        { "role": "assistant", "parts": [{ "type": "text", "text": "Cut o" }] },
        { "role": "user", "content": "Three" },
    ]);
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    let (history, healed) = Transcript::load(messages);
    assert!(!healed.is_empty());
    history
}

/// A conversation of one reply with these parts.
pub(super) fn after(parts: &Value) -> Transcript {
    let messages = json!([
        { "role": "user", "content": "One" },
        { "role": "assistant", "parts": parts },
        { "role": "user", "content": "Two" },
    ]);
    let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
    Transcript::load(messages).0
}

/// Returns the body of the request that a scene makes, or why none was sent.
pub(super) async fn request(
    provider: Provider,
    model: &str,
    scene: &Scene,
) -> Result<Value, ModelError> {
    let refused = Response::new(418, "application/json", "{}");
    let server = HttpServer::start(move |_| refused.clone()).await;
    let model = ProviderModel::builder(provider, model)
        .base_url(format!("http://{}/v1", server.address))
        .build()
        .unwrap();
    let (error, _) = scene.reply(&model).await.unwrap_err();
    match server.seen().first() {
        Some(seen) => Ok(serde_json::from_slice(&seen.body).unwrap()),
        None => Err(error),
    }
}

/// Asserts that no request is sent, because of something that the error names.
pub(super) async fn assert_refused(provider: Provider, scene: &Scene, named: &str) {
    let error = request(provider, "gpt-5.5", scene).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Invalid, "{error}");
    assert!(error.detail.contains(named), "{named}: {error}");
}

/// Sets the options of a provider.
pub(super) fn with_options(provider: Provider, options: Value) -> Scene {
    let mut scene = Scene::asking("One");
    let name = provider.name().to_owned();
    scene.config.provider_options.insert(name, options);
    scene
}
