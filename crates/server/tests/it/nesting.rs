//! Tests of the router nested in another application.

use axum::Router;
use axum::routing::get;
use serde_json::json;

use crate::kit::{ALICE, Place};

/// proves: SRV-05
#[tokio::test]
async fn the_router_nests_under_any_path_beside_other_routes() {
    let mut place = Place::new();
    place.app = Router::new()
        .route("/", get(async || "mine"))
        .nest("/api/v1/agents", place.app.clone())
        .layer(axum::middleware::from_fn(
            async |request, next: axum::middleware::Next| {
                let mut answer = next.run(request).await;
                let value = axum::http::HeaderValue::from_static("yes");
                answer.headers_mut().insert("x-mine", value);
                answer
            },
        ));
    let mine = place.get("/").await;
    assert_eq!((mine.status.as_u16(), mine.text()), (200, "mine"));
    let body = json!({ "sessionId": "s", "agentType": "desk", "message": "hello" });
    place.post("/api/v1/agents/start", body).await.ok();
    place.settled("s").await;
    let messages = place.get("/api/v1/agents/sessions/s/messages").await;
    assert_eq!(messages.ok()["total"], 2);
    assert_eq!(messages.headers["x-mine"], "yes");
    let stream = place.get("/api/v1/agents/sse?sessionId=s").await;
    assert!(
        stream
            .text()
            .ends_with("event: end\ndata: {\"status\":\"completed\"}\n\n")
    );
    let nothing = place.get("/api/v1/agents/nothing").await;
    nothing.is(404, "NOT_FOUND");
    let unnamed = place
        .ask(None, "GET", "/api/v1/agents/sessions", None)
        .await;
    unnamed.is(401, "UNAUTHENTICATED");
    // The fallback of the router does not serve the user's routes.
    let theirs = place.ask(ALICE, "GET", "/theirs", None).await;
    assert_eq!((theirs.status.as_u16(), theirs.text()), (404, ""));
}
