//! Failures of a provider: each is of the right kind, none hangs, and nothing is sent twice.

use std::time::Duration;

use futures_util::StreamExt;
use helix_agents_core::model::{ModelError, ModelErrorKind, ModelEvent};
use helix_agents_models::{Provider, ProviderModel, ProviderModelBuilder};
use serde_json::json;

use super::cassette;
use super::http_server::{HttpServer, Part, Response};
use super::scene::Scene;

const SECRET: &str = "a sentence in the prompt that no error may repeat to anybody";
const KEY: &str = "sk-very-secret-key-0123456789";

fn model(provider: Provider, server: &HttpServer) -> ProviderModelBuilder {
    ProviderModel::builder(provider, "a-model")
        .base_url(format!("http://{}", server.address))
        .api_key(KEY)
}

/// Asks a server that always gives this response, and returns the error.
async fn failure(provider: Provider, response: Response) -> ModelError {
    let server = HttpServer::start(move |_| response.clone()).await;
    let model = model(provider, &server)
        .idle_timeout(Duration::from_millis(200))
        .build()
        .unwrap();
    let (error, _) = Scene::asking(SECRET).reply(&model).await.unwrap_err();
    assert_eq!(
        server.seen().len(),
        1,
        "{provider}: a client retries nothing"
    );
    for shown in [
        error.to_string(),
        format!("{error:?}"),
        format!("{model:?}"),
    ] {
        assert!(
            !shown.contains(SECRET) && !shown.contains(KEY),
            "{provider}: {shown}"
        );
    }
    error
}

/// The body of an error, in each provider's form at once, that quotes the request and the key.
fn error_body(code: &str) -> String {
    let message = format!("wrong: {SECRET}, with {KEY}");
    let error = json!({ "message": message, "type": code, "code": code, "status": code });
    json!({ "type": "error", "error": error }).to_string()
}

async fn statuses_are_of_the_right_kind(provider: Provider) {
    for (status, kind) in [
        (400, ModelErrorKind::Invalid),
        (401, ModelErrorKind::Auth),
        (403, ModelErrorKind::Auth),
        (404, ModelErrorKind::Invalid),
        (408, ModelErrorKind::Transport),
        (413, ModelErrorKind::ContextLength),
        (429, ModelErrorKind::RateLimited),
        (500, ModelErrorKind::Overloaded),
        (503, ModelErrorKind::Overloaded),
        (529, ModelErrorKind::Overloaded),
    ] {
        let response = Response::new(status, "application/json", error_body("x"));
        let error = failure(provider, response).await;
        assert_eq!(
            (error.kind, error.retry_after),
            (kind, None),
            "{provider} {status}"
        );
        let page = Response::new(status, "text/html", "<html>down</html>");
        assert_eq!(
            failure(provider, page).await.kind,
            kind,
            "{provider} {status} as a page"
        );
    }
    for (name, value, wait) in [
        ("retry-after", "7", 7_000),
        ("retry-after-ms", "1250", 1_250),
        ("retry-after", "Sun, 15 Nov 2026 10:00:30 GMT", 30_000),
    ] {
        let response = Response::new(429, "application/json", error_body("x"))
            .header(name, value)
            .header("date", "Sun, 15 Nov 2026 10:00:00 GMT");
        let error = failure(provider, response).await;
        assert_eq!(error.kind, ModelErrorKind::RateLimited);
        assert_eq!(
            error.retry_after,
            Some(Duration::from_millis(wait)),
            "{provider} {value}"
        );
    }
}

/// The stream of the cassette `text`, as bytes.
fn whole_stream(provider: Provider) -> Vec<Part> {
    let all = cassette::of(provider.name());
    let text = all.iter().find(|one| one.name == "text").unwrap();
    text.exchanges[0].response().parts
}

async fn broken_streams_are_transport_errors(provider: Provider) {
    let whole = whole_stream(provider);
    let after = |count: usize, end: Vec<Part>| {
        let mut parts: Vec<_> = whole.iter().take(count).cloned().collect();
        parts.extend(end);
        Response::stream(parts)
    };
    let text = |text: &[u8]| Part::Bytes(text.to_vec());
    let html = Response::new(200, "text/html", "<html>please log in</html>");
    let headless = Response {
        headers: Vec::new(),
        ..html.clone()
    };
    for (what, response) in [
        ("nothing", Response::stream(Vec::new())),
        ("cut off", after(2, Vec::new())),
        ("reset", after(2, vec![Part::Reset])),
        (
            "stall before the first event",
            Response::stream(vec![Part::Stall]),
        ),
        ("stall", after(2, vec![Part::Stall])),
        ("half an event", after(2, vec![text(b"data: {\"choi")])),
        (
            "not UTF-8",
            after(2, vec![text(b"data: {\"x\":\"\xff\"}\n\n")]),
        ),
        ("not JSON", after(2, vec![text(b"data: <html>\n\n")])),
        ("a page", html),
        ("a page without a type", headless),
    ] {
        let error = failure(provider, response).await;
        assert_eq!(
            error.kind,
            ModelErrorKind::Transport,
            "{provider} {what}: {error}"
        );
    }
}

