//! Tests of a server on a socket: time limits and shutdown.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use helix_agents_server::{Limits, ServeError};
use serde_json::json;

use crate::kit::{ALICE, Place};
use crate::loopback::Loopback;

#[tokio::test]
async fn a_connection_without_a_request_times_out() {
    let place = Place::new();
    let limits = Limits::default().header_timeout(Duration::from_millis(250));
    let server = Loopback::new(place.app, limits).await;
    for begun in ["", "GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: "] {
        // It returns when the server closes the connection.
        let connection = server.send(begun).await;
        let answer = connection.rest().await;
        assert!(!answer.contains("200 OK"), "{answer}");
    }
    // An idle connection after a response is closed as well.
    let mut idle = server.get("/healthz").await;
    idle.until("{\"status\":\"ok\"}").await;
    idle.rest().await;
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_body_that_does_not_arrive_times_out() {
    let place = Place::new();
    let app = crate::kit::builder(&place.runtime)
        .authenticate(crate::kit::tokens())
        .body_timeout(Duration::from_millis(20))
        .build()
        .unwrap()
        .router();
    let server = Loopback::new(app, Limits::default()).await;
    let head = format!(
        "POST /start HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{{",
        ALICE.unwrap()
    );
    let mut connection = server.send(&head).await;
    connection.until("VALIDATION_ERROR").await;
    drop(connection);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_client_that_sends_its_whole_body_can_read_the_refusal() {
    let place = Place::new();
    let server = Loopback::new(place.app, Limits::default()).await;
    let body = "x".repeat(6 * 1024 * 1024);
    let (alice, json) = (ALICE.unwrap(), "application/json");
    for (path, token, kind, code) in [
        ("/start", alice, json, "PAYLOAD_TOO_LARGE"),
        ("/start", alice, "text/plain", "VALIDATION_ERROR"),
        ("/start", "nobody's", json, "UNAUTHENTICATED"),
        ("/nowhere", alice, json, "NOT_FOUND"),
    ] {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
             content-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut connection = server.send(&request).await;
        connection.until(code).await;
    }
    server.stop().await.unwrap();
}

#[tokio::test]
async fn open_streams_end_without_an_end_frame_at_shutdown() {
    let place = Place::new();
    let body = json!({ "sessionId": "s", "agentType": "desk", "message": "wait" });
    place.post("/start", body).await.ok();
    place.outside.reached().await;
    // The router is nested in an application of the user's own.
    let app = Router::new().nest("/agents", place.app.clone());
    let server = Loopback::new(app, Limits::default()).await;
    let mut reader = server.get("/agents/sse?sessionId=s").await;
    reader.until("tool_start").await;
    server.stop().await.unwrap();
    let seen = reader.rest().await;
    // The body is complete, and the missing end frame tells its reader to reconnect.
    assert!(seen.ends_with("\r\n0\r\n\r\n"), "{seen}");
    assert!(!seen.contains("event: end"), "{seen}");
    // The run is not affected.
    place.outside.open();
    place.settled("s").await;
    let status = place.get("/status?sessionId=s").await.ok();
    assert_eq!(status["status"], "completed");
}

#[tokio::test]
async fn a_request_that_does_not_end_is_closed_after_the_grace_period() {
    let stuck = Router::new().route("/", get(std::future::pending::<()>));
    let limits = Limits::default().grace(Duration::from_millis(250));
    let server = Loopback::new(stuck, limits).await;
    let connection = server.get("/").await;
    let mut other = server.get("/none").await;
    other.until("404").await;
    let ended = server.stop().await;
    assert!(
        matches!(ended, Err(ServeError::CutOff { connections: 1 })),
        "{ended:?}"
    );
    assert_eq!(connection.rest().await, "");
}

#[tokio::test]
async fn a_stopped_server_accepts_no_connections() {
    let place = Place::new();
    let server = Loopback::new(place.app, Limits::default()).await;
    let address = server.address;
    server.stop().await.unwrap();
    let refused = tokio::net::TcpStream::connect(address).await;
    assert!(refused.is_err());
}
