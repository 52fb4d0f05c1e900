//! Calls whose deadline passes, and the run that continues without an answer.

use std::time::Duration;

use helix_agents_core::entries::{Continuation, Entries, Expired};
use helix_agents_core::error::ErrorCode;
use helix_agents_core::session::{RunStatus, Submission};
use helix_agents_core::tool::ToolBuilder;
use helix_agents_core::usage::UsageKind;

use super::super::builders::call;
use super::agents::{Gate, Log, agent, browser, calling, gated, noted};
use super::lines::names;
use super::recording_hooks::RecordingHooks;
use super::subject::{calls, session};
use super::{MockReply, RuntimeSubject};

/// The result of a client's call that timed out.
pub(super) const NOT_ANSWERED: &str =
    r#"{"error":"The client did not answer within the deadline."}"#;

/// The deadline of calls that do not time out by themselves during a case.
const LONG: Duration = Duration::from_secs(3_600);

/// A tool of the client, whose calls have a deadline.
pub(super) fn limited(name: &str) -> ToolBuilder {
    browser(name).deadline(LONG)
}

/// Moves the deadlines of pending calls to this instant, so that they have just passed.
pub(super) async fn let_pass(on: &RuntimeSubject, ids: &[&str]) {
    let now = on.clock.now();
    for id in ids {
        let mut pending = on.waiting(id).await;
        assert!(pending.deadline > Some(now), "the tool has a deadline");
        pending.deadline = Some(now);
        on.put_pending(pending).await;
    }
}

/// Times out the calls of the session, as any process does that finds them.
pub(super) async fn expire(on: &RuntimeSubject) -> Expired {
    let backend = on.backend();
    let entries = Entries::new(
        backend.store.clone(),
        backend.streams.clone(),
        on.clock.clone(),
        on.runtime.ids().clone(),
    );
    entries.expire(session().as_root()).await.unwrap()
}

/// A call that nobody answers times out: the model reads so, readers are told, and the wait and the failure
/// are recorded.
///
/// proves: CLT-03
pub async fn a_call_times_out_at_its_deadline(on: &RuntimeSubject) {
    let replies = [calling([("c1", "browser")]), MockReply::text("done")];
    let agent = agent(replies).tools(limited("browser")).build().unwrap();
    on.turn(&agent, "go").await;
    let early = expire(on).await;
    assert_eq!(early.calls, [], "there is time left");
    on.refuses(ErrorCode::SessionAwaitingAnswers, async || {
        on.try_resume().await
    })
    .await;
    let_pass(on, &["c1"]).await;
    let expired = expire(&on.restarted().await).await;
    assert_eq!(expired.calls, calls(&["c1"]));
    assert_eq!(expired.continuation, Continuation::CallerResumes);
    assert_eq!(on.resumed().await.status, RunStatus::Completed);
    assert_eq!(
        on.transcript_lines().await[2..],
        [
            format!("c1=timed_out: {NOT_ANSWERED}"),
            "assistant: done".to_owned()
        ]
    );
    let told = names(&on.payloads().await);
    assert!(told.contains(&"tool_error c1".to_owned()), "{told:?}");
    let usage = on.usage().await.into_iter().map(|entry| entry.kind);
    let (waits, tools): (Vec<_>, Vec<_>) = usage
        .filter(|kind| !matches!(kind, UsageKind::Tokens { .. }))
        .partition(|kind| matches!(kind, UsageKind::ClientToolWaitMs { .. }));
    assert_eq!(waits.len(), 1, "{waits:?}");
    assert!(
        matches!(&tools[..], [UsageKind::Tool { success: false, .. }]),
        "{tools:?}"
    );
    let state = on.snapshot().await.state;
    assert!(state.pending_client_tool_calls.is_empty());
    assert!(state.client_tool_call_ownership.is_empty());
}

/// Timing out a second time does nothing.
pub async fn a_call_times_out_once(on: &RuntimeSubject) {
    let replies = [calling([("c1", "browser")]), MockReply::text("done")];
    let agent = agent(replies).tools(limited("browser")).build().unwrap();
    on.turn(&agent, "go").await;
    let_pass(on, &["c1"]).await;
    expire(on).await;
    let before = on.everything().await;
    assert_eq!(expire(&on.restarted().await).await.calls, []);
    assert_eq!(on.everything().await, before);
    on.resumed().await;
    let before = on.everything().await;
    assert_eq!(expire(on).await.calls, []);
    assert_eq!(on.everything().await, before);
}

/// A session whose open calls are all overdue is resumed: they time out with the resume.
pub async fn a_resume_takes_overdue_calls_as_timed_out(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [
        calling([("c1", "browser"), ("c2", "browser"), ("c3", "pay")]),
        MockReply::text("done"),
    ];
    let pay = noted("pay", &log).approval().deadline(LONG);
    let agent = agent(replies).tools([limited("browser"), pay]);
    let agent = agent.build().unwrap();
    on.turn(&agent, "go").await;
    on.answered(on.waiting("c2").await.result("here")).await;
    let_pass(on, &["c1"]).await;
    let code = ErrorCode::SessionAwaitingAnswers;
    on.refuses(code, async || on.try_resume().await).await;
    let_pass(on, &["c3"]).await;
    assert_eq!(on.resumed().await.status, RunStatus::Completed);
    assert_eq!(
        on.transcript_lines().await[2..5],
        [
            format!("c1=timed_out: {NOT_ANSWERED}"),
            "c2=success: here".to_owned(),
            r#"c3=timed_out: {"error":"Nobody decided on this call before its deadline; it was not executed."}"#
                .to_owned(),
        ]
    );
    assert_eq!(log.take(), [""; 0]);
}

