//! The answers in what a client sends back.

use helix_agents_core::session::{PendingCall, Submission};
use helix_agents_core::time::Timestamp;
use helix_agents_core::{ApprovalId, RunId};
use helix_agents_wire::{IncomingMessage, extract_resume_intent, find_expired_pending, same_json};
use serde_json::{Value, json};

use crate::kit::{call, session};

fn client(id: &str) -> PendingCall {
    let run = RunId::new("run-1").unwrap();
    let at = Timestamp::from_millis(1);
    PendingCall::client(
        session("root"),
        run,
        call(id),
        "pick",
        json!({ "n": 1 }),
        at,
    )
}

fn gated(id: &str) -> PendingCall {
    let mut call = client(id).needing_approval(ApprovalId::new(format!("ap-{id}")).unwrap());
    call.tool_name = "pay".into();
    call
}

fn messages(parts: &Value) -> Vec<IncomingMessage> {
    let all = json!([
        { "id": "u1", "role": "user", "parts": [{ "type": "text", "text": "Go" }] },
        { "id": "msg-1", "role": "assistant", "parts": parts },
    ]);
    serde_json::from_value(all).unwrap()
}

fn picked(id: &str) -> Value {
    json!({ "type": "dynamic-tool", "toolName": "pick", "toolCallId": id, "state": "output-available",
            "input": { "n": 1 }, "output": { "color": "teal" } })
}

fn paid(id: &str) -> Value {
    json!({ "type": "dynamic-tool", "toolName": "pay", "toolCallId": id, "state": "approval-responded",
            "input": { "n": 1 }, "approval": { "id": format!("ap-{id}"), "approved": true, "reason": "fine" } })
}

/// Answers are found for the calls that wait, and for no others; they are bound to what was shown.
///
/// proves: CHT-10
#[test]
fn answers_are_found_for_the_calls_that_wait() {
    let pending = [client("c1"), gated("c2")];
    let parts = json!([{ "type": "step-start" }, picked("c0"), { "type": "step-start" }, picked("c1"), paid("c2"), picked("c9")]);
    let found = extract_resume_intent(&messages(&parts), &pending).unwrap();
    let bound = |submission: Submission, call: &PendingCall| {
        submission.bound_to(call.digest.clone(), call.run_id.clone())
    };
    let approval = Submission::decision(
        call("c2"),
        ApprovalId::new("ap-c2").unwrap(),
        true,
        Some("fine".into()),
    );
    assert_eq!(
        found.intents,
        [
            bound(
                Submission::result(call("c1"), json!({ "color": "teal" })),
                &pending[0]
            ),
            bound(approval, &pending[1]),
        ]
    );
    // An older step is history; in the last one, what does not wait was answered before, or is late.
    assert_eq!(found.rejected.len(), 1);
    assert_eq!(found.rejected[0].tool_call_id, "c9");
    assert!(!found.has_trailing_user_message);
}

/// An error of a client, static tools, and a user message behind the answers.
///
/// proves: CHT-10
#[test]
fn other_forms_of_answers_are_read() {
    let failed = json!({ "type": "tool-pick", "toolCallId": "c1", "state": "output-error",
                         "input": {}, "errorText": "closed" });
    let mut all = messages(&json!([failed]));
    let next = json!({ "id": "u2", "role": "user", "content": "And?" });
    all.push(serde_json::from_value(next).unwrap());
    let found = extract_resume_intent(&all, &[client("c1")]).unwrap();
    assert!(found.has_trailing_user_message);
    assert!(matches!(
        &found.intents[..],
        [Submission::ClientToolResult { error: Some(error), result: None, .. }] if error == "closed"
    ));
    let preliminary = json!([{ "type": "tool-pick", "toolCallId": "c1", "state": "output-available",
                               "input": {}, "output": 1, "preliminary": true }]);
    let found = extract_resume_intent(&messages(&preliminary), &[client("c1")]).unwrap();
    assert!(found.intents.is_empty() && found.rejected.is_empty());
}

