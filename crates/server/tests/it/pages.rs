//! Tests of web pages of allowed and of other sites.

use axum::body::Body;
use axum::http::Request;
use helix_agents_core::memory::MemoryStore;
use tower::ServiceExt;

use crate::kit::{ALICE, Answer, Outside, Place, builder, runtime, tokens};

fn open() -> Place {
    let outside = Outside::new();
    let runtime = runtime(MemoryStore::new(), &outside);
    let server = builder(&runtime)
        .allow_unauthenticated()
        .cors_origin("http://localhost:3000")
        .host("helix.internal")
        .build();
    Place {
        app: server.unwrap().router(),
        outside,
        runtime,
    }
}

async fn ask(place: &Place, host: Option<&str>, origin: Option<&str>) -> Answer {
    let mut request = Request::get("/sessions");
    if let Some(host) = host {
        request = request.header("host", host);
    }
    if let Some(origin) = origin {
        request = request.header("origin", origin);
    }
    let request = request.body(Body::empty()).unwrap();
    Answer::of(place.app.clone().oneshot(request).await.unwrap()).await
}

#[tokio::test]
async fn an_open_server_accepts_only_local_host_names() {
    let place = open();
    let taken = [
        "127.0.0.1:8787",
        "127.0.0.1",
        "localhost:8787",
        "LocalHost",
        "studio.localhost:1",
        "[::1]:8787",
        "192.168.1.7:8787",
        "helix.internal:80",
    ];
    for host in taken {
        ask(&place, Some(host), None).await.ok();
    }
    let refused = [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil@localhost",
        "localhost@evil.example",
        "",
        "evil.example:8787",
    ];
    for host in refused {
        ask(&place, Some(host), None).await.is(403, "FORBIDDEN");
    }
    ask(&place, None, None).await.is(403, "FORBIDDEN");
}

#[tokio::test]
async fn an_open_server_accepts_only_its_own_and_listed_origins() {
    let place = open();
    let host = Some("127.0.0.1:8787");
    for origin in ["http://127.0.0.1:8787", "http://localhost:3000"] {
        ask(&place, host, Some(origin)).await.ok();
    }
    let refused = [
        "http://evil.example",
        "http://localhost:3001",
        "https://localhost:3000",
        "http://127.0.0.1:8787.evil.example",
        "null",
        "",
    ];
    for origin in refused {
        let answer = ask(&place, host, Some(origin)).await;
        answer.is(403, "FORBIDDEN");
    }
}

#[tokio::test]
async fn an_open_server_refuses_bodies_that_a_form_could_send() {
    let place = open();
    for kind in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let request = Request::post("/start")
            .header("host", "localhost")
            .header("content-type", kind)
            .body(Body::from(r#"{"agentType":"desk","message":"hello"}"#));
        let answer = place.app.clone().oneshot(request.unwrap()).await.unwrap();
        Answer::of(answer).await.is(400, "VALIDATION_ERROR");
    }
}

#[tokio::test]
async fn only_listed_origins_get_cors_headers() {
    let runtime = runtime(MemoryStore::new(), &Outside::new());
    let server = builder(&runtime)
        .authenticate(tokens())
        .cors_origin("https://app.example")
        .build();
    let app = server.unwrap().router();
    let leave = async |method: &str, path: &str, origin: &str| {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("origin", origin)
            .header("authorization", format!("Bearer {}", ALICE.unwrap()))
            .header("access-control-request-method", "POST")
            .header(
                "access-control-request-headers",
                "authorization,content-type",
            )
            .body(Body::empty());
        let answer = app.clone().oneshot(request.unwrap()).await.unwrap();
        let header = answer.headers().get("access-control-allow-origin").cloned();
        (answer.status().as_u16(), header)
    };
    let yes = Some("https://app.example".parse().unwrap());
    // A browser sends a preflight request first, without credentials.
    let (status, header) = leave("OPTIONS", "/start", "https://app.example").await;
    assert_eq!((status, &header), (200, &yes));
    let (status, header) = leave("GET", "/sessions", "https://app.example").await;
    assert_eq!((status, &header), (200, &yes));
    for path in ["/start", "/sessions/s", "/sse"] {
        let (_, header) = leave("OPTIONS", path, "https://evil.example").await;
        assert_eq!(header, None);
    }
}
