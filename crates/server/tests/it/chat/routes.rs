//! Every route of a chat, at both of its addresses.

use serde_json::json;

use super::agents::Desk;
use super::page::{Page, body, paid, user};
use super::reading::{Bubble, whole};

/// A conversation with a pause that is answered beside the stream, one that is stopped, and one that is aborted.
///
/// proves: SRV-02
#[tokio::test]
async fn a_chat_is_led_through_its_routes_alone() {
    for base in ["/chat", "/api/chat"] {
        let desk = Desk::new();
        let post = async |path: &str, body| desk.place.post(&format!("{base}{path}"), body).await;
        let get = async |path: &str| desk.place.get(&format!("{base}{path}")).await;
        let first = Bubble::of(&whole(&post("", body(&[user("u0", "pay and ask")])).await));
        for path in ["/s/stream", "/s", "/s/s/stream"] {
            assert_eq!(
                Bubble::of(&whole(&get(path).await)).message,
                first.message,
                "{path}"
            );
        }
        let snapshot = get("/s/snapshot").await.ok();
        assert_eq!(snapshot["pending"], desk.pending().await);
        let of = |tool: &str| {
            let mut pending = snapshot["pending"].as_array().unwrap().iter();
            pending.find(|call| call["toolName"] == tool).unwrap()
        };
        // The session stands in the path.
        let result = json!({ "kind": "client-tool-result", "toolCallId": "q1", "result": "red",
            "digest": of("ask")["digest"], "runId": of("ask")["runId"] });
        let kept = post("/s/submit-tool-result", result).await.ok();
        assert_eq!(
            kept,
            json!({ "status": "accepted", "continuation": "none" })
        );
        let decision = json!({ "kind": "approval-response", "toolCallId": "p1", "approved": true,
            "approvalId": of("pay")["approvalId"] });
        let kept = post("/s/submit-tool-result", decision.clone()).await.ok();
        assert_eq!(
            kept,
            json!({ "status": "accepted", "continuation": "new_run" })
        );
        desk.place.settled("s").await;
        let kept = post("/s/submit-tool-result", decision).await.ok();
        assert_eq!(kept["status"], "already_completed");
        assert_eq!(paid(&desk.place), 1);
        let second = Bubble::of(&whole(&get("/s/stream").await));
        assert_eq!(
            (second.id(), second.text().as_str()),
            (first.id(), "Two. red and 5 cents")
        );
        for (path, id, status) in [("interrupt", "u1", "ended"), ("abort", "u2", "failed")] {
            let live = desk.open(body(&[user(id, "gate")])).await;
            desk.place.outside.reached().await;
            let reason = json!({ "reason": "enough" });
            assert_eq!(
                post(&format!("/s/{path}"), reason).await.ok()["accepted"],
                true
            );
            desk.place.outside.open();
            live.end().await;
            assert_eq!(get("/s/snapshot").await.ok()["status"], status);
        }
        let again = post("/s", body(&[user("u3", "count")])).await;
        assert_eq!(Bubble::of(&whole(&again)).text(), "turn 4");
        let pages = get("/s/messages?offset=3&limit=1").await.ok();
        assert_eq!(
            (&pages["total"], &pages["messages"][0]["id"]),
            (&json!(4), &json!("u3"))
        );
    }
}

/// A page that is loaded in the middle of a pause goes on as the one that was closed would have.
///
/// proves in part: SRV-02
#[tokio::test]
async fn a_page_that_is_loaded_goes_on_where_the_other_was() {
    let desk = Desk::new();
    Page::of(&desk).say("pay then ask").await;
    let mut second = Page::loaded(&desk).await;
    second.decide("p1", true);
    second.send().await;
    let mut third = Page::loaded(&desk).await;
    third.answer("q1", &json!("red"));
    assert!(third.would_send());
    assert_eq!(third.send().await.text(), "First. Second. 5 cents, red");
    assert!(!third.would_send());
    let last = Page::loaded(&desk).await;
    assert_eq!(last.messages.len(), 2);
    assert_eq!(last.last.text(), "First. Second. 5 cents, red");
}
