//! Sub-agents that wait for somebody, and those that are stopped.

use std::collections::BTreeSet;

use helix_agents_core::agent::Agent;
use helix_agents_core::error::{Coded, ErrorCode};
use helix_agents_core::runtime::{RuntimeError, RuntimeExt, Turn};
use helix_agents_core::session::{RunStatus, SessionStatus, StopKind, SubmissionOutcome};
use helix_agents_core::store::{Page, SessionKey, Sessions};
use helix_agents_core::stream::{ChunkPayload, StreamStatus};
use helix_agents_core::tool::Tool;
use helix_agents_models::{Script, ScriptedModel};
use serde_json::json;

use super::agents::{Gate, Log, agent, browser, gated, noted};
use super::delegating::{helper, tasks};
use super::subject::session;
use super::{MockReply, RuntimeSubject};

/// A caller that waits for a child: the agent, whose child `helper` waits for an answer to `h1`.
fn waiting_caller() -> Agent {
    let child = helper(
        "helper",
        [
            MockReply::calls([("h1", "ask", json!({}))]),
            MockReply::text("Asked."),
        ],
    );
    let child = child.tools(browser("ask")).build().unwrap();
    let replies = [tasks([("c1", "subagent__helper")]), MockReply::text("done")];
    agent(replies)
        .tools(Tool::sub_agent(&child))
        .build()
        .unwrap()
}

/// A sub-agent that waits for a person makes its caller wait. The answer goes to the root; the same child goes on, and
/// then its caller.
///
/// proves: SUB-03, SUB-04, SES-05, SUS-07
pub async fn a_sub_agent_that_pauses_pauses_its_caller(on: &RuntimeSubject) {
    let log = Log::default();
    let child = helper(
        "helper",
        [
            MockReply::calls([("h1", "pay", json!({}))]),
            MockReply::text("Paid."),
        ],
    );
    let child = child.tools(noted("pay", &log).approval()).build().unwrap();
    let replies = [tasks([("c1", "subagent__helper")]), MockReply::text("done")];
    let agent = agent(replies).tools(Tool::sub_agent(&child)).build();
    let paused = on.turn(&agent.unwrap(), "go").await;
    assert_eq!(paused.status, RunStatus::SuspendedAwaitingChildren);
    let link = on.children(&session()).await.remove(0);
    let suspended = paused.suspended.expect("it says what it waits for");
    assert_eq!(
        suspended.children.as_slice(),
        std::slice::from_ref(&link.session_id)
    );
    assert!(suspended.tool_call_ids.is_empty());
    match on.try_resume().await {
        Err(RuntimeError::Entry(error)) => {
            assert_eq!(Coded::code(&error), ErrorCode::SessionAwaitingAnswers);
            assert!(error.to_string().contains("h1"), "{error}");
        }
        other => panic!("resumed without an answer: {other:?}"),
    }
    let question = on.waiting("h1").await;
    assert_eq!(question.session_id, link.session_id);
    assert_eq!(question.root_session_id, session());
    let submitted = on.answered(question.approve()).await;
    assert_eq!(submitted.owner, link.session_id);
    let run = on.resumed().await;
    assert_eq!(run.status, RunStatus::Completed);
    assert_eq!(log.take(), ["pay h1 {}"]);
    let lines = on.transcript_lines().await;
    assert_eq!(lines[2], "c1=success: Paid.");
    assert_eq!(lines.len(), 4);
    let child = on.only_child(&session()).await;
    assert_eq!(child.state.session_id, link.session_id);
    assert_eq!(
        on.snapshot().await.state.suspended_awaiting_children.len(),
        0
    );
}

