//! Calls that need an approval.

use helix_agents_core::UserId;
use helix_agents_core::canonical::Digest;
use helix_agents_core::error::ErrorCode;
use helix_agents_core::session::{RunStatus, Submission};
use helix_agents_core::store::{Change, Commit};
use helix_agents_core::stream::ChunkPayload;
use helix_agents_core::tool::{ToolCx, ToolError};
use serde_json::{Value, json};

use super::super::builders::{approval, call};
use super::agents::{Log, agent, browser, calling, noted};
use super::lines::names;
use super::subject::{calls, session};
use super::{MockReply, RuntimeSubject};

/// A call needs an approval always, or when a rule decides so from its input and context. If the
/// rule fails or panics, the call needs an approval.
///
/// proves: APR-01
pub async fn a_rule_decides_which_calls_need_an_approval(on: &RuntimeSubject) {
    let log = Log::default();
    let amount = |n: u64| json!({ "amount": n });
    let replies = [
        MockReply::calls([
            ("c1", "always", amount(1)),
            ("c2", "above", amount(1)),
            ("c3", "above", amount(100)),
            ("c4", "fails", amount(1)),
            ("c5", "panics", amount(1)),
            ("c6", "by_state", amount(1)),
        ]),
        MockReply::text("done"),
    ];
    let tools = [
        noted("always", &log).approval(),
        noted("above", &log).approval_if(async |input: Value, _: ToolCx| {
            Ok(input.get("amount").and_then(Value::as_u64) > Some(10))
        }),
        noted("fails", &log).approval_if(async |_: Value, _: ToolCx| {
            Err(ToolError::tell_model("the rule is broken"))
        }),
        noted("panics", &log).approval_if(async |_: Value, _: ToolCx| panic!("the rule is broken")),
        noted("by_state", &log).approval_if(async |_: Value, cx: ToolCx| {
            Ok(cx.state().get()?.get("careful") == Some(&json!(true)))
        }),
    ];
    let agent = agent(replies)
        .tools(tools)
        .initial_state(json!({ "careful": true }))
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    let asked: Vec<_> = on
        .pending()
        .await
        .into_iter()
        .map(|it| it.tool_call_id)
        .collect();
    assert_eq!(asked, calls(&["c1", "c3", "c4", "c5", "c6"]));
    assert_eq!(log.take(), [r#"above c2 {"amount":1}"#]);
}

/// Readers see the request with its input and the ids that the answer is bound to; after the answer
/// the run resumes.
///
/// proves: APR-02
pub async fn an_approval_is_requested_and_the_run_resumes(on: &RuntimeSubject) {
    let log = Log::default();
    let input = json!({ "to": "Ada", "cents": 5 });
    let replies = [
        MockReply::calls([("c1", "pay", input.clone())]),
        MockReply::text("done"),
    ];
    let agent = agent(replies)
        .tools(noted("pay", &log).approval())
        .build()
        .unwrap();
    let paused = on.turn(&agent, "go").await;
    assert_eq!(paused.status, RunStatus::SuspendedClientTool);
    let pending = on.waiting("c1").await;
    let approval_id = pending
        .approval_id
        .clone()
        .expect("the question has a name");
    let request = ChunkPayload::ToolApprovalRequest {
        tool_call_id: call("c1"),
        tool_name: "pay".into(),
        approval_id: approval_id.clone(),
        input: input.clone().into(),
        digest: Digest::of_call("pay", &input),
    };
    assert!(on.payloads().await.contains(&request));
    assert_eq!(
        names(&on.payloads().await),
        [
            "run_started",
            "tool_approval_request c1",
            "checkpoint_created",
            "run_paused"
        ]
    );

    let ada = UserId::new("ada").unwrap();
    on.answered(pending.approve().by(&ada)).await;
    assert_eq!(log.take(), [""; 0], "an answer runs nothing");
    let run = on.resumed().await;
    assert_eq!(run.status, RunStatus::Completed);
    let response = ChunkPayload::ToolApprovalResponse {
        tool_call_id: call("c1"),
        approval_id,
        approved: true,
        reason: None,
        decided_by: Some(ada),
    };
    assert!(on.payloads().await.contains(&response));
    assert_eq!(
        names(&on.payloads().await)[4..],
        [
            "run_started",
            "run_resumed",
            "tool_approval_response c1",
            "tool_start c1",
            "tool_end c1",
            "step_committed",
            "checkpoint_created",
            "step_committed",
            "checkpoint_created",
        ]
    );
}

/// An approved call runs once, with its original input; a denied one never runs, and the model reads
/// that it was not approved.
///
/// proves: APR-03
pub async fn an_approved_call_runs_once_and_a_denied_one_never(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [
        MockReply::calls([
            ("c1", "pay", json!({ "cents": 1 })),
            ("c2", "pay", json!({ "cents": 2 })),
            ("c3", "pay", json!({ "cents": 3 })),
        ]),
        MockReply::text("done"),
    ];
    let agent = agent(replies)
        .tools(noted("pay", &log).approval())
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    on.answered(on.waiting("c1").await.approve()).await;
    on.answered(on.waiting("c2").await.deny("too much")).await;
    let unexplained = on.waiting("c3").await;
    let id = unexplained.approval_id.clone().expect("it has a name");
    let denied = Submission::decision(call("c3"), id, false, None);
    on.answered(helix_agents_core::entries::ToolAnswer::new(
        session(),
        denied,
    ))
    .await;
    let run = on.restarted().await.resumed().await;
    assert_eq!(run.status, RunStatus::Completed);
    assert_eq!(log.take(), [r#"pay c1 {"cents":1}"#]);
    assert_eq!(
        on.transcript_lines().await[2..5],
        [
            "c1=success: done",
            r#"c2=denied: {"error":"The call of pay was not approved. Reason: too much"}"#,
            r#"c3=denied: {"error":"The call of pay was not approved."}"#,
        ]
    );
    let names = names(&on.payloads().await);
    assert!(names.contains(&"tool_error c2".to_owned()));
    assert!(!names.contains(&"tool_start c2".to_owned()));
}

/// An answer of the wrong kind, to another call, about other arguments or of another run is
/// refused, and nothing is stored. An approval is used once.
///
/// proves: APR-04
pub async fn an_approval_is_valid_for_one_call_only(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [
        calling([("c1", "pay"), ("c2", "browser"), ("c3", "pay")]),
        calling([("c4", "pay")]),
        MockReply::text("done"),
    ];
    let tools = [noted("pay", &log).approval(), browser("browser")];
    let agent = agent(replies).tools(tools).build().unwrap();
    on.turn(&agent, "go").await;
    let (gated, client) = (on.waiting("c1").await, on.waiting("c2").await);
    let id = gated.approval_id.clone().expect("it has a name");
    let refuse = async |submission: Submission| {
        let answer = helix_agents_core::entries::ToolAnswer::new(session(), submission);
        on.refuses(ErrorCode::ValidationError, async || on.submit(answer).await)
            .await;
    };
    let decides = |call, id: &helix_agents_core::ApprovalId| {
        Submission::decision(call, id.clone(), true, None)
    };
    refuse(Submission::result(call("c1"), json!("as if it had run"))).await;
    refuse(decides(call("c2"), &id)).await;
    refuse(decides(call("c1"), &approval("another"))).await;
    let of_c3 = on.waiting("c3").await.approval_id.expect("it has a name");
    refuse(decides(call("c1"), &of_c3)).await;
    let other_digest = Digest::of_call("pay", &json!({ "cents": 1_000_000 }));
    let run = gated.run_id.clone();
    refuse(decides(call("c1"), &id).bound_to(other_digest.clone(), run.clone())).await;
    let other_run = super::super::builders::run("another");
    refuse(decides(call("c1"), &id).bound_to(gated.digest.clone(), other_run.clone())).await;
    refuse(Submission::result(call("c2"), json!(1)).bound_to(other_digest, run)).await;
    refuse(Submission::result(call("c2"), json!(1)).bound_to(client.digest.clone(), other_run))
        .await;
    let mut both = Submission::result(call("c2"), json!(1));
    if let Submission::ClientToolResult { error, .. } = &mut both {
        *error = Some("and an error".to_owned());
    }
    refuse(both).await;

    on.answered(gated.approve()).await;
    on.answered(client.result("here")).await;
    on.answered(on.waiting("c3").await.deny("no")).await;
    on.resumed().await;
    assert_eq!(log.take(), ["pay c1 {}"]);
    // The next question is another one, though tool and arguments are the same.
    assert_ne!(on.waiting("c4").await.approval_id, Some(id.clone()));
    refuse(decides(call("c4"), &id)).await;
}

/// A call runs only with an approval of exactly its arguments: an approval of other arguments, even
/// one written straight into the store, runs nothing.
///
/// proves in part: APR-04
pub async fn an_approval_of_other_arguments_runs_nothing(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [calling([("c1", "pay")]), MockReply::text("done")];
    let agent = agent(replies)
        .tools(noted("pay", &log).approval())
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    on.answered(on.waiting("c1").await.approve()).await;
    let found = on.snapshot().await.state.pending_client_tool_calls;
    let mut forged = found[&call("c1")].clone();
    forged.digest = Digest::of_call("pay", &json!({ "cents": 1_000_000 }));
    let forge = Commit::new(session(), on.clock.now()).then(Change::Pending(Box::new(forged)));
    on.backend().store.commit(forge).await.unwrap();
    on.resumed().await;
    assert_eq!(log.take(), [""; 0]);
    assert_eq!(
        on.transcript_lines().await[2],
        r#"c1=not_executed: {"error":"Not executed: it needs an approval that it does not have."}"#
    );
}
