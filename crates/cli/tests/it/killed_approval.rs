//! Tests of an approval across processes that are killed.

use serde_json::{Value, json};

use crate::killed_server::counting;
use crate::kit::{Folder, config};
use crate::serving::Served;

const SCRIPT: &str = r#"{ "default": [
    { "tool_calls": [ { "id": "c", "name": "refund", "arguments": { "cents": 500 } } ] },
    { "text": "Refunded." } ] }"#;

const ALICE: Option<&str> = Some("open sesame");
const BOB: Option<&str> = Some("bob's word");

fn folder(address: &str) -> Folder {
    // The SHA-256 of bob's word.
    let bob = "455fbbfee221b2f538efd33a0a6aa3a22e1d4df47b535dc5ea48fc23bb9b1061";
    let more = format!(
        "[runtime]\nauto_continue = false\n\
         [[server.tokens]]\nenv = \"HELIX_TEST_TOKEN\"\nuser = \"alice\"\n\
         [[server.tokens]]\nsha256 = \"{bob}\"\nuser = \"bob\"\n\
         [agents.a]\nmodel = \"fast\"\ntools = [\"refund\"]\n\
         [tools.refund]\nkind = \"http\"\nurl = \"http://{address}/\"\nrequire_approval = true\n"
    );
    Folder::with(&config(&more), SCRIPT)
}

async fn submit(served: &Served, answer: &Value, token: Option<&str>) -> (u16, Value) {
    let mut body = json!({ "sessionId": "s", "toolCallId": "c" });
    let more = answer.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(more);
    served.ask("/submit-tool-result", Some(body), token).await
}

/// proves: SUS-02
/// proves in part: APR-03, APR-04
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_honoured_once_across_kills() {
    let (address, reached) = counting().await;
    let folder = folder(&address);
    let served = Served::start(&folder, &["serve"]);
    let start = json!({ "sessionId": "s", "agentType": "a", "message": "Refund it." });
    served.ask("/start", Some(start), ALICE).await;
    assert!(served.end("s", ALICE).await["suspended"].is_object());
    served.kill();

    let served = Served::start(&folder, &["serve"]);
    let (_, now) = served.ask("/status?sessionId=s", None, ALICE).await;
    let asked = &now["pending"][0];
    assert_eq!(asked["kind"], json!("approval"), "{now}");
    let approval = asked["approvalId"].clone();
    let approve =
        |id: &Value| json!({ "kind": "approval-response", "approvalId": id, "approved": true });
    let result = json!({ "kind": "client-tool-result", "result": "refunded, I swear" });
    let wrong = [result, approve(&json!("another"))];
    for answer in &wrong {
        let (status, refused) = submit(&served, answer, ALICE).await;
        assert_eq!(
            (status, &refused["code"]),
            (400, &json!("VALIDATION_ERROR"))
        );
    }
    let (status, refused) = submit(&served, &approve(&approval), BOB).await;
    assert_eq!((status, &refused["code"]), (404, &json!("NOT_FOUND")));
    let (status, taken) = submit(&served, &approve(&approval), ALICE).await;
    let wanted = json!({ "status": "accepted", "continuation": "caller_resumes" });
    assert_eq!((status, taken), (200, wanted));
    served.kill();

    let served = Served::start(&folder, &["serve"]);
    assert!(reached.lock().unwrap().is_empty(), "no run was resumed yet");
    let (status, _) = served
        .ask("/resume", Some(json!({ "sessionId": "s" })), ALICE)
        .await;
    assert_eq!(status, 200);
    assert_eq!(served.end("s", ALICE).await["status"], json!("completed"));
    for _ in 0..100 {
        let (status, again) = submit(&served, &approve(&approval), ALICE).await;
        let wanted = json!({ "status": "already_completed", "continuation": "none" });
        assert_eq!((status, again), (200, wanted));
    }
    assert_eq!(reached.lock().unwrap().len(), 1);
    served.kill();
}
