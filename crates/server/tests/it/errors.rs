//! Tests of error responses, probes and metrics.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use helix_agents_core::memory::MemoryStore;
use helix_agents_server::{Access, Operation, Principal, Refusal};
use serde_json::json;
use tower::ServiceExt;

use crate::kit::{ALICE, Answer, Place, request};

#[tokio::test]
async fn a_body_over_the_limit_is_not_read() {
    let place = Place::new();
    let text = "x".repeat(4 * 1024 * 1024);
    let body = json!({ "agentType": "desk", "message": text });
    for operation in Operation::ALL {
        if operation.method() != "POST" {
            continue;
        }
        let path = operation.path().replace("{id}", "s");
        let announced = request(ALICE, "POST", &path, Some(body.clone()));
        // The same without a length: the limit is detected only by reading.
        let (parts, body) = request(ALICE, "POST", &path, Some(body.clone())).into_parts();
        let pieces = body.into_data_stream();
        let mut unannounced = Request::from_parts(parts, Body::from_stream(pieces));
        unannounced.headers_mut().remove("content-length");
        for request in [announced, unannounced] {
            let answer = place.app.clone().oneshot(request).await.unwrap();
            Answer::of(answer).await.is(413, "PAYLOAD_TOO_LARGE");
        }
    }
    let fits = json!({ "agentType": "desk", "message": &text[..text.len() - 100] });
    place.post("/start", fits).await.ok();
}

#[tokio::test]
async fn malicious_ids_are_refused() {
    let place = Place::new();
    place.ended("hello").await;
    let tricks = [
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e%2fs",
        "s%00",
        "s%0d%0aset-cookie:%20a=b",
        "s%20",
        "s%2Fmessages",
        "%ff%fe",
        "s'%3B--",
        "%C3%A4",
        &"x".repeat(257),
    ];
    for trick in tricks {
        for below in ["", "/runs", "/checkpoints", "/messages", "/usage"] {
            let answer = place.get(&format!("/sessions/{trick}{below}")).await;
            answer.is(400, "VALIDATION_ERROR");
            assert!(!answer.headers.contains_key("set-cookie"));
        }
        for path in ["/status", "/sse", "/workspaces"] {
            let answer = place.get(&format!("{path}?sessionId={trick}")).await;
            // Invalid UTF-8 is replaced in a query, and the replacement is not an id.
            answer.is(400, "VALIDATION_ERROR");
        }
        let deleted = place
            .ask(ALICE, "DELETE", &format!("/sessions/{trick}"), None)
            .await;
        deleted.is(400, "VALIDATION_ERROR");
    }
    for path in [
        "/sessions/../sessions/s",
        "/sessions//s",
        "/sessions/s/../s",
    ] {
        place.get(path).await.is(404, "NOT_FOUND");
    }
    place.get("/sessions/s").await.ok();
}

#[tokio::test]
async fn an_unknown_route_is_not_found() {
    let place = Place::new();
    place.get("/nothing").await.is(404, "NOT_FOUND");
    place.get("/start").await.is(404, "NOT_FOUND");
    let put = place.ask(ALICE, "PUT", "/sessions", None).await;
    put.is(404, "NOT_FOUND");
}

#[tokio::test]
async fn every_response_has_a_request_id() {
    let place = Place::new();
    let answer = place.get("/sessions").await;
    assert_eq!(answer.headers["x-request-id"], "req-1");
    for (given, taken) in [
        ("abc-1", true),
        ("no good", false),
        (&"x".repeat(300), false),
    ] {
        let mut asked = request(ALICE, "GET", "/sessions", None);
        let value = given.parse().unwrap();
        asked.headers_mut().insert("x-request-id", value);
        let answer = place.app.clone().oneshot(asked).await.unwrap();
        assert_eq!(answer.headers()["x-request-id"] == given, taken);
    }
}

#[tokio::test]
async fn an_unreachable_store_is_reported_as_unavailable() {
    let place = Place::over(unreachable());
    for path in ["/readyz", "/sessions", "/status?sessionId=s", "/pending"] {
        let answer = place.get(path).await;
        answer.is(503, "UNAVAILABLE");
        // The cause is only in the log.
        assert!(!answer.text().contains("secret"), "{}", answer.text());
    }
    assert_eq!(place.get("/healthz").await.ok(), json!({ "status": "ok" }));
    let body = json!({ "sessionId": "s", "agentType": "desk", "message": "hello" });
    place.post("/start", body).await.is(503, "UNAVAILABLE");
}

#[tokio::test]
async fn a_panic_of_a_hook_is_an_internal_error() {
    let mut place = Place::new();
    let by_name = crate::kit::builder(&place.runtime).authenticate(
        |_: &axum::http::request::Parts, _: Operation| -> Result<Principal, Refusal> {
            panic!("the hook panicked");
        },
    );
    let by_right = crate::kit::builder(&place.runtime)
        .authenticate(crate::kit::tokens())
        .authorize(|_: &Principal, _: &Access<'_>| -> Result<(), Refusal> {
            panic!("the hook panicked");
        });
    for server in [by_name, by_right] {
        place.app = server.build().unwrap().router();
        place.get("/sessions").await.is(500, "INTERNAL");
    }
}

#[tokio::test]
async fn an_error_text_is_not_longer_than_8_kilobytes() {
    let place = Place::new();
    let body = json!({ "sessionId": "s", "mode": "ä".repeat(20_000) });
    let answer = place.post("/resume", body).await;
    answer.is(400, "VALIDATION_ERROR");
    assert!(answer.json()["detail"].as_str().unwrap().len() <= 8 * 1024);
}

#[tokio::test]
async fn metrics_count_requests_and_chunks() {
    let place = Place::new();
    place.ended("hello").await;
    place.get("/status?sessionId=never").await;
    let stream = place.get("/sse?sessionId=s").await;
    let chunks = stream.text().matches("\nid: ").count() + 1;
    let metrics = place.get("/metrics").await;
    let expected = [
        "helix_http_requests_total{operation=\"start\",status=\"200\"} 1".to_owned(),
        "helix_http_requests_total{operation=\"status\",status=\"404\"} 1".to_owned(),
        "helix_http_request_duration_seconds_count{operation=\"start\"} 1".to_owned(),
        "helix_http_request_duration_seconds_bucket{operation=\"start\",le=\"+Inf\"} 1".to_owned(),
        format!("helix_sse_chunks_total {chunks}"),
    ];
    for line in expected {
        let found = metrics.text().lines().any(|have| have == line);
        assert!(found, "{line} is not in\n{}", metrics.text());
    }
}

/// A backend whose store cannot be reached.
fn unreachable() -> helix_agents_core::runtime::Backend {
    use crate::unreachable_store::UnreachableStore;
    let memory = MemoryStore::new();
    let mut backend = helix_agents_core::runtime::Backend::from(memory);
    backend.store = Arc::new(UnreachableStore);
    backend
}

/// A body whose announced length is too large is refused without reading it.
#[tokio::test(start_paused = true)]
async fn a_body_with_too_large_a_content_length_is_refused_unread() {
    let place = Place::new();
    let body = Body::from_stream(futures_util::stream::pending::<
        Result<Vec<u8>, std::io::Error>,
    >());
    let mut asked = request(ALICE, "POST", "/start", Some(json!({})));
    *asked.body_mut() = body;
    let length = (5 * 1024 * 1024).to_string();
    asked
        .headers_mut()
        .insert("content-length", length.parse().unwrap());
    let answer = place.app.clone().oneshot(asked).await.unwrap();
    Answer::of(answer).await.is(413, "PAYLOAD_TOO_LARGE");
}
