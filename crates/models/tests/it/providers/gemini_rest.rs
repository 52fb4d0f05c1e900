//! Replies that Gemini gives in several responses: our client asks for the rest, as the provider's SDK does.

use helix_agents_core::model::{ModelErrorKind, ModelEvent};
use helix_agents_core::step::StopReason;
use helix_agents_models::{Provider, ProviderModel};
use serde_json::{Value, json};

use super::http_server::{HttpServer, Part, Response};
use super::scene::{Scene, described};

/// One response of one event: a text, the reason for its end, and the token for the rest.
fn response(text: &str, reason: &str, token: Option<&str>, prompt: u64, output: u64) -> Response {
    let mut candidate = json!({
        "content": { "role": "model", "parts": [{ "text": text }] },
        "finishReason": reason, "index": 0,
    });
    if let Some(token) = token {
        candidate["continuationToken"] = token.into();
    }
    let usage = json!({ "promptTokenCount": prompt, "candidatesTokenCount": output });
    let event = json!({ "candidates": [candidate], "usageMetadata": usage });
    Response::stream(vec![Part::Bytes(format!("data: {event}\n\n").into_bytes())])
}

/// A server that answers by the token of a request.
async fn server(answer: impl Fn(Option<&str>) -> Response + Send + Sync + 'static) -> HttpServer {
    HttpServer::start(move |seen| {
        let body: Value = serde_json::from_slice(&seen.body).unwrap();
        answer(body.get("continuationToken").and_then(Value::as_str))
    })
    .await
}

fn model(server: &HttpServer) -> ProviderModel {
    let builder = ProviderModel::builder(Provider::Gemini, "gemini-3.5-flash");
    let url = format!("http://{}", server.address);
    builder.base_url(url).api_key("k").build().unwrap()
}

#[tokio::test]
async fn the_rest_of_a_reply_is_asked_for_until_it_is_whole() {
    let server = server(|token| match token {
        None => response("One, ", "CONTINUATION", Some("dG9r+/=="), 10, 3),
        Some("dG9r+/==") => response("two, ", "CONTINUATION", Some("Mg=="), 13, 2),
        Some(_) => response("three.", "STOP", None, 15, 4),
    })
    .await;
    let scene = Scene::asking("Count.");
    let reply = scene.reply(&model(&server)).await.unwrap();
    assert_eq!(
        described(&reply),
        json!({
            "text": "One, two, three.", "thinking": [], "calls": [], "stopReason": "end_turn",
            // Each response is paid for.
            "usage": { "input": 38, "output": 9 },
        })
    );
    assert_eq!(reply.message.parts.len(), 1);
    let seen = server.seen();
    let bodies: Vec<_> = seen
        .iter()
        .map(|one| String::from_utf8_lossy(&one.body))
        .collect();
    let first = bodies[0].strip_suffix('}').unwrap();
    assert_eq!(
        bodies[1],
        format!(r#"{first},"continuationToken":"dG9r+/=="}}"#)
    );
    assert_eq!(
        bodies[2],
        format!(r#"{first},"continuationToken":"Mg=="}}"#)
    );
    assert!(
        seen.iter()
            .all(|one| one.path == seen[0].path && one.headers["x-goog-api-key"] == "k")
    );
}

#[tokio::test]
async fn a_provider_that_makes_no_progress_is_not_asked_again() {
    for token in [None, Some("c2FtZQ==")] {
        let server = server(move |_| response("Again. ", "CONTINUATION", token, 10, 2)).await;
        let scene = Scene::asking("Go on.");
        let reply = scene.reply(&model(&server)).await.unwrap();
        assert_eq!(reply.stop_reason, StopReason::MaxTokens);
        assert_eq!(server.seen().len(), 1 + usize::from(token.is_some()));
    }
}

/// A stream that breaks is for the loop to try again, though it had a token.
#[tokio::test]
async fn a_stream_that_breaks_is_not_asked_for_its_rest() {
    let server = server(|_| {
        let candidate = json!({
            "content": { "parts": [{ "text": "One, " }] }, "continuationToken": "MQ==",
        });
        let event = format!("data: {}\n\n", json!({ "candidates": [candidate] }));
        Response::stream(vec![Part::Bytes(event.into_bytes())])
    })
    .await;
    let (error, _) = Scene::asking("Count.")
        .reply(&model(&server))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Transport);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn an_error_instead_of_the_rest_fails_the_attempt_with_the_tokens_so_far() {
    let server = server(|token| match token {
        None => response("One, ", "CONTINUATION", Some("MQ=="), 10, 3),
        Some(_) => Response::new(429, "application/json", "{}"),
    })
    .await;
    let scene = Scene::asking("Count.");
    let events = scene.events(&model(&server)).await;
    assert!(
        !events
            .iter()
            .any(|event| matches!(event, Ok(ModelEvent::Finished { .. }))),
        "{events:?}"
    );
    let (error, usage) = scene.reply(&model(&server)).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::RateLimited);
    assert_eq!(usage, json!({ "input": 10, "output": 3 }));
}
