//! Tests of the rules of HTTP tools, against a service that misbehaves.

use std::time::Duration;

use helix_agents_cli::tools::{HttpClient, HttpTool};
use helix_agents_core::Tool;
use serde_json::{Value, json};

use crate::kit::{call, refused, surroundings, tool};
use crate::service::{Reply, Service};

fn reply(status: u16, kind: &'static str, body: &str) -> Reply {
    Reply::Says(status, kind, body.to_owned())
}

fn http(service: &Service, more: &str) -> Tool {
    let address = &service.address;
    tool(&format!(
        "description = \"x\"\nkind = \"http\"\nurl = \"http://{address}/do\"\n{more}"
    ))
}

/// The same tool with a back-off that is short enough for a test.
fn patient(service: &Service) -> Tool {
    let url = format!("http://{}/do", service.address);
    let run = HttpTool::new(HttpClient::new(), "it", &url).unwrap();
    let run = run.retries(true).back_off(Duration::from_millis(1));
    Tool::raw("it", "x", json!({ "type": "object" }), run)
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_call_is_one_post_with_its_ids_and_arguments() {
    let service = Service::that(vec![reply(200, "application/json", "{}")]).await;
    let it = http(&service, "");
    for id in ["c1", "c1", "c2"] {
        let (cx, _) = surroundings(id, json!({}));
        it.call(json!({ "cents": 7 }), cx).await.unwrap();
    }
    let asked = service.asked();
    assert!(
        asked[0].head.starts_with("POST /do HTTP/1.1"),
        "{}",
        asked[0].head
    );
    assert_eq!(asked[0].header("content-type"), Some("application/json"));
    assert_eq!(
        asked[0].json(),
        json!({ "tool": "it", "arguments": { "cents": 7 }, "sessionId": "s", "runId": "r", "toolCallId": "c1" })
    );
    let keys: Vec<_> = asked
        .iter()
        .map(|one| one.header("idempotency-key").unwrap())
        .collect();
    assert_eq!(keys[0], keys[1], "the same call has the same key");
    assert_ne!(keys[0], keys[2]);
}

#[tokio::test]
async fn the_body_of_a_success_is_the_result() {
    let table = [
        (
            "application/json",
            r#"{"b":1,"a":[true]}"#,
            json!({ "a": [true], "b": 1 }),
        ),
        ("application/json; charset=utf-8", "\"text\"", json!("text")),
        ("application/problem+json", "3", json!(3)),
        (
            "text/plain",
            "{\"not\": \"parsed\"}",
            json!("{\"not\": \"parsed\"}"),
        ),
        ("", "{\"is\":1}", json!({ "is": 1 })),
        ("", "plain", json!("plain")),
        ("application/json", "not json", json!("not json")),
        ("application/json", "", json!("")),
    ];
    for (kind, body, result) in table {
        let service = Service::that(vec![reply(201, kind, body)]).await;
        assert_eq!(
            call(&http(&service, ""), json!({})).await.unwrap(),
            result,
            "{kind} {body}"
        );
    }
}

#[tokio::test]
async fn a_response_may_change_the_state() {
    let body = json!({
        "result": "noted",
        "writes": [
            { "op": "append", "path": "/items", "value": "milk" },
            { "op": "increment", "path": "/count", "by": 2 },
        ],
    });
    let kind = "application/vnd.helix.tool+json";
    let service = Service::that(vec![reply(200, kind, &body.to_string())]).await;
    let (cx, state) = surroundings("c1", json!({ "items": [], "count": 1 }));
    let result = http(&service, "").call(json!({}), cx).await.unwrap();
    assert_eq!(result, "noted");
    assert_eq!(
        *state.get().unwrap(),
        json!({ "items": ["milk"], "count": 3 })
    );

    // The names of JSON Patch, and unknown keys.
    let body = json!({ "result": 1, "took": "2ms", "writes": [
        { "op": "add", "path": "/items/-", "value": "tea" },
        { "op": "add", "path": "/who", "value": "Ada" },
        { "op": "remove", "path": "/count" },
    ] });
    let service = Service::that(vec![reply(200, kind, &body.to_string())]).await;
    let (cx, state) = surroundings("c1", json!({ "items": [], "count": 1 }));
    let result = http(&service, "").call(json!({}), cx).await.unwrap();
    assert_eq!(result, json!(1));
    let wanted = json!({ "items": ["tea"], "who": "Ada" });
    assert_eq!(*state.get().unwrap(), wanted);

    let service = Service::that(vec![reply(200, kind, r#"{"writes":[{"op":"fly"}]}"#)]).await;
    let text = refused(&http(&service, ""), json!({})).await;
    assert!(
        text.starts_with("the call succeeded, but its response cannot be used"),
        "{text}"
    );
}

#[tokio::test]
async fn the_body_of_a_4xx_is_the_error_text_for_the_model() {
    let service = Service::that(vec![reply(404, "text/plain", "no order 7")]).await;
    let it = http(&service, "idempotent = true");
    assert_eq!(refused(&it, json!({})).await, "no order 7");
    assert_eq!(service.asked().len(), 1, "a refusal is not retried");

    let service = Service::that(vec![reply(409, "", "")]).await;
    let text = refused(&http(&service, ""), json!({})).await;
    assert_eq!(text, "the service refused the call with status 409");

    let service = Service::that(vec![reply(400, "", &"ä".repeat(9_000))]).await;
    assert_eq!(
        refused(&http(&service, ""), json!({})).await.len(),
        8 * 1024
    );
}

#[tokio::test]
async fn a_call_with_an_unknown_outcome_is_not_repeated() {
    for reply in [reply(503, "", "busy"), Reply::Drops, Reply::Hangs] {
        let service = Service::that(vec![reply.clone()]).await;
        let text = refused(&http(&service, "timeout_ms = 1000"), json!({})).await;
        assert!(text.contains("unknown"), "{reply:?}: {text}");
        service.arrived().await;
        assert_eq!(service.asked().len(), 1, "{reply:?}");
    }
}

/// Returns the address of a port on which no service listens.
async fn nobody() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

/// The model reads that nothing was sent without a connection; it never reads the URL, which
/// may contain a key.
#[tokio::test]
async fn a_call_that_was_never_sent_was_not_executed() {
    let secret = "k-1234567890";
    let (refusing, plain) = (nobody().await, Service::plain().await);
    for (place, why) in [
        (format!("http://{refusing}"), "accepts no connections"),
        ("http://nobody.invalid".to_owned(), "was not found"),
        (format!("https://{}", plain.address), "no secure connection"),
    ] {
        let url = format!("{place}/do?key={secret}");
        let run = HttpTool::new(HttpClient::new(), "refund", &url).unwrap();
        let run = run.back_off(Duration::from_millis(1));
        let it = Tool::raw("refund", "x", json!({ "type": "object" }), run);
        let text = refused(&it.build().unwrap(), json!({})).await;
        let not_executed = "this call of refund was not executed";
        assert!(text.contains(not_executed), "{place}: {text}");
        assert!(text.contains(why) && !text.contains("unknown"), "{text}");
        for leak in [secret, "127.0.0.1", "nobody.invalid", "http"] {
            assert!(!text.contains(leak), "{leak}: {text}");
        }
    }
    let handshakes = plain.asked().len();
    assert_eq!(handshakes, 1, "a failed handshake is not retried");
}

/// A service that accepts connections and never responds: the handshake takes too long, nothing is
/// sent.
#[tokio::test]
async fn a_handshake_that_takes_too_long_sends_nothing() {
    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/do", mute.local_addr().unwrap());
    let run = HttpTool::new(HttpClient::new(), "it", &url).unwrap();
    let run = run.back_off(Duration::from_millis(1));
    let run = run.timeout(Duration::from_millis(100));
    let it = Tool::raw("it", "x", json!({ "type": "object" }), run);
    let text = refused(&it.build().unwrap(), json!({})).await;
    assert!(
        text.contains("not executed") && text.contains("in time"),
        "{text}"
    );
}

/// A service that is not started yet is called once it is, also one that is not idempotent.
#[tokio::test]
async fn a_call_that_was_never_sent_is_retried() {
    let address = nobody().await;
    let url = format!("http://{address}/do");
    let run = HttpTool::new(HttpClient::new(), "it", &url).unwrap();
    let run = run.back_off(Duration::from_millis(50));
    let it = Tool::raw("it", "x", json!({ "type": "object" }), run);
    let it = it.build().unwrap();
    let (result, service) = tokio::join!(call(&it, json!({})), async {
        Service::at(&address, vec![reply(200, "", "\"done\"")]).await
    });
    assert_eq!(result.unwrap(), "done");
    assert_eq!(service.asked().len(), 1);
}

/// The error text for the model names the tool and not the URL.
#[tokio::test]
async fn the_model_never_reads_the_address_of_a_service() {
    for reply in [reply(503, "", "busy"), Reply::Drops, Reply::Hangs] {
        let service = Service::that(vec![reply.clone()]).await;
        let url = format!("http://user:word@{}/do?key=k-1234567890", service.address);
        let run = HttpTool::new(HttpClient::new(), "refund", &url).unwrap();
        let run = run.timeout(Duration::from_millis(500));
        let it = Tool::raw("refund", "x", json!({ "type": "object" }), run);
        let text = refused(&it.build().unwrap(), json!({})).await;
        assert!(
            text.contains("refund") && text.contains("unknown"),
            "{text}"
        );
        for leak in ["k-1234567890", "word", "127.0.0.1", "http://"] {
            assert!(!text.contains(leak), "{reply:?} {leak}: {text}");
        }
    }
}

#[tokio::test]
async fn a_call_carries_the_headers_of_its_tool() {
    let service = Service::that(vec![reply(200, "", "{}")]).await;
    // A variable that is set in every test environment.
    let it = http(
        &service,
        "headers = { X-Team = \"blue\", Authorization = { env = \"CARGO_PKG_NAME\" } }",
    );
    call(&it, json!({})).await.unwrap();
    let asked = service.asked();
    assert_eq!(asked[0].header("x-team"), Some("blue"));
    assert_eq!(asked[0].header("authorization"), Some("helix-agents-cli"));
    assert_eq!(asked[0].header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn an_idempotent_call_is_retried_three_times_under_one_key() {
    let service = Service::that(vec![
        reply(500, "", ""),
        Reply::Drops,
        reply(502, "", ""),
        reply(200, "", "\"done\""),
    ])
    .await;
    assert_eq!(call(&patient(&service), json!({})).await.unwrap(), "done");
    let asked = service.asked();
    let keys: Vec<_> = asked
        .iter()
        .map(|one| one.header("idempotency-key").unwrap())
        .collect();
    assert_eq!(keys, [keys[0]; 4]);

    let service = Service::that(vec![reply(500, "", "")]).await;
    let text = refused(&patient(&service), json!({})).await;
    assert!(text.contains("unknown") && text.contains("500"), "{text}");
    assert_eq!(service.asked().len(), 4);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Service::that(vec![reply(200, "", "")]).await;
    let to = format!("http://{}/", elsewhere.address);
    let service = Service::that(vec![Reply::Leads(to)]).await;
    let text = refused(&http(&service, ""), json!({})).await;
    assert!(text.contains("302"), "{text}");
    assert!(elsewhere.asked().is_empty());
}

#[tokio::test]
async fn invalid_arguments_never_reach_the_service() {
    let service = Service::that(vec![reply(200, "", "")]).await;
    let schema = r#"input_schema = { type = "object", required = ["cents"], properties = { cents = { type = "integer" } } }"#;
    let it = http(&service, schema);
    for arguments in [json!({}), json!({ "cents": "7" }), Value::Null] {
        let text = refused(&it, arguments).await;
        assert!(text.contains("not valid"), "{text}");
    }
    assert!(service.asked().is_empty());
}

#[tokio::test]
async fn an_approval_is_required_above_a_limit_and_without_a_number() {
    let service = Service::that(vec![reply(200, "", "")]).await;
    let it = http(
        &service,
        r#"approval_when = { pointer = "/cents", above = 100 }"#,
    );
    let asks = async |arguments: Value| {
        let (cx, _) = surroundings("c1", json!({}));
        it.needs_approval(&arguments, &cx).await
    };
    assert!(!asks(json!({ "cents": 100 })).await);
    assert!(asks(json!({ "cents": 100.5 })).await);
    assert!(asks(json!({})).await);
    assert!(asks(json!({ "cents": "1" })).await);
}
