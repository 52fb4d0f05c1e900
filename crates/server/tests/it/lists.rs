//! Tests of `/agents`, `/sessions` and `/pending`.

use helix_agents_core::SessionId;
use helix_agents_core::message::UserMessage;
use helix_agents_core::runtime::Runtime;
use helix_agents_core::store::{Change, Commit};
use helix_agents_core::time::Timestamp;
use serde_json::json;

use crate::kit::{ALICE, BOB, NOW, Place};

async fn start(place: &Place, token: Option<&str>, session: &str, message: &str, tag: &str) {
    let body = json!({
        "sessionId": session, "agentType": "desk", "message": message, "tags": [tag, "all"],
        "metadata": { "channel": tag },
    });
    place.ask(token, "POST", "/start", Some(body)).await.ok();
    place.settled(session).await;
}

#[tokio::test]
async fn agents_are_listed_with_their_tools() {
    let place = Place::new();
    let agents = place.get("/agents").await.ok();
    let registry = place.runtime.agents();
    let desk = registry.get("desk").unwrap();
    let tool = |name: &str, description: &str, kind: &str, approval: &str| {
        let input = desk.tool(name).unwrap().spec().input.json();
        json!({ "name": name, "description": description, "kind": kind, "approval": approval, "inputSchema": input })
    };
    let expected = json!({ "agents": [{
        "agentType": "desk",
        "description": "Serves people.",
        "tools": [
            tool("look", "Looks.", "server", "never"),
            tool("pay", "Pays.", "server", "always"),
            tool("wait", "Waits at the door.", "server", "never"),
            tool("ask", "Asks the client.", "client", "never"),
        ],
    }] });
    assert_eq!(agents, expected);
}

/// A query with more filters than a store supports is refused.
#[tokio::test]
async fn a_query_with_too_many_filters_is_refused() {
    let place = Place::new();
    let many = |count: usize| (0..count).map(|n| format!("t{n}"));
    let joined = |count| many(count).collect::<Vec<_>>().join(",");
    let pairs = |count| {
        many(count)
            .map(|n| format!("metadata.{n}=v&"))
            .collect::<String>()
    };
    for query in [
        format!("?tags={}", joined(1_200)),
        format!("?{}", pairs(65)),
        format!("?{}", pairs(1_200)),
        format!("?tags={}&{}", joined(40), pairs(40)),
    ] {
        let refused = place.get(&format!("/sessions{query}")).await;
        refused.is(400, "VALIDATION_ERROR");
    }
    let most = format!("/sessions?tags={}&{}", joined(32), pairs(32));
    place.get(&most).await.ok();
}

#[tokio::test]
async fn sessions_can_be_filtered_by_every_field() {
    let place = Place::new();
    start(&place, ALICE, "a", "hello", "mail").await;
    start(&place, ALICE, "b", "fail", "web").await;
    start(&place, ALICE, "c", "ask", "web").await;
    start(&place, BOB, "d", "hello", "web").await;
    let later = NOW + 1;
    let found = [
        ("", vec!["a", "b", "c"]),
        ("?status=completed", vec!["a"]),
        ("?status=completed,failed", vec!["a", "b"]),
        ("?status=completed&status=active", vec!["a", "c"]),
        ("?tags=web", vec!["b", "c"]),
        ("?tags=all,mail", vec!["a"]),
        ("?metadata.channel=mail", vec!["a"]),
        ("?metadata=%7B%22channel%22%3A%22web%22%7D", vec!["b", "c"]),
        ("?agentType=desk", vec!["a", "b", "c"]),
        ("?agentType=nobody", vec![]),
        ("?metadata%5Bchannel%5D=web", vec!["b", "c"]),
        ("?parentSessionId=a", vec![]),
        ("?parentSessionId=null", vec!["a", "b", "c"]),
        ("?parentSessionId=", vec!["a", "b", "c"]),
        ("?userId=alice", vec!["a", "b", "c"]),
        (&format!("?from={NOW}&to={NOW}"), vec!["a", "b", "c"]),
        (&format!("?from={later}"), vec![]),
        ("?offset=99999999999999999999", vec!["error"]),
        ("?offset=9999999999999", vec![]),
    ];
    for (query, expected) in found {
        let answer = place.get(&format!("/sessions{query}")).await;
        if expected == ["error"] {
            answer.is(400, "VALIDATION_ERROR");
            continue;
        }
        let list = answer.ok();
        let items = list["items"].as_array().unwrap().iter();
        let mut ids: Vec<_> = items
            .map(|one| one["sessionId"].as_str().unwrap())
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, expected, "{query}");
    }
    for query in [
        "?status=sad",
        "?parentSessionId=%00",
        "?limit=x",
        "?from=-1",
        "?userId=%00",
        "?metadata=1",
    ] {
        let answer = place.get(&format!("/sessions{query}")).await;
        answer.is(400, "VALIDATION_ERROR");
    }
}

#[tokio::test]
async fn a_list_is_paged() {
    let place = Place::new();
    for session in ["a", "b", "c"] {
        start(&place, ALICE, session, "hello", "web").await;
    }
    let page = place.get("/sessions?limit=2").await.ok();
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&page["total"], &page["hasMore"]),
        (&json!(3), &json!(true))
    );
    let page = place.get("/sessions?limit=999&offset=2").await.ok();
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
    let one = &page["items"][0];
    let expected = json!({
        "sessionId": one["sessionId"], "agentType": "desk", "status": "completed",
        "stepCount": 1, "userId": "alice", "tags": ["web", "all"],
        "metadata": { "channel": "web" }, "createdAt": NOW, "updatedAt": NOW,
    });
    assert_eq!(*one, expected);
}

#[tokio::test]
async fn pending_calls_of_all_sessions_are_in_one_list() {
    let place = Place::new();
    start(&place, ALICE, "a", "ask", "x").await;
    start(&place, ALICE, "b", "pay", "x").await;
    start(&place, BOB, "c", "ask", "x").await;
    let pending = place.get("/pending").await.ok();
    assert_eq!(pending["total"], 2);
    for (at, session) in ["a", "b"].into_iter().enumerate() {
        let status = place.get(&format!("/status?sessionId={session}")).await;
        assert_eq!(pending["pending"][at], status.ok()["pending"][0]);
    }
}

/// A page is limited, however large a page is asked for.
#[tokio::test]
async fn a_page_has_at_most_a_thousand_messages() {
    let place = Place::new();
    start(&place, ALICE, "a", "hello", "x").await;
    let id = SessionId::new("a").unwrap();
    let store = &place.runtime.backend().store;
    let mut many = Commit::new(id, Timestamp::from_millis(NOW));
    for index in 0..1_010 {
        let message = UserMessage::new(format!("{index}"));
        many = many.then(Change::AppendUser(message));
    }
    store.commit(many).await.unwrap();
    for limit in ["1000", "1001", "18446744073709551615"] {
        let path = format!("/sessions/a/messages?limit={limit}");
        let page = place.get(&path).await.ok();
        assert_eq!(page["messages"].as_array().unwrap().len(), 1_000, "{limit}");
        assert_eq!(page["hasMore"], true);
    }
}
