//! Sub-agents in the bubble of their root.

use serde_json::{Value, json};

use super::agents::Desk;
use super::page::{Page, paid};
use super::reading::{Bubble, whole};

fn session_of(page: &Page<'_>) -> String {
    let data = page.last.data("subagent");
    data[0]["sessionId"].as_str().unwrap().to_owned()
}

/// What a sub-agent says is data, and its calls that wait are answered at the root.
///
/// proves in part: CHT-03, TRN-01
#[tokio::test]
async fn the_calls_of_a_sub_agent_are_answered_at_the_root() {
    for (text, call) in [("pay", "p1"), ("ask", "q1")] {
        let desk = Desk::new();
        let mut page = Page::with(&desk, "boss");
        page.say(text).await;
        assert_eq!(page.last.text(), "I ask the helper. ");
        let child = session_of(&page);
        let pending = desk.pending().await;
        assert_eq!(
            (&pending[0]["toolCallId"], &pending[0]["sessionId"]),
            (&json!(call), &json!(child))
        );
        assert_eq!(page.last.told("pending"), [&pending]);
        assert_eq!(
            page.last.data("subagent")[0]["tools"][0]["state"],
            "waiting"
        );
        let loaded = Page::loaded(&desk).await;
        assert_eq!(loaded.messages[1]["parts"], page.messages[1]["parts"]);
        if call == "p1" {
            page.decide(call, true);
        } else {
            page.answer(call, &json!("Ada"));
        }
        assert!(page.would_send());
        let answered = if call == "p1" { "5 cents" } else { "Ada" };
        let bubble = page.send().await;
        assert_eq!(
            (bubble.id(), bubble.text()),
            (
                "msg-1",
                format!("I ask the helper. boss: helped: {answered}")
            )
        );
        let told = bubble.data("subagent");
        assert_eq!(
            (told.len(), &told[0]["status"], &told[0]["toolCallId"]),
            (1, &json!("completed"), &json!("c1"))
        );
        assert!(
            told[0]["text"]
                .as_str()
                .unwrap()
                .ends_with(&format!("helped: {answered}"))
        );
        assert_eq!(paid(&desk.place), usize::from(call == "p1"));
        assert!(!page.would_send());
        // Whoever reads the turn later has the same parts.
        let later = Bubble::of(&whole(&desk.place.get("/chat/s/stream").await));
        let kinds = |message: &Value| {
            let parts = message["parts"].as_array().unwrap().iter();
            parts
                .map(|part| {
                    (
                        part["type"].clone(),
                        part["state"].clone(),
                        part["toolCallId"].clone(),
                    )
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(kinds(&later.message), kinds(&page.messages[1]));
        // The sub-agent itself is no chat.
        let path = format!("/chat/{child}/stream");
        assert_eq!(desk.place.get(&path).await.status, 204);
        let body = json!({ "id": child, "messages": page.messages });
        desk.place
            .post("/chat", body)
            .await
            .is(400, "VALIDATION_ERROR");
        let snapshot = desk
            .place
            .get(&format!("/chat/{child}/snapshot"))
            .await
            .ok();
        assert_eq!(snapshot["messages"].as_array().unwrap().len(), 2);
    }
}

/// A call of the root and one of its sub-agent have the same id, tool and, in the browser, the same place.
#[tokio::test]
async fn equal_call_ids_in_parent_and_child_are_told_apart() {
    for (first, second) in [(true, false), (false, true)] {
        let desk = Desk::new();
        let mut page = Page::with(&desk, "boss");
        page.say("same ids").await;
        let pending = desk.pending().await;
        assert_eq!(pending.as_array().unwrap().len(), 2, "{pending}");
        let calls: Vec<String> = page
            .last
            .parts()
            .iter()
            .filter(|part| part["state"] == "approval-requested")
            .map(|part| part["toolCallId"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(calls.len(), 2);
        let cents =
            |page: &Page<'_>, call: &str| page.last.call(call)["input"]["cents"].as_u64().unwrap();
        for call in &calls {
            let approved = if cents(&page, call) == 1 {
                first
            } else {
                second
            };
            page.decide(call, approved);
        }
        let bubble = page.send().await;
        assert_eq!(paid(&desk.place), 1, "{bubble:?}");
        let state = |cents: u64| {
            let mut parts = bubble.parts().iter();
            let part =
                parts.find(|part| part["toolName"] == "pay" && part["input"]["cents"] == cents);
            part.unwrap()["state"].as_str().unwrap().to_owned()
        };
        let expected = |approved: bool| {
            if approved {
                "output-available"
            } else {
                "output-denied"
            }
        };
        assert_eq!(
            (state(1).as_str(), state(2).as_str()),
            (expected(first), expected(second))
        );
    }
}

/// The call of the root is over when its sub-agent makes one with the same id: its result, which comes back with
/// every request, is no answer to that.
#[tokio::test]
async fn a_result_of_the_parent_is_no_answer_to_its_child() {
    let desk = Desk::new();
    let mut page = Page::with(&desk, "boss");
    page.say("after paying").await;
    page.decide("p1", true);
    page.send().await;
    assert_eq!(paid(&desk.place), 1);
    let waits: Vec<_> = page
        .last
        .parts()
        .iter()
        .filter(|part| part["state"] == "approval-requested")
        .cloned()
        .collect();
    assert_eq!(waits.len(), 1, "{:?}", page.last.message);
    let call = waits[0]["toolCallId"].as_str().unwrap().to_owned();
    page.decide(&call, true);
    let bubble = page.send().await;
    assert_eq!(bubble.text(), "boss: helped: 5 cents");
    assert_eq!(paid(&desk.place), 2);
}

/// The same with calls that clients run: what was answered before is not taken for the answer to another call.
#[tokio::test]
async fn an_answer_to_the_parent_is_no_answer_to_its_child() {
    let desk = Desk::new();
    let mut page = Page::with(&desk, "boss");
    page.say("both ask").await;
    page.answer("q1", &json!("Ada"));
    page.send().await;
    let pending = desk.pending().await;
    assert_eq!(pending.as_array().unwrap().len(), 1, "{pending}");
    // The whole message comes back with a request that answers nothing new.
    page.send().await;
    assert_eq!(desk.pending().await, pending);
    let mut parts = page.messages[1]["parts"].as_array().unwrap().iter();
    let waits = parts.rfind(|part| part["toolName"] == "ask").unwrap();
    assert_eq!(waits["state"], "input-available");
    let call = waits["toolCallId"].as_str().unwrap().to_owned();
    page.answer(&call, &json!("Bob"));
    assert_eq!(page.send().await.text(), "boss: Ada, helped: Bob");
}

/// Abandoned with its caller.
#[tokio::test]
async fn a_new_message_abandons_the_calls_of_a_sub_agent() {
    let desk = Desk::new();
    let mut page = Page::with(&desk, "boss");
    page.say("pay").await;
    let left = page.messages.clone();
    page.say("look around").await;
    assert_eq!(
        page.last.text(),
        "I ask the helper. boss: helped: {\"seen\":3}"
    );
    page.messages = left;
    page.decide("p1", true);
    let mut sent = 0;
    while page.would_send() {
        page.send().await;
        sent += 1;
        assert!(sent < 3, "{:?}", page.last);
    }
    assert_eq!(page.last.data("resume-rejected").len(), 1);
    assert_eq!(paid(&desk.place), 0);
}

/// The answer to a call of a sub-agent is sent again, because what followed it was lost. The page learns what the
/// sub-agent asked then, and is not left to send the same answer for ever.
#[tokio::test]
async fn an_answer_that_is_sent_again_shows_what_a_sub_agent_asked_since() {
    let desk = Desk::new();
    let mut page = Page::with(&desk, "boss");
    page.say("twice").await;
    page.answer("t1", &json!("Ada"));
    let lost = page.messages.clone();
    page.send().await;
    let seen = page.messages.clone();
    assert_eq!(page.last.call("t2")["state"], "input-available");
    page.messages = lost;
    page.send().await;
    assert_eq!(page.messages, seen);
    assert!(!page.would_send());
    // What is asked for once more is given.
    page.send().await;
    page.answer("t2", &json!(36));
    assert!(page.would_send());
    assert!(page.send().await.text().ends_with("boss: helped: Ada 36"));
}

/// A sub-agent whose call was answered elsewhere goes on and asks once more, while the page waits with another one.
/// Once that is answered, the page learns of the new question.
#[tokio::test]
async fn a_page_learns_what_a_sub_agent_asked_that_went_on_alone() {
    let desk = Desk::new();
    let mut page = Page::with(&desk, "boss");
    page.say("two helpers").await;
    let call = |page: &Page<'_>, id: &str| page.last.call(id)["state"].clone();
    assert_eq!(
        (call(&page, "t1"), call(&page, "q1")),
        (json!("input-available"), json!("input-available"))
    );
    let answer = json!({ "kind": "client-tool-result", "toolCallId": "t1", "result": "Ada" });
    desk.place
        .post("/chat/s/submit-tool-result", answer)
        .await
        .ok();
    while !desk.pending().await.to_string().contains("\"t2\"") {
        tokio::task::yield_now().await;
    }
    page.answer("t1", &json!("Ada"));
    page.answer("q1", &json!("Bob"));
    assert!(page.would_send());
    page.send().await;
    assert_eq!(call(&page, "t2"), "input-available");
    assert!(!page.would_send());
    page.answer("t2", &json!(36));
    assert!(page.would_send());
    let text = page.send().await.text();
    assert_eq!(text, "boss: helped: Ada 36, helped: Bob");
}

/// The same while the sub-agent has got further: the page lacks a whole pause, which is told with what followed.
#[tokio::test]
async fn an_answer_that_is_sent_again_much_later_shows_every_call_since() {
    let desk = Desk::new();
    let mut page = Page::with(&desk, "boss");
    page.say("twice").await;
    page.answer("t1", &json!("Ada"));
    let lost = page.messages.clone();
    page.send().await;
    page.answer("t2", &json!(36));
    page.send().await;
    let seen = page.messages.clone();
    page.messages = lost;
    assert!(page.send().await.text().ends_with("boss: helped: Ada 36"));
    assert_eq!(page.messages, seen);
}
