//! Messages that are sent while a run is in progress, or while calls wait for an answer.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::RunId;
use helix_agents_core::agent::Agent;
use helix_agents_core::agent::AnyAgent;
use helix_agents_core::entries::{
    DoubleTexting, Entered, Entries, EntryError, ExecuteRequest, ExpectedSession,
};
use helix_agents_core::error::{Coded, ErrorCode};
use helix_agents_core::machine::{Effect, Event};
use helix_agents_core::message::{Message, ResultStatus, UserMessage};
use helix_agents_core::model::{Model, ModelEvent};
use helix_agents_core::perform::{Attempt, PerformError, perform};
use helix_agents_core::session::{RunStatus, RunTrigger, StopKind, SubmissionOutcome};
use helix_agents_core::store::{Change, Commit, DueKind, DueQuery, Page};
use helix_agents_core::stream::ChunkPayload;
use serde_json::json;

use super::super::Subject;
use super::super::builders::call;
use super::super::runner::in_time;
use super::super::runtime::agents::{Log, browser, calling, noted, of_model};
use super::cut_short::{Hanging, half_a_reply};
use super::faulty_store::{CommitFate, FaultyStore};
use super::run_driver::{RunDriver, answer, performer, session_id, under_way};
use crate::{MockModel, MockReply};

/// A message for the session of the run, under a rule.
fn says(text: &str, rule: DoubleTexting) -> ExecuteRequest {
    let message = UserMessage::new(text);
    ExecuteRequest::by_name("agent", vec![message])
        .in_session(session_id())
        .expecting(ExpectedSession::Existing)
        .double_texting(rule)
}

async fn waiting(entries: &Entries, request: ExecuteRequest) -> RunId {
    match entries.send(request, &performer()).await.unwrap() {
        Entered::Waits(waiting) => waiting.run,
        Entered::Run(state) => panic!("the message started run {}", state.run_id),
    }
}

async fn started(entries: &Entries, request: ExecuteRequest) -> RunId {
    match entries.send(request, &performer()).await.unwrap() {
        Entered::Run(state) => state.run_id,
        Entered::Waits(waiting) => panic!("the message waits for run {}", waiting.run),
    }
}

/// The agent of the run.
fn agent_of(driver: &RunDriver) -> AnyAgent {
    let agent = driver.ports.agents.get(&driver.state.agent_type);
    agent.expect("it is registered")
}

/// Starts the run that messages wait for, and returns its id.
async fn deliver(driver: &mut RunDriver) -> RunId {
    let agent = agent_of(driver);
    let state = driver
        .entries
        .deliver(&agent, &session_id(), &performer())
        .await;
    driver.state = state.unwrap();
    driver.state.run_id.clone()
}

/// The messages of the history in short: who says what.
async fn history(driver: &RunDriver) -> Vec<String> {
    let messages = driver.messages().await.into_iter();
    let short = messages.map(|message| match message {
        Message::User(user) => format!("user: {}", user.content),
        Message::Assistant(reply) => format!("model: {}", reply.content().unwrap_or_default()),
        Message::Tool(result) => format!("{}: {:?}", result.tool_call_id, result.status),
        other => format!("{other:?}"),
    });
    short.collect()
}

/// A run whose model has said something and hangs, and the effect that asks it.
async fn hanging(on: &Subject) -> (RunDriver, Vec<Effect>) {
    let said: Vec<ModelEvent> = half_a_reply().into_iter().skip(2).take(1).collect();
    let model = Arc::new(Hanging(said)) as Arc<dyn Model>;
    let agent = Agent::builder("agent").model(model).build().unwrap();
    let mut driver = RunDriver::new(on, agent).await;
    let effects = driver.begin();
    (driver, effects)
}

