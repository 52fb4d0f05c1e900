//! Models of Anthropic that bind their thinking to the conversation, and cannot be forced to call a tool.

use helix_agents_core::model::{ToolChoice, ToolSchema};
use helix_agents_core::schema::Schema;
use helix_agents_models::{Provider, ProviderModel};
use serde_json::{Value, json};

use super::cassette;
use super::http_server::{HttpServer, Seen};
use super::scene::Scene;

const BETA: &str = "thinking-binding-controls-2026-08-01";

/// Sends a request to a model, with this header of the user's, and returns it.
async fn sent(model: &str, scene: &Scene, beta: Option<&str>) -> Seen {
    let text = cassette::of("anthropic");
    let text = text.into_iter().find(|one| one.name == "text").unwrap();
    let response = text.exchanges[0].response();
    let server = HttpServer::start(move |_| response.clone()).await;
    let mut model = ProviderModel::builder(Provider::Anthropic, model)
        .base_url(format!("http://{}", server.address))
        .api_key("key");
    if let Some(beta) = beta {
        model = model.header("Anthropic-Beta", beta);
    }
    scene.reply(&model.build().unwrap()).await.unwrap();
    server.seen().remove(0)
}

fn body(seen: &Seen) -> Value {
    serde_json::from_slice(&seen.body).unwrap()
}

/// A system prompt that is made from the state changes between two steps, and so does what a summary replaces.
/// Thinking that no longer fits is left out by the provider, instead of the run failing for ever.
#[tokio::test]
async fn thinking_that_no_longer_fits_is_left_out_by_the_provider() {
    let scene = Scene::asking("Go.");
    for model in ["claude-fable-5-1", "claude-opus-5-5"] {
        let seen = sent(model, &scene, None).await;
        let binding = json!({ "prefix_mismatch_behavior": "drop_block" });
        let expected = json!({ "type": "adaptive", "block_binding": binding });
        assert_eq!(body(&seen)["thinking"], expected, "{model}");
        assert_eq!(seen.headers["anthropic-beta"], BETA);
    }
    let seen = sent("claude-opus-5", &scene, None).await;
    assert_eq!(body(&seen)["thinking"], Value::Null);
    assert_eq!(seen.headers.get("anthropic-beta"), None);
}

#[tokio::test]
async fn a_beta_of_the_user_is_kept_beside_ours() {
    let mut scene = Scene::asking("Go.");
    let beta = async |scene: &Scene, users| {
        let seen = sent("claude-opus-5-5", scene, Some(users)).await;
        seen.headers["anthropic-beta"].clone()
    };
    assert_eq!(beta(&scene, "a,b").await, format!("a,b,{BETA}"));
    let both = format!("a, {BETA}");
    assert_eq!(beta(&scene, &both).await, both);
    let options = json!({ "thinking": { "type": "adaptive", "block_binding": null } });
    scene
        .config
        .provider_options
        .insert("anthropic".into(), options);
    assert_eq!(beta(&scene, "a").await, "a");
}

/// The provider refuses a choice that forces a tool, so the model decides. A choice of no tool is sent.
#[tokio::test]
async fn a_model_that_cannot_be_forced_decides_itself() {
    let mut scene = Scene::asking("Go.");
    let schema = Schema::object("a tool", json!({ "type": "object" })).unwrap();
    scene.tools = vec![ToolSchema::new("f", "A tool.", schema)];
    for (choice, old, new) in [
        (ToolChoice::Required, json!({ "type": "any" }), Value::Null),
        (
            ToolChoice::Tool("f".to_owned()),
            json!({ "type": "tool", "name": "f" }),
            Value::Null,
        ),
        (
            ToolChoice::None,
            json!({ "type": "none" }),
            json!({ "type": "none" }),
        ),
    ] {
        scene.tool_choice = choice;
        for (model, expected) in [("claude-opus-5", old), ("claude-opus-5-5", new)] {
            let seen = sent(model, &scene, None).await;
            assert_eq!(body(&seen)["tool_choice"], expected, "{model}");
        }
    }
}
