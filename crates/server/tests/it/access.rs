//! Tests of callers without access to a session.

use std::sync::{Arc, Mutex};

use axum::http::request::Parts;
use helix_agents_core::SessionId;
use helix_agents_core::runtime::Runtime;
use helix_agents_core::store::{NewSession, Sessions};
use helix_agents_server::{Access, Operation, Principal};
use serde_json::{Value, json};

use crate::kit::{ADMIN, ALICE, Answer, BOB, Place, builder, tokens};

/// Sends the simplest request for an operation on a session.
pub(crate) async fn call(
    place: &Place,
    token: Option<&str>,
    operation: Operation,
    session: &str,
) -> Answer {
    let mut path = operation
        .path()
        .replace("{id}", session)
        .replace("{session}", session);
    if matches!(
        operation,
        Operation::Stream | Operation::Status | Operation::Workspaces
    ) {
        path = format!("{path}?sessionId={session}");
    }
    let body = body(operation, session);
    let method = operation.method();
    place.ask(token, method.as_str(), &path, body).await
}

fn body(operation: Operation, session: &str) -> Option<Value> {
    Some(match operation {
        Operation::Start => {
            json!({ "sessionId": session, "agentType": "desk", "message": "hello" })
        }
        Operation::Resume | Operation::Interrupt | Operation::Abort => {
            json!({ "sessionId": session })
        }
        Operation::SubmitToolResult => json!({
            "sessionId": session, "kind": "client-tool-result", "toolCallId": "q1", "result": 1
        }),
        Operation::Chat | Operation::ChatIn => json!({
            "id": session,
            "messages": [{ "id": "u1", "role": "user", "parts": [{ "type": "text", "text": "hello" }] }],
        }),
        Operation::ChatSubmit => json!({
            "kind": "client-tool-result", "toolCallId": "q1", "result": 1
        }),
        Operation::ChatInterrupt | Operation::ChatAbort => json!({}),
        Operation::Branch => json!({ "messageIndex": 0 }),
        _ => return None,
    })
}

#[tokio::test]
async fn without_a_valid_token_only_probes_are_served() {
    let place = Place::new();
    place.ended("ask").await;
    for operation in Operation::ALL {
        for token in [None, Some("nobody's token"), Some("")] {
            let answer = call(&place, token, *operation, "s").await;
            if operation.is_probe() {
                assert_eq!(answer.ok(), json!({ "status": "ok" }));
            } else {
                answer.is(401, "UNAUTHENTICATED");
                assert_eq!(answer.headers["www-authenticate"], "Bearer");
            }
        }
    }
}

#[tokio::test]
async fn a_session_of_another_user_is_not_found() {
    let place = Place::new();
    place.ended("ask").await;
    for operation in Operation::ALL {
        let answer = call(&place, BOB, *operation, "s").await;
        match operation {
            // These do not concern one session, and show Bob only his own data: none.
            Operation::ListSessions => assert_eq!(answer.ok()["items"], json!([])),
            Operation::Pending => assert_eq!(answer.ok(), json!({ "pending": [], "total": 0 })),
            Operation::Agents
            | Operation::Health
            | Operation::Ready
            | Operation::Metrics
            | Operation::OpenApi => assert_eq!(answer.status, 200),
            // A page that has nothing to resume must not be shown an error.
            Operation::ChatStream | Operation::ChatReplay | Operation::ChatNested => {
                assert_eq!(answer.status, 204);
                let never = call(&place, BOB, *operation, "never").await;
                assert_eq!(never.status, 204);
            }
            _ => {
                answer.is(404, "NOT_FOUND");
                let begins = [Operation::Start, Operation::Chat, Operation::ChatIn];
                if !begins.contains(operation) {
                    // The response is the same as for a session that never existed.
                    let never = call(&place, BOB, *operation, "never").await;
                    let of = |answer: &Answer, id| answer.text().replace(id, "ID");
                    assert_eq!(of(&answer, "session s"), of(&never, "session never"));
                }
            }
        }
    }
    // None of the requests had an effect.
    let status = place.get("/status?sessionId=s").await.ok();
    assert_eq!(status["runStatus"], "suspended_client_tool");
    let asked = place.get("/sessions?userId=alice").await.ok();
    assert_eq!(asked["total"], 1);
    let asked = place.ask(BOB, "GET", "/sessions?userId=alice", None).await;
    assert_eq!(asked.ok()["total"], 0);
    let asked = place.ask(BOB, "GET", "/pending?userId=alice", None).await;
    assert_eq!(asked.ok()["total"], 0);
}

