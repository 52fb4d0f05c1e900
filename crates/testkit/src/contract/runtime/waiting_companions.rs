//! Persistent sub-agents that wait for somebody, and those that are ended.

use helix_agents_core::SessionId;
use helix_agents_core::agent::Agent;
use helix_agents_core::entries::{DoubleTexting, ResumeMode};
use helix_agents_core::runtime::{RuntimeExt, Turn};
use helix_agents_core::session::{ChildStatus, RunStatus, StopKind, SubmissionOutcome};
use helix_agents_core::store::{Lookup, Page, SessionKey, Sessions};
use helix_agents_core::stream::StreamStatus;
use helix_agents_core::tool::{PersistentAgent, Tool};
use serde_json::json;

use super::agents::{Gate, agent, browser, gated};
use super::companions::{ask, message, spawn, worker};
use super::delegating::{helper, tasks};
use super::subject::session;
use super::{MockReply, RuntimeSubject};

/// An agent that asks the client, and then says so.
fn asking(name: &str) -> Agent {
    let replies = [
        MockReply::calls([("a1", "ask", json!({}))]),
        MockReply::text("Asked."),
        MockReply::text("Again."),
    ];
    helper(name, replies).tools(browser("ask")).build().unwrap()
}

impl RuntimeSubject {
    /// The runs of a session: turn and status.
    pub(super) async fn runs_of(&self, of: &SessionId) -> Vec<(u32, RunStatus)> {
        let root = session();
        let key = SessionKey::new(&root, of);
        let all = self.backend().store.runs(key, Lookup::Page(Page::ALL));
        let all = all.await.unwrap().items.into_iter();
        all.map(|run| (run.turn, run.status)).collect()
    }
}

/// A blocking companion that waits for the client makes its caller wait. The answer goes to the root.
///
/// proves: PER-05, SUB-03, SUS-07
pub async fn a_blocking_companion_that_waits_pauses_its_caller(on: &RuntimeSubject) {
    let replies = [
        spawn("c1", "writer", "anna"),
        message("c2", "anna", "Once more."),
        MockReply::text("done"),
    ];
    let agent = agent(replies)
        .persistent_agents([PersistentAgent::blocking(&asking("writer"))])
        .build()
        .unwrap();
    let paused = on.turn(&agent, "go").await;
    assert_eq!(paused.status, RunStatus::SuspendedAwaitingChildren);
    let link = on.companion("anna").await;
    assert_eq!(link.status, ChildStatus::Suspended);
    let question = on.waiting("a1").await;
    assert_eq!(question.session_id, link.session_id);
    assert_eq!(question.root_session_id, session());
    on.answered(question.result("yes")).await;
    let run = on.restarted().await.resumed().await;
    assert_eq!(run.status, RunStatus::Completed);
    assert_eq!(on.result_of("c1").await["output"], "Asked.");
    assert_eq!(on.result_of("c2").await["output"], "Again.");
    let wanted = [
        (1, RunStatus::SuspendedClientTool),
        (1, RunStatus::Completed),
        (2, RunStatus::Completed),
    ];
    assert_eq!(on.runs_of(&link.session_id).await, wanted);
}

