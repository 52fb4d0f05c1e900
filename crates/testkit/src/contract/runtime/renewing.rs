//! The parts of a session that a new turn resets or keeps.

use helix_agents_core::entries::ExecuteRequest;
use helix_agents_core::error::ErrorCode;
use helix_agents_core::model::ModelErrorKind;
use helix_agents_core::runtime::RunOptions;
use helix_agents_core::session::{RunStatus, SessionStatus};
use helix_agents_core::store::Sessions;
use serde_json::json;

use super::super::builders::call;
use super::agents::{Gate, agent, browser, calling, gated};
use super::subject::session;
use super::{MockReply, RuntimeSubject};

/// The failure of a turn is cleared when the next one begins, also while that one waits.
pub async fn a_new_turn_clears_the_failure(on: &RuntimeSubject) {
    let replies = [
        MockReply::error(ModelErrorKind::Auth),
        calling([("c1", "browser")]),
    ];
    let agent = agent(replies).tools(browser("browser")).build().unwrap();
    on.turn(&agent, "one").await;
    assert!(on.snapshot().await.state.error.is_some());
    let second = on.turn(&agent, "two").await;
    assert!(second.status.is_suspended());
    let state = on.snapshot().await.state;
    assert_eq!((state.status, state.error), (SessionStatus::Active, None));
}

/// The interruption of a turn is cleared when the next one begins.
pub async fn a_new_turn_clears_the_interruption(on: &RuntimeSubject) {
    let gate = Gate::default();
    let replies = [calling([("c1", "gated")]), MockReply::text("done")];
    let agent = agent(replies).tools(gated("gated", &gate)).build().unwrap();
    let run = on.start(&agent, "one").await;
    gate.reached(1).await;
    let sessions = Sessions::new(&*on.backend().store, &*on.clock);
    let asked = sessions.set_interrupt_flag(&session(), None).await;
    asked.unwrap();
    gate.open();
    assert_eq!(on.ended(&run).await.status, RunStatus::Interrupted);
    assert!(on.snapshot().await.state.interrupt_context.is_some());
    let second = on.turn(&agent, "two").await;
    assert_eq!(second.status, RunStatus::Completed);
    let state = on.snapshot().await.state;
    assert_eq!(state.interrupt_context, None);
    assert_eq!(state.status, SessionStatus::Completed);
}

/// A turn whose state is not an object is refused, in a new session and in an existing one.
pub async fn a_turn_takes_keys_for_its_state_only(on: &RuntimeSubject) {
    let agent = agent([MockReply::text("done")]).build().unwrap();
    on.keep(&agent);
    let ask = async || {
        let mut request = ExecuteRequest::new(&agent, "go").in_session(session());
        request.state = Some(json!(["not", "an", "object"]));
        on.runtime.start(request, RunOptions::default()).await
    };
    assert!(ask().await.is_err(), "a new session");
    on.turn(&agent, "one").await;
    on.refuses(ErrorCode::StateInvalid, ask).await;
}

/// The owner of a pending call is stored at the root, where answers are sent, as long as the call
/// is open.
pub async fn the_owner_of_a_question_is_noted(on: &RuntimeSubject) {
    let replies = [calling([("c1", "browser")]), MockReply::text("done")];
    let agent = agent(replies).tools(browser("browser")).build().unwrap();
    on.turn(&agent, "go").await;
    let owners = on.snapshot().await.state.client_tool_call_ownership;
    assert_eq!(owners.get(&call("c1")), Some(&session()));
    on.answered(on.waiting("c1").await.result("here")).await;
    on.resumed().await;
    let owners = on.snapshot().await.state.client_tool_call_ownership;
    assert!(owners.is_empty(), "{owners:?}");
}
