//! Turns that take the place of earlier ones: messages that are edited, or answered once more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use helix_agents_core::agent::AnyAgent;
use helix_agents_core::entries::{
    DoubleTexting, Entered, EntryError, ExecuteRequest, ExpectedSession,
};
use helix_agents_core::error::{Coded, ErrorCode};
use helix_agents_core::message::{Message, UserMessage};
use helix_agents_core::session::RunStatus;
use helix_agents_core::store::{Page, PendingQuery};
use helix_agents_core::{MessageId, SessionId};
use serde_json::json;

use super::super::Subject;
use super::super::runtime::agents::{Log, browser, calling, counting, noted, of_model};
use super::faulty_store::{CommitFate, FaultyStore};
use super::going_back::starts_a_run;
use super::run_driver::{RunDriver, performer, session_id};
use crate::{MockModel, MockReply};

fn id(text: &str) -> MessageId {
    MessageId::new(text).unwrap()
}

/// A message with an id, which interrupts a run and abandons pending calls.
fn says(name: &str, text: &str) -> ExecuteRequest {
    let message = UserMessage::new(text).with_id(id(name));
    ExecuteRequest::by_name("agent", vec![message])
        .in_session(session_id())
        .expecting(ExpectedSession::Existing)
        .double_texting(DoubleTexting::Interrupt)
        .abandon_pending(true)
}

/// The message once more, in the place of what it began.
fn edits(name: &str, text: &str) -> ExecuteRequest {
    says(name, text).editing(id(name))
}

impl RunDriver {
    /// Sends a message that starts a run, and leaves the run at its beginning.
    async fn start(&mut self, request: ExecuteRequest) {
        self.state = match self.entries.send(request, &performer()).await.unwrap() {
            Entered::Run(state) => state,
            Entered::Waits(waiting) => panic!("the message waits for run {}", waiting.run),
        };
    }

    async fn turn(&mut self, request: ExecuteRequest) {
        self.start(request).await;
        self.drive().await;
    }

    async fn deliver_waiting(&mut self) {
        let agent: AnyAgent = self.ports.agents.get(&self.state.agent_type).unwrap();
        let (session, performer) = (session_id(), performer());
        let delivered = self.entries.deliver(&agent, &session, &performer);
        self.state = delivered.await.unwrap();
    }

    /// Who said what; a hidden message in brackets.
    async fn said(&self) -> Vec<String> {
        let messages = self.messages().await.into_iter();
        let short = messages.filter_map(|message| match message {
            Message::User(user) if user.is_hidden() => Some(format!("({})", user.content)),
            Message::User(user) => Some(user.content),
            Message::Assistant(reply) => reply.content(),
            _ => None,
        });
        short.collect()
    }
}

/// A turn takes the place of an earlier one and of all that followed: messages, state and stream go back to before
/// it, its number is that of the turn it replaces, ids of calls stay used, and the model is told which calls may have
/// taken effect.
///
/// proves in part: CHT-11
pub async fn a_turn_takes_the_place_of_an_earlier_one(on: &Subject) {
    let model = Arc::new(MockModel::replies([
        MockReply::text("Hello."),
        calling([("c1", "count")]),
        MockReply::text("One."),
        MockReply::text("Two."),
        calling([("c1", "count")]),
        MockReply::text("Again."),
    ]));
    let agent = of_model(&model)
        .tools(counting("count"))
        .initial_state(json!({ "count": 0 }));
    let mut driver = RunDriver::new(on, agent.build().unwrap()).await;
    driver.drive().await;
    driver.turn(says("m1", "Count.")).await;
    driver.turn(says("m2", "And?")).await;
    assert_eq!(driver.found().await.state.custom_state["count"], 1);

    driver.turn(edits("m1", "Count once more.")).await;
    let said = driver.said().await;
    assert_eq!(said[..2], ["go", "Hello."]);
    assert!(said[2].contains("count (c1)"), "{said:?}");
    assert_eq!(said[3..], ["Count once more.", "Again."]);
    let found = driver.found().await;
    assert_eq!(found.state.custom_state["count"], 1, "counted from 0 again");
    let run = found.run.unwrap();
    assert_eq!((run.status, run.turn), (RunStatus::Completed, 2));
    let calls: Vec<_> = driver.results().await;
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].tool_call_id.as_str(), "c1_2");
    let start = run.turn_start.unwrap();
    assert_eq!((start.messages, start.user_messages), (3, 1));

    // The same message again: it is where the turn begins now.
    let model_left = driver
        .entries
        .send(edits("m2", "Gone."), &performer())
        .await;
    let error = model_left.unwrap_err();
    assert_eq!(error.code(), ErrorCode::StateStale);
    assert_eq!(driver.said().await, said, "nothing is written");
}

