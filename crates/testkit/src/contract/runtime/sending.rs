//! Messages that are sent while a run is in progress.

use futures_util::StreamExt;
use helix_agents_core::agent::Agent;
use helix_agents_core::entries::DoubleTexting;
use helix_agents_core::runtime::{Handle, RuntimeExt, Turn};
use helix_agents_core::session::{RunStatus, RunTrigger};

use super::super::runner::in_time;
use super::agents::{Gate, agent, browser, calling, gated};
use super::subject::session;
use super::{MockReply, RuntimeSubject};

async fn send(on: &RuntimeSubject, agent: &Agent, turn: Turn) -> Handle<String> {
    let sending = on.runtime.send(agent, session(), turn);
    in_time("a message is taken or refused", sending)
        .await
        .unwrap()
}

/// A message that is queued is answered by the run whose handle its sender has, when the turn before has
/// ended. A second message enters the same run.
pub async fn a_queued_message_is_answered_by_its_own_run(on: &RuntimeSubject) {
    let gate = Gate::default();
    let replies = [
        calling([("c1", "slow")]),
        MockReply::text("one"),
        MockReply::text("two"),
    ];
    let agent = agent(replies).tools(gated("slow", &gate)).build().unwrap();
    let first = on.start(&agent, "first").await;
    gate.reached(1).await;
    let queued = |text: &str| Turn::new(text).double_texting(DoubleTexting::Queue);
    let second = send(on, &agent, queued("second")).await;
    let third = send(on, &agent, queued("third")).await;
    assert_eq!(second.run_id(), third.run_id());
    assert_ne!(*second.run_id(), first.run_id);
    let mut text = third.text();
    gate.open();
    assert_eq!(on.ended(&first).await.status, RunStatus::Completed);
    assert_eq!(
        in_time("it is answered", second.output()).await.unwrap(),
        "two"
    );
    let mut said = String::new();
    while let Some(piece) = in_time("the text ends", text.next()).await {
        said.push_str(&piece.unwrap());
    }
    assert_eq!(said, "two");
    let runs = on.runs().await;
    let triggers: Vec<_> = runs.iter().map(|run| run.trigger).collect();
    assert_eq!(triggers, [RunTrigger::Execute, RunTrigger::WithMessage]);
    assert_eq!(runs[1].messages, 2);
    assert_eq!(on.snapshot().await.inbox, []);
}

/// A message interrupts the run in progress, whichever process performs it, and is answered.
pub async fn a_message_interrupts_the_run_of_another_process(on: &RuntimeSubject) {
    let gate = Gate::default();
    let replies = [calling([("c1", "slow")]), MockReply::text("instead")];
    let agent = agent(replies).tools(gated("slow", &gate)).build().unwrap();
    let first = on.start(&agent, "first").await;
    gate.reached(1).await;
    let elsewhere = on.restarted().await;
    let turn = Turn::new("second").double_texting(DoubleTexting::Interrupt);
    let second = send(&elsewhere, &agent, turn).await;
    assert_eq!(on.ended(&first).await.status, RunStatus::Interrupted);
    let answered = in_time("it is answered", second.output()).await;
    assert_eq!(answered.unwrap(), "instead");
}

/// A message over pending calls is answered when its sender abandons them.
pub async fn a_message_over_pending_calls_is_answered(on: &RuntimeSubject) {
    let replies = [calling([("c1", "browser")]), MockReply::text("instead")];
    let agent = agent(replies).tools(browser("browser")).build().unwrap();
    on.turn(&agent, "first").await;
    let refused = on.runtime.send(&agent, session(), "second").await;
    assert!(refused.is_err(), "the call waits: {refused:?}");
    let second = send(on, &agent, Turn::new("second").abandon_pending()).await;
    let answered = in_time("it is answered", second.output()).await;
    assert_eq!(answered.unwrap(), "instead");
    assert_eq!(on.pending().await, []);
}