/// The timeout of one call leaves the others open.
pub async fn a_timeout_leaves_other_calls_open(on: &RuntimeSubject) {
    let replies = [
        calling([("c1", "browser"), ("c2", "browser")]),
        MockReply::text("done"),
    ];
    let agent = agent(replies).tools(limited("browser")).build().unwrap();
    on.turn(&agent, "go").await;
    let_pass(on, &["c1"]).await;
    let expired = expire(on).await;
    assert_eq!(expired.calls, calls(&["c1"]));
    assert_eq!(expired.continuation, Continuation::None);
    on.refuses(ErrorCode::SessionAwaitingAnswers, async || {
        on.try_resume().await
    })
    .await;
    let last = on.answered(on.waiting("c2").await.result("here")).await;
    assert_eq!(last.continuation, Continuation::CallerResumes);
    on.resumed().await;
    assert_eq!(
        on.transcript_lines().await[2..4],
        [
            format!("c1=timed_out: {NOT_ANSWERED}"),
            "c2=success: here".to_owned()
        ]
    );
}

/// A run that is about to pause for a call whose deadline has passed takes the timeout instead, whether or not
/// it was recorded before, and goes on.
pub async fn a_run_about_to_pause_takes_a_timeout(on: &RuntimeSubject) {
    let gate = Gate::default();
    let replies = [
        calling([("c1", "gated"), ("c2", "browser"), ("c3", "browser")]),
        MockReply::text("done"),
    ];
    let tools = [gated("gated", &gate), limited("browser")];
    let agent = agent(replies).tools(tools).build().unwrap();
    let run = on.start(&agent, "go").await;
    gate.reached(1).await;
    let_pass(on, &["c2"]).await;
    let expired = expire(on).await;
    assert_eq!(expired.calls, calls(&["c2"]));
    assert_eq!(expired.continuation, Continuation::None, "the run takes it");
    let_pass(on, &["c3"]).await;
    gate.open();
    let ended = on.ended(&run).await;
    assert_eq!(ended.status, RunStatus::Completed);
    assert_eq!(on.runs().await, [ended]);
    assert_eq!(
        on.transcript_lines().await[2..5],
        [
            "c1=success: done".to_owned(),
            format!("c2=timed_out: {NOT_ANSWERED}"),
            format!("c3=timed_out: {NOT_ANSWERED}"),
        ]
    );
}

/// Hooks see the message and the end of a call that timed out, and why its run goes on.
///
/// proves: HKS-01, SUS-08
pub async fn hooks_see_a_timeout(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [
        calling([("c1", "browser"), ("c2", "pay")]),
        MockReply::text("done"),
    ];
    let pay = noted("pay", &Log::default()).approval().deadline(LONG);
    let agent = agent(replies)
        .tools([limited("browser"), pay])
        .hooks(RecordingHooks::new(&log))
        .build()
        .unwrap();
    on.turn(&agent, "go").await;
    let_pass(on, &["c1", "c2"]).await;
    expire(on).await;
    log.take();
    on.resumed().await;
    let lines = log.take();
    assert_eq!(
        lines[..6],
        [
            "resumed Timeout [c1, c2]",
            "on_message assistant",
            "on_message c1",
            "after_tool c1 TimedOut",
            "on_message c2",
            "after_tool c2 TimedOut",
        ],
        "{lines:?}"
    );
}

/// Nobody can submit a timeout: not for a call that is open, nor for one that never was.
pub async fn a_timeout_cannot_be_submitted(on: &RuntimeSubject) {
    let replies = [calling([("c1", "browser")]), MockReply::text("done")];
    let agent = agent(replies).tools(limited("browser")).build().unwrap();
    on.turn(&agent, "go").await;
    let forge = async |id: &str| {
        let tool_call_id = call(id);
        let mut answer = on.waiting("c1").await.result(1);
        answer.submission = Submission::Expired { tool_call_id };
        on.refuses(ErrorCode::ValidationError, async || on.submit(answer).await)
            .await;
    };
    forge("c1").await;
    forge("never").await;
    let_pass(on, &["c1"]).await;
    forge("c1").await;
}

/// An operator gives a stuck call up, whatever it waits for, from another process while its run is paused.
///
/// proves: CLT-07
pub async fn an_operator_gives_stuck_calls_up(on: &RuntimeSubject) {
    let log = Log::default();
    let replies = [
        calling([("c1", "browser"), ("c2", "pay")]),
        MockReply::text("done"),
    ];
    let tools = [browser("browser"), noted("pay", &log).approval()];
    let agent = agent(replies).tools(tools).build().unwrap();
    on.turn(&agent, "go").await;
    let operator = on.restarted().await;
    for id in ["c1", "c2"] {
        let answer = operator.waiting(id).await.error("the shop is closed");
        operator.answered(answer.by("operator")).await;
    }
    assert_eq!(operator.resumed().await.status, RunStatus::Completed);
    assert_eq!(log.take(), [""; 0]);
    assert_eq!(
        on.transcript_lines().await[2..4],
        [
            r#"c1=error: {"error":"the shop is closed"}"#,
            r#"c2=not_executed: {"error":"Not executed: the shop is closed"}"#,
        ]
    );
}