/// An edit beside a run interrupts it; when that has ended, everything from the message on is removed before the turn
/// begins.
pub async fn an_edit_beside_a_run_waits_for_its_end(on: &Subject) {
    let log = Log::default();
    let model = Arc::new(MockModel::replies([
        MockReply::text("Hello."),
        MockReply::text("One."),
        calling([("c1", "charge")]),
        MockReply::text("Never said."),
    ]));
    let agent = of_model(&model).tools(noted("charge", &log));
    let mut driver = RunDriver::new(on, agent.build().unwrap()).await;
    driver.drive().await;
    driver.turn(says("m1", "First.")).await;
    driver.start(says("m2", "Charge me.")).await;
    let effects = driver.begin();
    let effects = driver.next(&effects).await;
    let entered = driver
        .entries
        .send(edits("m1", "Not first."), &performer())
        .await;
    assert!(matches!(entered, Ok(Entered::Waits(_))), "{entered:?}");
    driver.through(effects).await;
    assert_eq!(driver.run().await.status, RunStatus::Interrupted);
    assert!(driver.said().await.contains(&"Charge me.".to_owned()));
    driver.deliver_waiting().await;
    let said = driver.said().await;
    assert_eq!(said[..2], ["go", "Hello."]);
    let named = said[2].contains("charge (c1)");
    assert_eq!(named, !log.take().is_empty(), "{said:?}");
    assert_eq!(said.last().unwrap(), "Not first.");
    assert!(!said.contains(&"Charge me.".to_owned()));
    assert_eq!(driver.found().await.inbox, []);
}

/// An edit over a pause ends the run that waits: nothing is pending any more, and an answer finds no call.
pub async fn an_edit_over_pending_calls_ends_their_run(on: &Subject) {
    let model = Arc::new(MockModel::replies([
        MockReply::text("Hello."),
        calling([("q1", "ask")]),
        MockReply::text("Fine."),
    ]));
    let agent = of_model(&model).tools(browser("ask")).build().unwrap();
    let mut driver = RunDriver::new(on, agent).await;
    driver.drive().await;
    driver.turn(says("m1", "Ask me.")).await;
    let paused = driver.run().await;
    assert!(paused.status.is_suspended());
    driver.turn(edits("m1", "Do not ask.")).await;
    assert_eq!(
        driver.said().await,
        ["go", "Hello.", "Do not ask.", "Fine."]
    );
    let runs = on
        .sessions()
        .list_runs(&session_id(), Page::ALL)
        .await
        .unwrap();
    let ended = runs.items.iter().find(|run| run.id == paused.id).unwrap();
    assert_eq!(ended.status, RunStatus::Interrupted);
    let query = PendingQuery::default();
    assert_eq!(on.store.pending(&query).await.unwrap().total, 0);
    let found = driver.found().await;
    assert!(found.open_step.is_none() && found.state.client_tool_call_ownership.is_empty());
}

/// An edit whose acknowledgement is lost is made once.
pub async fn an_edit_whose_acknowledgement_is_lost_is_made_once(on: &Subject) {
    let model = Arc::new(MockModel::replies([
        MockReply::text("Hello."),
        MockReply::text("One."),
        MockReply::text("Two."),
    ]));
    let mut driver = RunDriver::new(on, of_model(&model).build().unwrap()).await;
    driver.drive().await;
    driver.turn(says("m1", "First.")).await;
    let once = AtomicBool::new(false);
    let store = FaultyStore::new(on, move |commit| {
        match starts_a_run(commit) && !once.swap(true, Ordering::SeqCst) {
            true => CommitFate::Unacknowledged,
            false => CommitFate::Made,
        }
    });
    let entries = driver.entries_over(store);
    let entered = entries.send(edits("m1", "Better."), &performer()).await;
    let Ok(Entered::Run(state)) = entered else {
        panic!("it starts a run: {entered:?}");
    };
    assert_eq!(driver.run().await.id, state.run_id);
    driver.state = state;
    driver.drive().await;
    assert_eq!(driver.said().await, ["go", "Hello.", "Better.", "Two."]);
    assert_eq!(driver.runs().await, 3);
}

/// Of two callers that have read the same, and send the same message, one starts its turn and the other is told to
/// look again: in a new session, in one that rests, and beside a run.
pub async fn one_of_two_equal_messages_is_taken(on: &Subject) {
    let model = Arc::new(MockModel::replies([
        MockReply::text("Hello."),
        MockReply::text("One."),
    ]));
    let mut driver = RunDriver::new(on, of_model(&model).build().unwrap()).await;
    let refused = |entered: Result<Entered, EntryError>| match entered {
        Err(EntryError::Changed { .. }) => {}
        other => panic!("the second caller is told to look again: {other:?}"),
    };
    // Beside a run.
    let read = driver.found().await;
    let twice = || {
        let message = says("m1", "First.").unless_changed();
        message.as_read(Some(read.clone()))
    };
    let first = driver.entries.send(twice(), &performer()).await.unwrap();
    assert!(matches!(first, Entered::Waits(_)), "{first:?}");
    refused(driver.entries.send(twice(), &performer()).await);
    driver.drive().await;
    assert_eq!(driver.found().await.inbox.len(), 1);
    driver.deliver_waiting().await;
    driver.drive().await;

    // At rest.
    let read = driver.found().await;
    let twice = || {
        let message = says("m2", "Second.").unless_changed();
        message.as_read(Some(read.clone()))
    };
    driver.start(twice()).await;
    refused(driver.entries.send(twice(), &performer()).await);
    assert_eq!(driver.found().await.inbox, []);
    driver.drive().await;

    // A session that nobody has begun.
    let agent: AnyAgent = driver.ports.agents.get("agent").unwrap();
    let new = || {
        let message = UserMessage::new("Hi.").with_id(id("n1"));
        let mut request = ExecuteRequest::new(&agent, message)
            .in_session(SessionId::new("another").unwrap())
            .double_texting(DoubleTexting::Interrupt)
            .unless_changed();
        request.read = helix_agents_core::entries::AsRead::Absent;
        request
    };
    let first = driver.entries.send(new(), &performer()).await.unwrap();
    assert!(matches!(first, Entered::Run(_)), "{first:?}");
    refused(driver.entries.send(new(), &performer()).await);
}