/// Sends these messages while the model call is in progress, and lets the run end.
async fn beside_a_model_call(
    driver: &mut RunDriver,
    effects: &[Effect],
    requests: impl IntoIterator<Item = ExecuteRequest>,
) -> Vec<RunId> {
    let ports = driver.ports.clone();
    let mut asking = Box::pin(perform(&effects[0], Attempt::First, &ports));
    under_way(&mut asking);
    let mut runs = Vec::new();
    for request in requests {
        runs.push(waiting(&driver.entries, request).await);
    }
    let event: Result<Event, PerformError> = in_time("a message ends a model call", asking).await;
    let effects = driver.feed(event.unwrap());
    driver.through(effects).await;
    runs
}

/// A message interrupts the run: what the model has said is kept, and the run that takes the message has
/// the id that its sender was told.
///
/// proves in part: SES-06
pub async fn a_message_interrupts_the_run_in_progress(on: &Subject) {
    let (mut driver, effects) = hanging(on).await;
    let message = says("Stop, do this.", DoubleTexting::Interrupt);
    let runs = beside_a_model_call(&mut driver, &effects, [message]).await;
    assert_eq!(driver.run().await.status, RunStatus::Interrupted);
    assert!(driver.state.messages_wait, "whoever drives it is told");
    assert_eq!(deliver(&mut driver).await, runs[0]);
    let run = driver.run().await;
    assert_eq!((run.trigger, run.turn), (RunTrigger::WithMessage, 2));
    let wanted = ["user: go", "model: I will ", "user: Stop, do this."];
    assert_eq!(history(&driver).await, wanted);
    assert_eq!(driver.found().await.inbox, []);
}

/// Messages that wait for the end of a run enter the next one together, in their order. All senders are
/// told the same run.
pub async fn messages_that_wait_enter_one_run(on: &Subject) {
    let model = Arc::new(MockModel::replies([
        calling([("c1", "charge")]),
        MockReply::text("Done."),
    ]));
    let log = Log::default();
    let agent = of_model(&model).tools(noted("charge", &log));
    let mut driver = RunDriver::new(on, agent.build().unwrap()).await;
    let effects = driver.begin();
    let mut one = says("One.", DoubleTexting::Queue).with_tags(vec!["late".to_owned()]);
    one.expires_after = Some(Duration::from_secs(60));
    let first = waiting(&driver.entries, one).await;
    let session = driver.found().await.state;
    assert!(
        session.expires_at.is_some(),
        "what belongs to the session is set at once"
    );
    assert_eq!(session.tags, ["late"]);
    let effects = driver.next(&effects).await;
    let second = waiting(&driver.entries, says("Two.", DoubleTexting::Queue)).await;
    driver.through(effects).await;
    assert_eq!(driver.run().await.status, RunStatus::Completed);
    assert!(driver.state.messages_wait, "whoever drives it is told");
    let due = DueQuery::at(on.now()).of_kinds([DueKind::Inbox]);
    assert_eq!(on.store.due(&due).await.unwrap().items.len(), 1);
    let delivered = deliver(&mut driver).await;
    assert_eq!((&first, &second), (&delivered, &delivered));
    let said = history(&driver).await;
    assert_eq!(said[said.len() - 2..], ["user: One.", "user: Two."]);
    assert_eq!(on.store.due(&due).await.unwrap().items, []);
    let again = driver
        .entries
        .deliver(&agent_of(&driver), &session_id(), &performer())
        .await;
    assert!(
        matches!(
            again,
            Err(EntryError::AlreadyRunning { .. } | EntryError::NothingWaits { .. })
        ),
        "{again:?}"
    );
}