/// A question three levels down is answered at the root, in another process, and each level goes on.
///
/// proves: SUB-03, SUB-04, SUS-07
pub async fn a_question_of_a_grandchild_is_answered_at_the_root(on: &RuntimeSubject) {
    let grandchild = helper(
        "grandchild",
        [
            MockReply::calls([("g1", "ask", json!({}))]),
            MockReply::text("It is blue."),
        ],
    );
    let grandchild = grandchild.tools(browser("ask")).build().unwrap();
    let child = helper(
        "child",
        [
            tasks([("h1", "subagent__grandchild")]),
            MockReply::text("They say it is blue."),
        ],
    );
    let child = child.tools(Tool::sub_agent(&grandchild)).build().unwrap();
    let replies = [tasks([("c1", "subagent__child")]), MockReply::text("done")];
    let agent = agent(replies).tools(Tool::sub_agent(&child)).build();
    let paused = on.turn(&agent.unwrap(), "go").await;
    assert_eq!(paused.status, RunStatus::SuspendedAwaitingChildren);
    let below = on.only_child(&session()).await;
    let run = below.run.as_ref().expect("it ran");
    assert_eq!(run.status, RunStatus::SuspendedAwaitingChildren);
    let elsewhere = on.restarted().await;
    let question = elsewhere.waiting("g1").await;
    elsewhere.answered(question.result("blue")).await;
    let run = elsewhere.resumed().await;
    assert_eq!(run.status, RunStatus::Completed);
    let lines = on.transcript_lines().await;
    assert_eq!(lines[2], "c1=success: They say it is blue.");
    let child = on.only_child(&session()).await;
    let grandchild = on.only_child(&child.state.session_id).await;
    assert_eq!(grandchild.state.root(), &session());
    assert_eq!(
        grandchild.state.parent_session_id,
        Some(child.state.session_id)
    );
}

/// Where answers continue by themselves, the child goes on alone, and its end continues its caller.
///
/// proves: SUB-04, SUS-07
pub async fn an_answer_continues_a_child_and_then_its_caller(on: &RuntimeSubject) {
    let on = &on.auto_continuing().await;
    let child = helper(
        "helper",
        [
            MockReply::calls([("h1", "ask", json!({}))]),
            MockReply::text("Asked."),
        ],
    );
    let child = child.tools(browser("ask")).build().unwrap();
    let replies = [tasks([("c1", "subagent__helper")]), MockReply::text("done")];
    let agent = agent(replies).tools(Tool::sub_agent(&child)).build();
    let paused = on.turn(&agent.unwrap(), "go").await;
    assert_eq!(paused.status, RunStatus::SuspendedAwaitingChildren);
    let question = on.waiting("h1").await;
    on.answered(question.result("yes")).await;
    on.comes_to(&session(), RunStatus::Completed).await;
    assert_eq!(on.transcript_lines().await[2], "c1=success: Asked.");
    on.only_child(&session()).await;
}

/// Two children that wait are answered in either order; their caller goes on when nobody is waited for.
///
/// proves: SUB-03, SUB-04
pub async fn children_that_wait_are_answered_in_any_order(on: &RuntimeSubject) {
    for (turn, first, second) in [(0, "a1", "b1"), (1, "b1", "a1")] {
        let waiting = |name: &str, call: &str| {
            let replies = [
                MockReply::calls([(call, "ask", json!({}))]),
                MockReply::text(format!("{name} asked.")),
            ];
            helper(name, replies).tools(browser("ask")).build().unwrap()
        };
        let calls = [("c1", "subagent__one"), ("c2", "subagent__other")];
        let replies = [tasks(calls), MockReply::text("done")];
        let agent = agent(replies)
            .tools(Tool::sub_agent(&waiting("one", "a1")))
            .tools(Tool::sub_agent(&waiting("other", "b1")))
            .build();
        let paused = on.turn(&agent.unwrap(), "go").await;
        assert_eq!(paused.status, RunStatus::SuspendedAwaitingChildren);
        assert_eq!(paused.suspended.map(|it| it.children.len()), Some(2));
        on.answered(on.waiting(first).await.result("yes")).await;
        let refused = on.try_resume().await;
        assert!(refused.is_err(), "resumed while {second} waits");
        on.answered(on.waiting(second).await.result("yes")).await;
        let run = on.resumed().await;
        assert_eq!(run.status, RunStatus::Completed);
        let lines = on.transcript_lines().await;
        let results = &lines[4 * turn + turn + 2..][..2];
        assert!(results[0].ends_with("=success: one asked."), "{lines:#?}");
        assert!(results[1].ends_with("=success: other asked."), "{lines:#?}");
    }
}