/// A non-blocking companion that waits for the client is reported as suspended, takes no message, and goes on by
/// itself when the answer comes to the root, whose turn is over.
///
/// proves: PER-05, SUS-07
pub async fn a_non_blocking_companion_that_waits_is_answered_at_the_root(on: &RuntimeSubject) {
    let on = &on.auto_continuing().await;
    let rest = Gate::default();
    let replies = [
        spawn("c1", "scout", "anna"),
        MockReply::calls([("c2", "rest", json!({}))]),
        ask("c3", "getChildStatus", "anna"),
        message("c4", "anna", "Hurry."),
        MockReply::text("done"),
    ];
    let agent = agent(replies)
        .tools(gated("rest", &rest))
        .persistent_agents([PersistentAgent::non_blocking(&asking("scout"))])
        .build()
        .unwrap();
    let run = on.start(&agent, "go").await;
    rest.reached(1).await;
    let link = on.companion("anna").await;
    on.comes_to(&link.session_id, RunStatus::SuspendedClientTool)
        .await;
    rest.open();
    let run = on.ended(&run).await;
    assert_eq!(run.status, RunStatus::Completed);
    let report = on.result_of("c3").await;
    assert_eq!(report["status"], "suspended");
    assert_eq!(report["waitsFor"][0]["toolName"], "ask");
    let refused = on.error_of("c4").await;
    assert!(refused.contains("waits for an answer"), "{refused}");

    let question = on.waiting("a1").await;
    let submitted = on.answered(question.result("yes")).await;
    assert_eq!(submitted.owner, link.session_id);
    on.comes_to(&link.session_id, RunStatus::Completed).await;
    let lines = on.transcript_lines().await;
    let notice = "hidden: The agent named anna has completed. Its output: Asked.";
    assert_eq!(lines.last().map(String::as_str), Some(notice));
    assert_eq!(on.runs().await.len(), 1, "the caller is not started again");
    assert_eq!(on.stream_status().await, Some(StreamStatus::Ended));
}

/// What a companion does is ended; it keeps its memory and can be asked again.
///
/// proves: PER-02, PER-04
pub async fn a_companion_at_work_is_ended(on: &RuntimeSubject) {
    let (work, rest) = (Gate::default(), Gate::default());
    let scout = worker("scout", &work, &["Here I am."]);
    let idle = helper("idle", [MockReply::text("Unused.")])
        .build()
        .unwrap();
    let replies = [
        spawn("c1", "scout", "anna"),
        MockReply::calls([("c2", "rest", json!({}))]),
        ask("c3", "terminateChild", "anna"),
        ask("c4", "getChildStatus", "anna"),
        ask("c5", "terminateChild", "anna"),
        message("c6", "anna", "Are you there?"),
        ask("c7", "waitForResult", "anna"),
        MockReply::text("done"),
    ];
    let agent = agent(replies)
        .tools(gated("rest", &rest))
        .persistent_agents([
            PersistentAgent::non_blocking(&scout),
            PersistentAgent::blocking(&idle),
        ])
        .build()
        .unwrap();
    let run = on.start(&agent, "go").await;
    work.reached(1).await;
    rest.open();
    let run = on.ended(&run).await;
    assert_eq!(run.status, RunStatus::Completed);
    for call in ["c3", "c4", "c5"] {
        assert_eq!(on.result_of(call).await["status"], "interrupted", "{call}");
    }
    assert_eq!(on.result_of("c7").await["output"], "Here I am.");
    let link = on.companion("anna").await;
    let wanted = [(1, RunStatus::Interrupted), (2, RunStatus::Completed)];
    assert_eq!(on.runs_of(&link.session_id).await, wanted);
}

/// A companion that waits for the client is ended; its question is taken back.
///
/// proves: PER-02, PER-05
pub async fn a_companion_that_waits_is_ended(on: &RuntimeSubject) {
    let rest = Gate::default();
    let replies = [
        spawn("c1", "scout", "anna"),
        MockReply::calls([("c2", "rest", json!({}))]),
        ask("c3", "terminateChild", "anna"),
        MockReply::text("done"),
    ];
    let agent = agent(replies)
        .tools(gated("rest", &rest))
        .persistent_agents([PersistentAgent::non_blocking(&asking("scout"))])
        .build()
        .unwrap();
    let run = on.start(&agent, "go").await;
    rest.reached(1).await;
    let link = on.companion("anna").await;
    on.comes_to(&link.session_id, RunStatus::SuspendedClientTool)
        .await;
    let question = on.waiting("a1").await;
    rest.open();
    on.ended(&run).await;
    assert_eq!(on.result_of("c3").await["status"], "interrupted");
    assert!(on.pending().await.is_empty());
    let late = on.submit(question.result("yes")).await.unwrap();
    assert_eq!(late.outcome, SubmissionOutcome::UnknownToolCall);
    let wanted = [(1, RunStatus::Interrupted)];
    assert_eq!(on.runs_of(&link.session_id).await, wanted);
    assert_eq!(on.companion("anna").await.status, ChildStatus::Interrupted);
}