/// A message that the rule refuses leaves nothing behind.
pub async fn a_rejected_message_leaves_nothing(on: &Subject) {
    let model = Arc::new(MockModel::replies([MockReply::text("Done.")]));
    let mut driver = RunDriver::new(on, of_model(&model).build().unwrap()).await;
    let before = driver.found().await;
    let message = says("And?", DoubleTexting::Reject);
    let refused = driver.entries.send(message, &performer()).await;
    assert!(
        matches!(refused, Err(EntryError::AlreadyRunning { .. })),
        "{refused:?}"
    );
    let with_state = says("And?", DoubleTexting::Queue).with_state(json!({ "n": 1 }));
    let refused = driver.entries.send(with_state, &performer()).await;
    assert_eq!(refused.unwrap_err().code(), ErrorCode::SessionRunning);
    assert_eq!(driver.found().await, before);
    driver.drive().await;
    assert_eq!(driver.run().await.status, RunStatus::Completed);
}

/// The run ends between the read and the commit of a message: the message starts the next turn itself.
pub async fn a_message_beside_the_end_of_a_run_starts_a_turn(on: &Subject) {
    for rule in [DoubleTexting::Interrupt, DoubleTexting::Queue] {
        let model = Arc::new(MockModel::replies([MockReply::text("Done.")]));
        let mut driver = RunDriver::new(on, of_model(&model).build().unwrap()).await;
        let read = driver.found().await;
        driver.drive().await;
        let message = says("And?", rule).as_read(Some(read));
        let run = started(&driver.entries, message).await;
        assert_eq!(driver.run().await.id, run);
        let wanted = ["user: go", "model: Done.", "user: And?"];
        assert_eq!(history(&driver).await, wanted);
        let sessions = driver.on.sessions();
        sessions.delete_session(&session_id()).await.unwrap();
    }
}

fn adds_to_the_inbox(commit: &Commit) -> bool {
    let mut changes = commit.changes.iter();
    changes.any(|(_, change)| matches!(change, Change::Inbox(_)))
}

/// The acknowledgement of a message that waits is lost: it waits once, and its sender is told its run, also
/// when that run has started meanwhile.
pub async fn a_message_whose_acknowledgement_is_lost_waits_once(on: &Subject) {
    for is_delivered in [false, true] {
        let model = Arc::new(MockModel::replies([MockReply::text("Done.")]));
        let mut driver = RunDriver::new(on, of_model(&model).build().unwrap()).await;
        let (healthy, state) = (driver.entries.clone(), driver.state.clone());
        let (facts, ports) = (driver.limits(), driver.ports.clone());
        let agent = agent_of(&driver);
        let store = FaultyStore::new(on, move |commit| {
            if !adds_to_the_inbox(commit) {
                return CommitFate::Made;
            }
            if !is_delivered {
                return CommitFate::Unacknowledged;
            }
            let (healthy, state) = (healthy.clone(), state.clone());
            let (facts, ports, agent) = (facts.clone(), ports.clone(), agent.clone());
            CommitFate::UnacknowledgedAfter(Box::pin(async move {
                crate::drive(&facts, state, &ports).await.unwrap();
                let (session, performer) = (session_id(), performer());
                let delivered = healthy.deliver(&agent, &session, &performer);
                delivered.await.unwrap();
            }))
        });
        let shared = Arc::new(store);
        let entries = Entries::new(
            shared.clone(),
            shared,
            Arc::clone(&driver.ports.clock),
            Arc::clone(&driver.ports.ids),
        );
        let run = waiting(&entries, says("And?", DoubleTexting::Queue)).await;
        if !is_delivered {
            assert_eq!(driver.found().await.inbox.len(), 1);
            driver.drive().await;
            assert_eq!(deliver(&mut driver).await, run);
        }
        assert_eq!(driver.run().await.id, run);
        let wanted = ["user: go", "model: Done.", "user: And?"];
        assert_eq!(history(&driver).await, wanted);
        let sessions = driver.on.sessions();
        sessions.delete_session(&session_id()).await.unwrap();
    }
}