/// A stop of a run reaches the sub-agents that work for it, at any depth.
///
/// proves: SUB-05
pub async fn a_stop_reaches_sub_agents(on: &RuntimeSubject) {
    let gate = Gate::default();
    let grandchild = helper(
        "grandchild",
        [
            MockReply::calls([("g1", "gate", json!({}))]),
            MockReply::text("Never."),
        ],
    );
    let grandchild = grandchild.tools(gated("gate", &gate)).build().unwrap();
    let child = helper(
        "child",
        [
            tasks([("h1", "subagent__grandchild")]),
            MockReply::text("Never."),
        ],
    );
    let child = child.tools(Tool::sub_agent(&grandchild)).build().unwrap();
    let replies = [tasks([("c1", "subagent__child")]), MockReply::text("never")];
    let agent = agent(replies).tools(Tool::sub_agent(&child)).build();
    let run = on.start(&agent.unwrap(), "go").await;
    gate.reached(1).await;
    let sessions = Sessions::new(on.backend().store.as_ref(), on.clock.as_ref());
    let root = session();
    let stopped = sessions.request_stop(&root, StopKind::Interrupt, None);
    assert_eq!(stopped.await.unwrap(), Some(run.run_id.clone()));
    gate.open();
    let run = on.ended(&run).await;
    assert_eq!(run.status, RunStatus::Interrupted);
    let child = on.only_child(&session()).await;
    let grandchild = on.only_child(&child.state.session_id).await;
    for stopped in [child, grandchild] {
        let run = stopped.run.expect("it ran");
        assert_eq!(run.status, RunStatus::Interrupted);
    }
    let lines = on.transcript_lines().await;
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(lines[2].starts_with("c1="), "{lines:#?}");
}

/// A sub-agent's call that needs an approval starts nobody before it is given.
///
/// proves: SUB-01, APR-01
pub async fn a_sub_agent_that_needs_an_approval_is_not_started_before(on: &RuntimeSubject) {
    let child = helper("helper", [MockReply::text("Helped.")])
        .build()
        .unwrap();
    let replies = [tasks([("c1", "subagent__helper")]), MockReply::text("done")];
    let agent = agent(replies)
        .tools(Tool::sub_agent(&child).approval())
        .build();
    on.turn(&agent.unwrap(), "go").await;
    assert!(on.children(&session()).await.is_empty());
    on.answered(on.waiting("c1").await.approve()).await;
    on.resumed().await;
    assert_eq!(on.transcript_lines().await[2], "c1=success: Helped.");
    on.only_child(&session()).await;
}

/// A stop of a run that waits for a sub-agent ends both; the question is taken back.
///
/// proves: SUB-05
pub async fn a_stop_of_a_paused_run_ends_its_sub_agents(on: &RuntimeSubject) {
    on.turn(&waiting_caller(), "go").await;
    let question = on.waiting("h1").await;
    let child = question.session_id.clone();
    let root = session();
    on.runtime.interrupt(&root).await.unwrap();
    on.comes_to(&root, RunStatus::Interrupted).await;
    on.comes_to(&child, RunStatus::Interrupted).await;
    assert!(on.pending().await.is_empty());
    let late = on.submit(question.result("yes")).await.unwrap();
    assert_eq!(late.outcome, SubmissionOutcome::UnknownToolCall);
    let lines = on.transcript_lines().await;
    let text = r#"c1=error: {"error":"The sub-agent was stopped before it was done."}"#;
    assert_eq!(lines[2], text);
}

/// A new message over a run that waits for a sub-agent leaves that behind: it is asked to stop.
///
/// proves: SUB-05
pub async fn a_message_over_a_waiting_sub_agent_stops_it(on: &RuntimeSubject) {
    let agent = waiting_caller();
    on.turn(&agent, "go").await;
    let child = on.only_child(&session()).await;
    let run = child.run.expect("it ran");
    let root = session();
    let turn = Turn::new("Never mind.").abandon_pending();
    let sent = on.runtime.send(&agent, &root, turn).await.unwrap();
    sent.outcome().await.unwrap();
    let child = on.child(&child.state.session_id).await;
    let stop = child.stop.map(|stop| stop.run_id);
    let is_over = child.state.status == SessionStatus::Interrupted;
    assert!(is_over || stop == Some(run.id), "the child goes on alone");
    let lines = on.transcript_lines().await;
    assert_eq!(lines[3..], ["user: Never mind.", "assistant: done"]);
    assert_eq!(
        on.snapshot().await.state.suspended_awaiting_children.len(),
        0
    );
}