/// A stop of a run reaches the companions that work beside it.
///
/// proves: SUB-05
pub async fn a_stop_reaches_companions(on: &RuntimeSubject) {
    let (work, rest) = (Gate::default(), Gate::default());
    let scout = worker("scout", &work, &["Never."]);
    let replies = [
        spawn("c1", "scout", "anna"),
        MockReply::calls([("c2", "rest", json!({}))]),
        MockReply::text("never"),
    ];
    let agent = agent(replies)
        .tools(gated("rest", &rest))
        .persistent_agents([PersistentAgent::non_blocking(&scout)])
        .build()
        .unwrap();
    let run = on.start(&agent, "go").await;
    rest.reached(1).await;
    work.reached(1).await;
    let sessions = Sessions::new(on.backend().store.as_ref(), on.clock.as_ref());
    let root = session();
    let stopped = sessions.request_stop(&root, StopKind::Interrupt, None);
    assert_eq!(stopped.await.unwrap(), Some(run.run_id.clone()));
    let run = on.ended(&run).await;
    assert_eq!(run.status, RunStatus::Interrupted);
    let link = on.companion("anna").await;
    on.comes_to(&link.session_id, RunStatus::Interrupted).await;
}

/// A stop of a session whose turn is over reaches the companions that still work for it, at any depth.
///
/// proves: SUB-05
pub async fn a_stop_of_a_session_at_rest_reaches_companions(on: &RuntimeSubject) {
    let (work, below) = (Gate::default(), Gate::default());
    let deep = worker("deep", &below, &["Never."]);
    let replies = [
        spawn("w0", "deep", "carl"),
        MockReply::calls([("w1", "work", json!({}))]),
        MockReply::text("Never."),
    ];
    let scout = helper("scout", replies)
        .tools(gated("work", &work))
        .persistent_agents([PersistentAgent::non_blocking(&deep)])
        .build()
        .unwrap();
    let replies = [spawn("c1", "scout", "anna"), MockReply::text("done")];
    let agent = agent(replies)
        .persistent_agents([PersistentAgent::non_blocking(&scout)])
        .build()
        .unwrap();
    let run = on.turn(&agent, "go").await;
    assert_eq!(run.status, RunStatus::Completed);
    work.reached(1).await;
    below.reached(1).await;
    let link = on.companion("anna").await;
    let deeper = on.children(&link.session_id).await[0].session_id.clone();
    let at_work = on.child(&link.session_id).await.run.unwrap();
    let root = session();
    let sessions = Sessions::new(on.backend().store.as_ref(), on.clock.as_ref());
    let flagged = sessions.set_interrupt_flag(&root, None).await.unwrap();
    assert!(!flagged, "the flag is for a running run");
    let asked = on.runtime.interrupt(&root).await.unwrap();
    assert_eq!(asked, Some(at_work.id), "the run that was asked");
    on.comes_to(&link.session_id, RunStatus::Interrupted).await;
    on.comes_to(&deeper, RunStatus::Interrupted).await;
    let lines = on.transcript_lines().await;
    let notice = "hidden: The agent named anna was stopped before it was done.";
    assert_eq!(lines.last().map(String::as_str), Some(notice));
    assert_eq!(on.runs().await.len(), 1, "the session rests");
    let asked = on.runtime.interrupt(&root).await.unwrap();
    assert_eq!(asked, None, "nobody works any more");
}

/// A stop of a session whose turn is over ends the companions that wait for somebody.
///
/// proves in part: SUB-05
pub async fn a_stop_of_a_session_at_rest_ends_companions_that_wait(on: &RuntimeSubject) {
    let replies = [spawn("c1", "scout", "anna"), MockReply::text("done")];
    let agent = agent(replies)
        .persistent_agents([PersistentAgent::non_blocking(&asking("scout"))])
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    let link = on.companion("anna").await;
    on.comes_to(&link.session_id, RunStatus::SuspendedClientTool)
        .await;
    let asked = on.runtime.abort(&session()).await.unwrap();
    assert!(asked.is_some(), "a companion waits");
    on.comes_to(&link.session_id, RunStatus::Failed).await;
    assert!(on.pending().await.is_empty());
}