/// A message was to start the run that another message waits for, and its commit failed, while another caller
/// of the same process started that run without it: its sender is told that it failed.
pub async fn a_message_is_not_taken_by_a_run_that_others_start(on: &Subject) {
    let model = Arc::new(MockModel::replies([MockReply::text("Done.")]));
    let mut driver = RunDriver::new(on, of_model(&model).build().unwrap()).await;
    let run = waiting(&driver.entries, says("One.", DoubleTexting::Queue)).await;
    driver.drive().await;
    let (healthy, agent) = (driver.entries.clone(), agent_of(&driver));
    let store = FaultyStore::new(on, move |_| {
        let (healthy, agent) = (healthy.clone(), agent.clone());
        CommitFate::FailedBefore(Box::pin(async move {
            let (session, performer) = (session_id(), performer());
            let delivered = healthy.deliver(&agent, &session, &performer);
            delivered.await.unwrap();
        }))
    });
    let shared = Arc::new(store);
    let entries = Entries::new(
        shared.clone(),
        shared,
        Arc::clone(&driver.ports.clock),
        Arc::clone(&driver.ports.ids),
    );
    let lost = says("Two.", DoubleTexting::Queue);
    let lost = entries.send(lost, &performer()).await;
    assert!(matches!(lost, Err(EntryError::Store(_))), "{lost:?}");
    assert_eq!(driver.run().await.id, run);
    let said = history(&driver).await;
    assert_eq!(said, ["user: go", "model: Done.", "user: One."]);
}

/// While messages wait for the next run, no other entry comes before it.
pub async fn waiting_messages_come_before_other_entries(on: &Subject) {
    let (mut driver, effects) = hanging(on).await;
    let message = says("Stop, do this.", DoubleTexting::Interrupt);
    let runs = beside_a_model_call(&mut driver, &effects, [message]).await;
    let resumed = driver.entries.resume(&session_id(), &performer()).await;
    let other = ExecuteRequest::by_name("agent", vec![UserMessage::new("Hi.")]);
    let other = other.in_session(session_id());
    let executed = driver.entries.execute(other, &performer()).await;
    for refused in [resumed, executed] {
        match refused {
            Err(EntryError::AlreadyRunning { run, .. }) => assert_eq!(run, runs[0]),
            other => panic!("it must be refused: {other:?}"),
        }
    }
    // Another message is taken by the run that the first one waits for.
    let more = says("And that.", DoubleTexting::Queue);
    assert_eq!(started(&driver.entries, more).await, runs[0]);
    let said = history(&driver).await;
    let wanted = ["user: Stop, do this.", "user: And that."];
    assert_eq!(said[said.len() - 2..], wanted);
}

/// A message over pending calls needs the leave to abandon them. Then the answers that came are kept, the
/// other calls are not executed, and the message comes after their results.
pub async fn a_message_abandons_pending_calls(on: &Subject) {
    let log = Log::default();
    let model = Arc::new(MockModel::replies([calling([
        ("q1", "ask"),
        ("q2", "ask"),
        ("p1", "pay"),
    ])]));
    let agent = of_model(&model).tools(browser("ask"));
    let agent = agent.tools(noted("pay", &log).approval()).build().unwrap();
    let mut driver = RunDriver::new(on, agent).await;
    driver.drive().await;
    let paused = driver.run().await;
    let pending = driver.found().await.state.pending_client_tool_calls;
    driver.entries.submit(&answer("q1", "blue")).await.unwrap();
    let agreed = pending[&call("p1")].approve();
    driver.entries.submit(&agreed).await.unwrap();

    let message = || says("Never mind.", DoubleTexting::Interrupt);
    let refused = driver.entries.send(message(), &performer()).await;
    assert!(
        matches!(refused, Err(EntryError::AwaitingAnswers { .. })),
        "{refused:?}"
    );
    started(&driver.entries, message().abandon_pending(true)).await;
    let wanted = [
        "user: go",
        "model: ",
        "q1: Success",
        "q2: NotExecuted",
        "p1: NotExecuted",
        "user: Never mind.",
    ];
    assert_eq!(history(&driver).await, wanted);
    assert_eq!(log.take(), [""; 0]);
    let found = driver.found().await;
    assert!(found.open_step.is_none());
    assert!(found.state.pending_client_tool_calls.is_empty());
    assert!(found.state.client_tool_call_ownership.is_empty());
    assert_eq!(found.state.suspended_step_id, None);
    let runs = on
        .sessions()
        .list_runs(&session_id(), Page::ALL)
        .await
        .unwrap();
    let first = runs.items.iter().find(|run| run.id == paused.id);
    assert_eq!(first.unwrap().status, RunStatus::Interrupted);
    let late = driver.entries.submit(&answer("q2", "red")).await.unwrap();
    assert_eq!(late.outcome, SubmissionOutcome::UnknownToolCall);
    let results = driver.results().await;
    assert_eq!(results[1].status, ResultStatus::NotExecuted);
}