/// What does not fit the call that it names is refused as a whole.
///
/// proves: CHT-10, APR-04
#[test]
fn an_answer_that_does_not_fit_is_refused() {
    let with = |part: Value, key: &str, value: Value| {
        let mut part = part;
        part[key] = value;
        part
    };
    let result_for_approval = with(picked("c2"), "toolName", json!("pay"));
    let decision_for_client = with(paid("c1"), "toolName", json!("pick"));
    let other_arguments = with(paid("c2"), "input", json!({ "n": 1_000_000 }));
    let no_arguments = with(paid("c2"), "input", Value::Null);
    let other_request = with(
        paid("c2"),
        "approval",
        json!({ "id": "ap-other", "approved": true }),
    );
    let other_tool = with(paid("c2"), "toolName", json!("look"));
    let undecided = with(paid("c2"), "approval", json!({ "id": "ap-c2" }));
    for part in [
        result_for_approval,
        decision_for_client,
        other_arguments,
        no_arguments,
        other_request,
        other_tool,
        undecided,
    ] {
        let all = messages(&json!([picked("c3"), part]));
        let pending = [client("c1"), gated("c2"), client("c3")];
        let refused = extract_resume_intent(&all, &pending);
        assert!(refused.is_err(), "{part}: {refused:?}");
    }
}

/// The calls of a sub-agent are known by their session where another one has a call of that id.
///
/// proves: CHT-10
#[test]
fn calls_of_sub_agents_are_known_by_their_session() {
    let mut child = client("c1");
    child.session_id = session("child");
    let theirs = || picked("child/c1");
    let found = extract_resume_intent(&messages(&json!([theirs()])), &[child.clone()]).unwrap();
    assert_eq!(found.intents.len(), 1);
    assert_eq!(found.intents[0].tool_call_id(), &call("c1"));
    let of_root = client("c1");
    let found = extract_resume_intent(&messages(&json!([theirs()])), &[of_root]).unwrap();
    assert!(found.intents.is_empty());
    // A call of the root's own with that id is another tool's.
    let own = json!({ "type": "dynamic-tool", "toolName": "subagent__helper", "toolCallId": "c1",
                      "state": "output-available", "input": {}, "output": 1, "providerExecuted": true });
    let found = extract_resume_intent(&messages(&json!([own])), &[child]).unwrap();
    assert!(found.intents.is_empty() && found.rejected.is_empty());
}

/// A browser knows one kind of number, so that it cannot repeat every argument exactly.
#[test]
fn arguments_are_compared_as_a_browser_knows_them() {
    assert!(same_json(
        &json!({ "a": [1.0, 2] }),
        &json!({ "a": [1, 2.0] })
    ));
    assert!(same_json(
        &json!(9_007_199_254_740_993_u64),
        &json!(9_007_199_254_740_992_u64)
    ));
    assert!(!same_json(&json!({ "a": 1 }), &json!({ "a": 1, "b": 2 })));
    assert!(!same_json(&json!([1, 2]), &json!([2, 1])));
    assert!(!same_json(&json!("1"), &json!(1)));
}

/// proves: CHT-10
#[test]
fn calls_past_their_deadline_are_found() {
    let mut soon = client("c1");
    soon.deadline = Some(Timestamp::from_millis(100));
    let mut answered = gated("c2");
    answered.deadline = soon.deadline;
    let decision = helix_agents_core::session::Answer::new(
        Submission::error(call("c2"), "no"),
        Timestamp::from_millis(50),
    );
    answered.answer = Some(decision);
    let pending = [soon, answered, client("c3")];
    assert_eq!(
        find_expired_pending(&pending, Timestamp::from_millis(99)),
        []
    );
    assert_eq!(
        find_expired_pending(&pending, Timestamp::from_millis(100)),
        [call("c1")]
    );
}
