//! Tests of sub-agents over HTTP: an approval inside of a child, across a server that is killed.

use serde_json::{Value, json};

use crate::killed_server::counting;
use crate::kit::{Folder, config};
use crate::serving::Served;

const SCRIPT: &str = r#"{ "rules": [
    { "match": "Refund", "steps": [
        { "tool_calls": [ { "id": "r1", "name": "refund", "arguments": { "cents": 500 } } ],
          "usage": { "input": 10, "output": 2 } },
        { "text": "Refunded.", "usage": { "input": 20, "output": 3 } } ] },
    { "match": "Please", "steps": [
        { "tool_calls": [
            { "id": "c1", "name": "subagent__cashier", "arguments": { "message": "Refund it." } },
            { "id": "c2", "name": "record", "arguments": { "cents": 1 } } ] },
        { "text": "The cashier says: {{tool_result:c1}}" } ] } ] }"#;

const ALICE: Option<&str> = Some("open sesame");

fn folder(address: &str) -> Folder {
    let more = format!(
        "[[server.tokens]]\nenv = \"HELIX_TEST_TOKEN\"\nuser = \"alice\"\n\
         [agents.clerk]\nmodel = \"fast\"\ntools = [\"record\"]\nsub_agents = [\"cashier\"]\n\
         [agents.cashier]\nmodel = \"fast\"\ntools = [\"refund\"]\n\
         [tools.record]\nkind = \"http\"\nurl = \"http://{address}/record\"\n\
         [tools.refund]\nkind = \"http\"\nurl = \"http://{address}/refund\"\nrequire_approval = true\n"
    );
    Folder::with(&config(&more), SCRIPT)
}

/// proves: SUB-03, SUB-04, SUS-07
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_inside_of_a_child_is_answered_at_the_root_after_a_kill() {
    let (address, reached) = counting().await;
    let folder = folder(&address);
    let served = Served::start(&folder, &["serve"]);
    let start = json!({ "sessionId": "s", "agentType": "clerk", "message": "Please help." });
    served.ask("/start", Some(start), ALICE).await;
    assert!(served.end("s", ALICE).await["suspended"].is_object());
    served.kill();

    let served = Served::start(&folder, &["serve"]);
    let (_, now) = served.ask("/status?sessionId=s", None, ALICE).await;
    let asked: &Value = &now["pending"][0];
    assert_eq!(asked["toolCallId"], json!("r1"), "{now}");
    assert_ne!(asked["sessionId"], json!("s"), "the call is the child's");
    let (_, listed) = served.ask("/pending?sessionId=s", None, ALICE).await;
    assert_eq!(listed["pending"][0]["toolCallId"], json!("r1"), "{listed}");
    let shown = folder.helix(&["sessions", "show", "s"]).ends(0).out;
    let child = asked["sessionId"].as_str().unwrap();
    let line = format!("└─ cashier {child} suspended, for call c1");
    assert!(shown.contains(&line), "{shown}");
    assert!(
        shown.contains(r#"   pending: r1 refund {"cents":500}"#),
        "{shown}"
    );
    assert_eq!(reached.lock().unwrap().len(), 1, "only the record so far");

    let answer = json!({
        "sessionId": "s", "toolCallId": "r1", "kind": "approval-response",
        "approvalId": asked["approvalId"], "approved": true,
    });
    let (status, taken) = served.ask("/submit-tool-result", Some(answer), ALICE).await;
    let wanted = json!({ "status": "accepted", "continuation": "new_run" });
    assert_eq!((status, taken), (200, wanted));
    assert_eq!(served.end("s", ALICE).await["status"], json!("completed"));
    let (_, told) = served.ask("/sessions/s/messages", None, ALICE).await;
    let last = told["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(last["content"], json!("The cashier says: Refunded."));
    let paths = reached.lock().unwrap().clone();
    assert_eq!(paths.len(), 2, "each effect took place once: {paths:?}");
    let (_, usage) = served.ask("/sessions/s/usage", None, ALICE).await;
    assert_eq!(
        usage["tokens"]["total"],
        json!(35),
        "the child's are counted"
    );
    let shown = folder.helix(&["sessions", "show", "s", "--json"]).ends(0);
    let children = &shown.json()["children"];
    assert_eq!(children[0]["agentType"], json!("cashier"));
    assert_eq!(children[0]["runStatus"], json!("completed"));
    served.kill();
}