/// A message abandons the calls of a run that was asked to abort: the run fails, as its stopper was told. The
/// step that is closed counts as one of its steps.
pub async fn a_message_over_an_aborted_pause_fails_the_run(on: &Subject) {
    for kind in [StopKind::Abort, StopKind::Interrupt] {
        let model = Arc::new(MockModel::replies([calling([("q1", "ask")])]));
        let agent = of_model(&model).tools(browser("ask")).build().unwrap();
        let mut driver = RunDriver::new(on, agent).await;
        driver.drive().await;
        let before = driver.found().await;
        let sessions = on.sessions();
        let stopped = sessions.request_stop(&session_id(), kind, None).await;
        let stopped = stopped.unwrap().expect("it can be stopped");
        // The sender has read the session before it was asked to stop.
        let message = says("Never mind.", DoubleTexting::Interrupt).as_read(Some(before));
        started(&driver.entries, message.abandon_pending(true)).await;
        let runs = sessions.list_runs(&session_id(), Page::ALL).await.unwrap();
        let run = runs.items.iter().find(|run| run.id == stopped).unwrap();
        let code = run.error.as_ref().map(|error| error.code);
        let wanted = match kind {
            StopKind::Abort => (RunStatus::Failed, Some(ErrorCode::FrameworkCancelled)),
            _ => (RunStatus::Interrupted, None),
        };
        assert_eq!((run.status, code), wanted);
        assert_eq!(run.step_count, 1, "its only step is closed");
        sessions.delete_session(&session_id()).await.unwrap();
    }
}

/// A queued message waits for the end of a turn that is suspended: the calls are answered first.
pub async fn a_queued_message_waits_for_a_suspended_turn(on: &Subject) {
    let model = Arc::new(MockModel::replies([
        calling([("q1", "ask")]),
        MockReply::text("Blue it is."),
    ]));
    let agent = of_model(&model).tools(browser("ask")).build().unwrap();
    let mut driver = RunDriver::new(on, agent).await;
    let effects = driver.begin();
    let run = waiting(&driver.entries, says("And?", DoubleTexting::Queue)).await;
    driver.through(effects).await;
    assert!(driver.run().await.status.is_suspended());
    let due = DueQuery::at(on.now()).of_kinds([DueKind::Inbox]);
    assert_eq!(on.store.due(&due).await.unwrap().items, []);
    let early = driver
        .entries
        .deliver(&agent_of(&driver), &session_id(), &performer())
        .await;
    assert!(
        matches!(early, Err(EntryError::AwaitingAnswers { .. })),
        "{early:?}"
    );
    driver.entries.submit(&answer("q1", "blue")).await.unwrap();
    let resumed = driver.entries.resume(&session_id(), &performer()).await;
    driver.state = resumed.unwrap();
    driver.drive().await;
    assert!(driver.state.messages_wait, "whoever drives it is told");
    assert_eq!(deliver(&mut driver).await, run);
    let said = history(&driver).await;
    assert_eq!(said[said.len() - 2..], ["model: Blue it is.", "user: And?"]);
}