/// A sub-agent that waits is deleted: its question is gone, and its caller goes on with an error for the call.
///
/// proves in part: SUB-03, SES-11
pub async fn a_waiting_sub_agent_is_deleted(on: &RuntimeSubject) {
    on.turn(&waiting_caller(), "go").await;
    let question = on.waiting("h1").await;
    let store = on.backend().store.as_ref();
    let sessions = Sessions::new(store, on.clock.as_ref());
    let deleted = sessions.delete_session(&question.session_id).await;
    assert!(deleted.unwrap());
    assert_eq!(on.pending().await, []);
    let found = on.snapshot().await.state;
    assert!(found.suspended_awaiting_children.is_empty());
    assert!(found.client_tool_call_ownership.is_empty());
    assert_eq!(on.children(&session()).await, []);
    let late = on.submit(question.result("yes")).await.unwrap();
    assert_eq!(late.outcome, SubmissionOutcome::UnknownToolCall);
    let run = on.restarted().await.resumed().await;
    assert_eq!(run.status, RunStatus::Completed);
    let lines = on.transcript_lines().await;
    let text = r#"c1=error: {"error":"The session of the sub-agent was deleted."}"#;
    assert_eq!(lines[2..], [text, "assistant: done"]);
    assert_eq!(on.children(&session()).await, []);
}

/// A child that goes on alone is followed on the stream; when it comes to rest and others are still waited for, the
/// stream is paused again.
///
/// proves in part: SUB-04
pub async fn the_stream_is_paused_while_children_wait(on: &RuntimeSubject) {
    let on = &on.auto_continuing().await;
    let child = |name: &str, first: &str, second: &str| {
        let replies = [
            MockReply::calls([(first, "ask", json!({}))]),
            MockReply::calls([(second, "ask", json!({}))]),
            MockReply::text("Asked."),
        ];
        helper(name, replies).tools(browser("ask")).build().unwrap()
    };
    let calls = [("c1", "subagent__one"), ("c2", "subagent__other")];
    let agent = agent([tasks(calls), MockReply::text("done")])
        .tools(Tool::sub_agent(&child("one", "a1", "a2")))
        .tools(Tool::sub_agent(&child("other", "b1", "b2")))
        .build();
    on.turn(&agent.unwrap(), "go").await;
    let root = session();
    for call in ["a1", "a2", "b1", "b2"] {
        // The end of the child before may have woken the root, which pauses again.
        on.stream_comes_to(StreamStatus::Paused).await;
        let question = on.waiting(call).await;
        on.answered(question.result("yes")).await;
        let rest = match call {
            "a2" => RunStatus::Completed,
            "b2" => break,
            _ => RunStatus::SuspendedClientTool,
        };
        // Another run of the child than the one that asked.
        on.comes_to_another(&question.session_id, &question.run_id, rest)
            .await;
    }
    on.comes_to(&root, RunStatus::Completed).await;
    assert_eq!(on.stream_status().await, Some(StreamStatus::Ended));
}

/// The stream of a child that goes on alone is not paused by its own sub-agents, as long as the child works.
///
/// proves in part: SUB-04
pub async fn the_stream_is_active_while_a_child_works_alone(on: &RuntimeSubject) {
    let on = &on.auto_continuing().await;
    let gate = Gate::default();
    let asks = helper(
        "asks",
        [
            MockReply::calls([("g1", "ask", json!({}))]),
            MockReply::text("Asked."),
        ],
    );
    let asks = asks.tools(browser("ask")).build().unwrap();
    let works = helper(
        "works",
        [
            MockReply::calls([("w1", "gate", json!({}))]),
            MockReply::text("Worked."),
        ],
    );
    let works = works.tools(gated("gate", &gate)).build().unwrap();
    let child = helper(
        "helper",
        [
            MockReply::calls([("h1", "ask", json!({}))]),
            tasks([("k1", "subagent__asks"), ("k2", "subagent__works")]),
            MockReply::text("Helped."),
        ],
    );
    let child = child
        .tools(browser("ask"))
        .tools(Tool::sub_agent(&asks))
        .tools(Tool::sub_agent(&works));
    let replies = [tasks([("c1", "subagent__helper")]), MockReply::text("done")];
    let agent = agent(replies).tools(Tool::sub_agent(&child.build().unwrap()));
    on.turn(&agent.build().unwrap(), "go").await;
    on.answered(on.waiting("h1").await.result("yes")).await;
    gate.reached(1).await;
    let is_its_pause = |told: &ChunkPayload| match told {
        ChunkPayload::RunPaused { tool_call_ids, .. } => {
            tool_call_ids.iter().any(|id| id.as_str() == "g1")
        }
        _ => false,
    };
    on.until("the pause of a sub-agent", is_its_pause).await;
    assert_eq!(on.stream_status().await, Some(StreamStatus::Active));
    gate.open();
    on.stream_comes_to(StreamStatus::Paused).await;
}

