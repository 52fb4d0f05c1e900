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
    { "match": "Begin", "steps": [
        { "tool_calls": [
            { "id": "c1", "name": "companion__spawnAgent",
              "arguments": { "agent": "cashier", "name": "till", "initialMessage": "Refund it." } } ] },
        { "text": "It is begun." } ] },
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
         [agents.owner]\nmodel = \"fast\"\npersistent_agents = [{{ agent = \"cashier\", mode = \"blocking\" }}]\n\
         [agents.boss]\nmodel = \"fast\"\npersistent_agents = [{{ agent = \"cashier\", mode = \"non-blocking\" }}]\n\
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

/// A persistent agent that waits for an approval, in a process that is killed, goes on when the root is answered: with
/// its caller, or, if that does not wait for it, by itself.
///
/// proves: PER-05, PER-03
#[tokio::test(flavor = "multi_thread")]
async fn a_companion_goes_on_after_a_kill() {
    let (address, reached) = counting().await;
    let folder = folder(&address);
    for (agent, before) in [("owner", "suspended"), ("boss", "completed")] {
        let served = Served::start(&folder, &["serve"]);
        let start = json!({ "sessionId": agent, "agentType": agent, "message": "Begin." });
        served.ask("/start", Some(start), ALICE).await;
        let rests = served.end(agent, ALICE).await;
        let is_suspended = rests["suspended"].is_object();
        assert_eq!(is_suspended, before == "suspended", "{rests}");
        let asked = asked(&served, agent).await;
        let child = asked["sessionId"].as_str().unwrap().to_owned();
        // The call can be answered a little before the run of its session has ended.
        comes_to(&served, &child, "suspended_client_tool").await;
        let shown = folder.helix(&["sessions", "show", agent]).ends(0).out;
        let line = format!("└─ cashier {child} suspended, named till by call c1");
        assert!(shown.contains(&line), "{shown}");
        served.kill();

        let served = Served::start(&folder, &["serve"]);
        let answer = json!({
            "sessionId": agent, "toolCallId": asked["toolCallId"], "kind": "approval-response",
            "approvalId": asked["approvalId"], "approved": true,
        });
        let (status, taken) = served.ask("/submit-tool-result", Some(answer), ALICE).await;
        assert_eq!((status, &taken["status"]), (200, &json!("accepted")));
        for session in [child.as_str(), agent] {
            comes_to(&served, session, "completed").await;
        }
        let (_, told) = served
            .ask(&format!("/sessions/{agent}/messages"), None, ALICE)
            .await;
        let told = told.to_string();
        let wanted = match agent {
            "owner" => r#"\"output\":\"Refunded.\""#,
            _ => "The agent named till has completed. Its output: Refunded.",
        };
        assert!(told.contains(wanted), "{told}");
        served.kill();
    }
    assert_eq!(reached.lock().unwrap().len(), 2, "one refund each");
}

/// The call that waits under a session, once it does.
async fn asked(served: &Served, session: &str) -> Value {
    loop {
        let (_, listed) = served
            .ask(&format!("/pending?sessionId={session}"), None, ALICE)
            .await;
        let pending = &listed["pending"];
        if pending.as_array().is_some_and(|all| !all.is_empty()) {
            return pending[0].clone();
        }
        tokio::task::yield_now().await;
    }
}

/// Waits until the run of a session has this status.
async fn comes_to(served: &Served, session: &str, status: &str) {
    loop {
        let (_, now) = served
            .ask(&format!("/status?sessionId={session}"), None, ALICE)
            .await;
        match now["runStatus"].as_str() {
            Some(reached) if reached == status => return,
            Some("failed" | "interrupted") => panic!("{session} does not come to {status}: {now}"),
            _ => tokio::task::yield_now().await,
        }
    }
}