/// A child without an owner belongs to the owner of its root.
#[tokio::test]
async fn a_child_without_an_owner_belongs_to_the_owner_of_its_root() {
    let place = Place::new();
    place.ended("ask").await;
    let root = SessionId::new("s").unwrap();
    let mut new = NewSession::of("desk");
    new.family = Some((root.clone(), root));
    let sessions = Sessions::new(&*place.runtime.backend().store, &**place.runtime.clock());
    let child = SessionId::new("child").unwrap();
    sessions.create_session(&child, new).await.unwrap();
    for path in ["/sessions/child", "/status?sessionId=child"] {
        place.get(path).await.ok();
        place.ask(ADMIN, "GET", path, None).await.ok();
        let bobs = place.ask(BOB, "GET", path, None).await;
        bobs.is(404, "NOT_FOUND");
    }
}

/// A start on a session of another user is refused before the authorization hook is called, so that
/// it does not reveal the owner.
#[tokio::test]
async fn a_start_on_a_session_of_another_user_does_not_reach_the_hook() {
    let place = Place::new();
    place.ended("hello").await;
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = Arc::clone(&asked);
    let app = builder(&place.runtime)
        .authenticate(tokens())
        .authorize(move |who: &Principal, access: &Access<'_>| {
            let who = format!("{:?} {}", who.user, access.operation);
            notes.lock().unwrap().push(who);
            Ok(())
        })
        .build();
    let place = Place {
        app: app.unwrap().router(),
        ..place
    };
    let bobs = call(&place, BOB, Operation::Start, "s").await;
    bobs.is(404, "NOT_FOUND");
    assert_eq!(*asked.lock().unwrap(), [""; 0]);
    call(&place, ALICE, Operation::Start, "s").await.ok();
    assert_eq!(asked.lock().unwrap().len(), 1);
}

/// A caller without a user who is not an administrator would create a session without an owner.
#[tokio::test]
async fn a_caller_without_a_user_cannot_start_a_session() {
    let place = Place::new();
    let app = builder(&place.runtime)
        .authenticate(|_: &Parts, _: Operation| Ok(Principal::anonymous()))
        .build();
    let place = Place {
        app: app.unwrap().router(),
        ..place
    };
    let refused = call(&place, None, Operation::Start, "s").await;
    refused.is(403, "FORBIDDEN");
    let id = SessionId::new("s").unwrap();
    let found = place
        .runtime
        .backend()
        .store
        .load(id.as_root())
        .await
        .unwrap();
    assert!(found.is_none(), "no session was created");
}

#[tokio::test]
async fn an_administrator_sees_all_sessions() {
    let place = Place::new();
    place.ended("ask").await;
    for path in ["/sessions/s", "/status?sessionId=s", "/sessions/s/messages"] {
        place.ask(ADMIN, "GET", path, None).await.ok();
    }
    let all = place.ask(ADMIN, "GET", "/pending", None).await.ok();
    assert_eq!(all["total"], 1);
    let bobs = place.ask(ADMIN, "GET", "/pending?userId=bob", None).await;
    assert_eq!(bobs.ok()["total"], 0);
    let hers = place
        .ask(ADMIN, "GET", "/sessions?userId=alice", None)
        .await;
    assert_eq!(hers.ok()["items"][0]["userId"], "alice");
}

#[tokio::test]
async fn a_duplicate_or_malformed_token_header_is_refused() {
    let place = Place::new();
    let token = ALICE.unwrap();
    let odd = [
        vec![format!("Basic {token}")],
        vec![token.to_owned()],
        vec!["Bearer".to_owned()],
        vec![format!("Bearer {token}"), "Bearer other".to_owned()],
    ];
    for headers in odd {
        let mut request = crate::kit::request(None, "GET", "/sessions", None);
        for header in &headers {
            let value = header.parse().unwrap();
            request.headers_mut().append("authorization", value);
        }
        let answer = tower::ServiceExt::oneshot(place.app.clone(), request).await;
        Answer::of(answer.unwrap()).await.is(401, "UNAUTHENTICATED");
    }
}