/// The session of a sub-agent takes no messages of users: it works for its caller alone.
///
/// proves in part: SES-12
pub async fn the_session_of_a_sub_agent_takes_no_messages(on: &RuntimeSubject) {
    let child = helper(
        "helper",
        [MockReply::text("Helped."), MockReply::text("Never.")],
    );
    let child = child.build().unwrap();
    let replies = [tasks([("c1", "subagent__helper")]), MockReply::text("done")];
    let agent = agent(replies).tools(Tool::sub_agent(&child)).build();
    on.turn(&agent.unwrap(), "go").await;
    let below = on.only_child(&session()).await.state.session_id;
    let refused = on.runtime.send(&child, &below, "Help me, too.").await;
    let refused = refused.expect_err("it was sent").to_string();
    assert!(refused.contains("works for another session"), "{refused}");
    let run = on.only_child(&session()).await.run.expect("it ran");
    assert_eq!(run.turn, 1);
}

/// A turn that is begun again has no children of its first attempt; they were stopped.
///
/// proves: SUB-05
pub async fn a_turn_that_is_begun_again_has_no_old_children(on: &RuntimeSubject) {
    on.turn(&waiting_caller(), "go").await;
    let child = on.only_child(&session()).await.state.session_id;
    let root = session();
    on.runtime.abort(&root).await.unwrap();
    on.comes_to(&root, RunStatus::Failed).await;
    on.comes_to(&child, RunStatus::Failed).await;
    let run = on.retried().await;
    assert_eq!(run.status, RunStatus::Completed);
    assert_eq!(on.transcript_lines().await, ["user: go", "assistant: done"]);
    assert!(on.children(&root).await.is_empty());
    assert!(on.pending().await.is_empty());
}

/// Two children whose models name their calls alike wait for two different calls, and each gets its own answer.
///
/// proves: SUB-03, SUS-07
pub async fn calls_of_two_children_with_one_id_are_told_apart(on: &RuntimeSubject) {
    let child = |name: &str| {
        let script = json!({ "default": [
            { "tool_calls": [{ "id": "call_0", "name": "ask", "arguments": {} }] },
            { "text": "I heard {{tool_result:ask}}" },
        ] });
        let script = Script::parse(&script.to_string()).unwrap();
        let builder = Agent::builder(name).model(ScriptedModel::new(script));
        builder.tools(browser("ask")).build().unwrap()
    };
    let calls = [("c1", "subagent__one"), ("c2", "subagent__other")];
    let agent = agent([tasks(calls), MockReply::text("done")])
        .tools(Tool::sub_agent(&child("one")))
        .tools(Tool::sub_agent(&child("other")))
        .build();
    let paused = on.turn(&agent.unwrap(), "go").await;
    assert_eq!(paused.status, RunStatus::SuspendedAwaitingChildren);
    let questions = on.pending().await;
    let ids: BTreeSet<_> = questions
        .iter()
        .map(|call| call.tool_call_id.as_str())
        .collect();
    assert_eq!(ids.len(), 2);
    assert_eq!(ids.first(), Some(&"call_0"));
    assert!(ids.last().is_some_and(|id| id.starts_with("call_0_")));
    for question in questions {
        let child = on.child(&question.session_id).await.state.agent_type;
        on.answered(question.result(format!("for {child}"))).await;
    }
    let run = on.resumed().await;
    assert_eq!(run.status, RunStatus::Completed);
    for child in on.children(&session()).await {
        let found = on.child(&child.session_id).await;
        let root = session();
        let key = SessionKey::new(&root, &child.session_id);
        let messages = on.backend().store.messages(key, Page::ALL).await.unwrap();
        let said = format!("{:?}", messages.items);
        let wanted = format!("for {}", found.state.agent_type);
        assert!(said.contains(&wanted), "{wanted} is missing in {said}");
    }
}