/// The messages that wait in a session are bounded.
pub async fn an_inbox_has_room_for_so_many_messages(on: &Subject) {
    let model = Arc::new(MockModel::replies([MockReply::text("Done.")]));
    let mut driver = RunDriver::new(on, of_model(&model).build().unwrap()).await;
    let long = "x".repeat(700_000);
    waiting(&driver.entries, says(&long, DoubleTexting::Queue)).await;
    let (entries, performer) = (&driver.entries, &performer());
    let refused = entries.send(says(&long, DoubleTexting::Queue), performer);
    let refused = refused.await;
    assert!(
        matches!(refused, Err(EntryError::InboxFull { .. })),
        "{refused:?}"
    );
    for _ in 1..64 {
        waiting(entries, says("And?", DoubleTexting::Queue)).await;
    }
    let refused = entries.send(says("And?", DoubleTexting::Queue), performer);
    assert!(matches!(refused.await, Err(EntryError::InboxFull { .. })));
    driver.drive().await;
    deliver(&mut driver).await;
    assert_eq!(driver.messages().await.len(), 2 + 64);
}

/// A message takes the turn in progress back: its messages, state and chunks are removed, its call ids stay
/// used, and the model is told which calls may have taken effect.
pub async fn a_message_rolls_the_turn_back(on: &Subject) {
    let log = Log::default();
    let model = Arc::new(MockModel::replies([
        MockReply::text("Done."),
        calling([("c1", "charge"), ("p1", "pay")]),
        calling([("c1", "charge")]),
    ]));
    let charge = noted("charge", &log);
    let agent = of_model(&model)
        .tools(charge)
        .tools(noted("pay", &log).approval());
    let mut driver = RunDriver::new(on, agent.build().unwrap()).await;
    driver.drive().await;
    let before = driver.found().await;
    let turn = says("Charge me.", DoubleTexting::Reject).with_state(json!({ "n": 1 }));
    driver.state = match driver.entries.send(turn, &performer()).await.unwrap() {
        Entered::Run(state) => state,
        other @ Entered::Waits(_) => panic!("it starts a run: {other:?}"),
    };
    let effects = driver.begin();
    let effects = driver.next(&effects).await;
    let run = waiting(&driver.entries, says("No, look.", DoubleTexting::Rollback)).await;
    let more = waiting(&driver.entries, says("And that.", DoubleTexting::Queue)).await;
    assert_eq!(run, more);
    driver.through(effects).await;
    assert_eq!(log.take(), ["charge c1 {}"]);
    assert_eq!(driver.run().await.status, RunStatus::Interrupted);
    assert_eq!(deliver(&mut driver).await, run);

    let said = history(&driver).await;
    assert_eq!(said[..2], ["user: go", "model: Done."]);
    assert!(
        said[2].contains("charge (c1)") && !said[2].contains("pay"),
        "{said:?}"
    );
    assert_eq!(said[3..], ["user: No, look.", "user: And that."]);
    let Message::User(note) = &driver.messages().await[2] else {
        panic!("the model is told as by a user");
    };
    assert!(note.is_hidden());
    let found = driver.found().await;
    assert_eq!(found.state.custom_state, before.state.custom_state);
    assert_eq!((found.inbox.len(), found.run.unwrap().turn), (0, 2));
    let told = driver.streamed().await;
    let of_the_turn = |payload: &ChunkPayload| matches!(payload, ChunkPayload::ToolStart { .. });
    assert!(!told.iter().any(of_the_turn), "{told:?}");

    // The same id again is another call.
    let effects = driver.begin();
    driver.next(&effects).await;
    let open = driver.found().await.open_step.unwrap();
    let ids: Vec<_> = open
        .message
        .tool_calls()
        .map(|call| call.id.to_string())
        .collect();
    assert_eq!(ids, ["c1_2"]);
}