async fn a_server_that_is_not_there_is_a_transport_error(provider: Provider) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let model = ProviderModel::builder(provider, "a-model")
        .base_url(format!("http://{address}"))
        .build()
        .unwrap();
    let (error, _) = Scene::asking("hi").reply(&model).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Transport, "{error}");
    assert!(error.detail.contains("cannot be reached"), "{error}");
}

/// A stream that is dropped in the middle closes its connection.
async fn a_dropped_stream_closes_its_connection(provider: Provider) {
    let mut parts: Vec<_> = whole_stream(provider).into_iter().take(3).collect();
    parts.push(Part::Stall);
    let response = Response::stream(parts);
    let mut server = HttpServer::start(move |_| response.clone()).await;
    let model = model(provider, &server).build().unwrap();
    let scene = Scene::asking("hi");
    let mut events = scene.stream(&model);
    while let Some(event) = events.next().await {
        if matches!(event.unwrap(), ModelEvent::Text(_)) {
            break;
        }
    }
    drop(events);
    server.client_closed().await;
}

/// The key is sent where the provider expects it, and headers that a user adds are sent, too.
async fn the_key_is_sent(provider: Provider, header: &str, value: &str) {
    let whole = Response::stream(whole_stream(provider));
    let server = HttpServer::start(move |_| whole.clone()).await;
    let model = model(provider, &server)
        .header("x-team", "blue")
        .build()
        .unwrap();
    let mut scene = Scene::asking("hi");
    let headers = &mut scene.config.headers;
    headers.insert("x-trace".to_owned(), "7".to_owned());
    scene.reply(&model).await.unwrap();
    let seen = server.seen().remove(0).headers;
    let sent = |name: &str| seen.get(name).map(String::as_str);
    assert_eq!(sent(header), Some(value), "{provider}");
    assert_eq!((sent("x-team"), sent("x-trace")), (Some("blue"), Some("7")));
    assert_eq!(sent("content-type"), Some("application/json"));
}

/// One connection serves one call after another.
async fn connections_are_used_again(provider: Provider) {
    let whole = Response::stream(whole_stream(provider));
    let server = HttpServer::start(move |_| whole.clone()).await;
    let model = model(provider, &server).build().unwrap();
    for _ in 0..5 {
        Scene::asking("hi").reply(&model).await.unwrap();
    }
    assert_eq!(server.connections(), 1, "{provider}");
}

/// Gemini writes an error of a stream that is not one of events as an array, and so do some proxies of it.
#[tokio::test]
async fn an_error_of_gemini_in_an_array_keeps_its_wait() {
    let error = json!({
        "code": 503, "status": "UNAVAILABLE", "message": "later", "details": [{ "retryDelay": "2s" }],
    });
    for error in [
        json!([{ "error": error }]).to_string(),
        format!("{:#}", json!([{ "error": error }])),
    ] {
        let mut parts = whole_stream(Provider::Gemini);
        parts.truncate(1);
        parts.push(Part::Bytes(error.into_bytes()));
        let error = failure(Provider::Gemini, Response::stream(parts)).await;
        assert_eq!(
            (error.kind, error.retry_after),
            (ModelErrorKind::Overloaded, Some(Duration::from_secs(2)))
        );
    }
}

macro_rules! failures_of {
    ($name:ident, $provider:expr, $header:literal: $key:literal) => {
        mod $name {
            use super::*;

            /// proves in part: LLM-04
            #[tokio::test]
            async fn statuses() {
                statuses_are_of_the_right_kind($provider).await;
            }

            /// proves in part: LLM-04
            #[tokio::test]
            async fn broken_streams() {
                broken_streams_are_transport_errors($provider).await;
            }

            #[tokio::test]
            async fn nobody_there() {
                a_server_that_is_not_there_is_a_transport_error($provider).await;
            }

            #[tokio::test]
            async fn dropped() {
                a_dropped_stream_closes_its_connection($provider).await;
            }

            #[tokio::test]
            async fn key() {
                let value = format!($key, KEY);
                the_key_is_sent($provider, $header, &value).await;
            }

            #[tokio::test]
            async fn reused() {
                connections_are_used_again($provider).await;
            }
        }
    };
}

failures_of!(openai, Provider::OpenAi, "authorization": "Bearer {}");
failures_of!(openai_responses, Provider::OpenAiResponses, "authorization": "Bearer {}");
failures_of!(anthropic, Provider::Anthropic, "authorization": "Bearer {}");
failures_of!(gemini, Provider::Gemini, "x-goog-api-key": "{}");