/// A message to a session interrupts its turn and the sub-agent for which that waits. A companion for which nobody
/// waits works on.
///
/// proves in part: SUB-05, PER-03
pub async fn a_message_leaves_companions_at_work(on: &RuntimeSubject) {
    let (work, help) = (Gate::default(), Gate::default());
    let scout = worker("scout", &work, &["It is there."]);
    let one = worker("helper", &help, &["Never."]);
    let replies = [
        spawn("c1", "scout", "anna"),
        tasks([("c2", "subagent__helper")]),
        MockReply::text("instead"),
    ];
    let agent = agent(replies)
        .tools(Tool::sub_agent(&one))
        .persistent_agents([PersistentAgent::non_blocking(&scout)])
        .build()
        .unwrap();
    let run = on.start(&agent, "go").await;
    work.reached(1).await;
    help.reached(1).await;
    let turn = Turn::new("Never mind.").double_texting(DoubleTexting::Interrupt);
    on.runtime.send(&agent, session(), turn).await.unwrap();
    assert_eq!(on.ended(&run).await.status, RunStatus::Interrupted);
    let all = on.children(&session()).await;
    let helper = all.iter().find(|child| child.name.is_none()).unwrap();
    on.comes_to(&helper.session_id, RunStatus::Interrupted)
        .await;
    let link = on.companion("anna").await;
    assert_eq!(on.child(&link.session_id).await.stop, None);
    work.open();
    on.comes_to(&link.session_id, RunStatus::Completed).await;
    on.comes_to_another(&session(), &run.run_id, RunStatus::Completed)
        .await;
    let lines = on.transcript_lines().await;
    let answer = "assistant: instead".to_owned();
    assert!(lines.contains(&answer), "{lines:#?}");
}

/// A session that goes back to before a companion was started stops it and knows it no longer: its name is free.
///
/// proves: SUB-05, PER-01
pub async fn a_companion_is_taken_back_with_its_call(on: &RuntimeSubject) {
    let gate = Gate::default();
    let scout = worker("scout", &gate, &["Never.", "Again."]);
    let replies = [
        MockReply::calls([("c1", "rest", json!({}))]),
        spawn("c2", "scout", "anna"),
        MockReply::text("one"),
        ask("c3", "getChildStatus", "anna"),
        MockReply::text("two"),
    ];
    let rest = Gate::default();
    rest.open();
    let agent = agent(replies)
        .tools(gated("rest", &rest))
        .persistent_agents([PersistentAgent::non_blocking(&scout)])
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    gate.reached(1).await;
    let child = on.companion("anna").await.session_id;
    let all = on.checkpoints().await;
    let first = all[0].id.clone();
    let run = on.resumed_as(ResumeMode::FromCheckpoint(first)).await;
    assert_eq!(run.status, RunStatus::Completed);
    on.comes_to(&child, RunStatus::Interrupted).await;
    assert!(on.children(&session()).await.is_empty());
    let unknown = on.error_of("c3").await;
    assert!(unknown.contains("you have started none"), "{unknown}");
}

/// A deleted session takes its companions with it, also one at work.
///
/// proves: SES-13
pub async fn companions_are_deleted_with_their_caller(on: &RuntimeSubject) {
    let gate = Gate::default();
    let scout = worker("scout", &gate, &["Never."]);
    let replies = [spawn("c1", "scout", "anna"), MockReply::text("done")];
    let agent = agent(replies)
        .persistent_agents([PersistentAgent::non_blocking(&scout)])
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    gate.reached(1).await;
    let child = on.companion("anna").await.session_id;
    let (store, clock) = (on.backend().store.as_ref(), on.clock.as_ref());
    let sessions = Sessions::new(store, clock);
    sessions.delete_session(&session()).await.unwrap();
    assert!(store.find(&child).await.unwrap().is_none());
    gate.open();
}
