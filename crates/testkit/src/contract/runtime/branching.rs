//! Turns that begin in a branch of another session.

use helix_agents_core::SessionId;
use helix_agents_core::agent::{Agent, AgentBuilder};
use helix_agents_core::entries::{BranchSource, ExecuteRequest};
use helix_agents_core::error::{Coded, ErrorCode};
use helix_agents_core::message::Message;
use helix_agents_core::runtime::{Branch, RunOptions, RuntimeError, RuntimeExt, StartedRun, Turn};
use helix_agents_core::session::{RunStatus, RunTrigger};
use helix_agents_core::store::{BranchPoint, Page, Sessions, Snapshot};
use serde_json::json;

use super::super::builders::{checkpoint, session as id, user};
use super::super::runner::in_time;
use super::agents::{Gate, agent, browser, calling, counting, gated};
use super::lines::transcript_lines;
use super::subject::session;
use super::{MockReply, RuntimeSubject};

/// An agent that counts its calls in the state, and may ask a client.
fn counter(replies: impl IntoIterator<Item = MockReply>) -> AgentBuilder {
    let state = json!({ "count": 0 });
    agent(replies)
        .tools([counting("count"), browser("browser")])
        .initial_state(state)
}

/// Starts a turn in a branch of the session of the case.
async fn branched(
    on: &RuntimeSubject,
    agent: &Agent,
    to: &str,
    point: BranchPoint,
) -> Result<StartedRun, RuntimeError> {
    let request = ExecuteRequest::new(agent, "differently")
        .in_session(id(to))
        .branch_of(BranchSource::new(session(), point));
    let starting = on.runtime.start(request, RunOptions::default());
    in_time("a branch is started or refused", starting).await
}

async fn found(on: &RuntimeSubject, session: &SessionId) -> (Snapshot, Vec<String>) {
    let store = &on.backend().store;
    let found = store.load(session.as_root()).await.unwrap().unwrap();
    let messages = store.messages(session.as_root(), Page::ALL).await.unwrap();
    (found, transcript_lines(&messages.items))
}

/// A turn begins in a new session that is a branch: with the messages and the state of the point, and the message of
/// the turn, in one write. The source is untouched, and the branch outlives it.
///
/// proves: SES-10
pub async fn a_turn_begins_in_a_branch(on: &RuntimeSubject) {
    let replies = [
        calling([("c1", "count")]),
        MockReply::text("one"),
        calling([("c2", "count")]),
        MockReply::text("two"),
        calling([("c2", "count")]),
        MockReply::text("other"),
        MockReply::text("more"),
    ];
    let agent = counter(replies).build().unwrap();
    on.turn(&agent, "first").await;
    on.turn(&agent, "second").await;
    let source = async || {
        let (runs, checkpoints) = (on.runs().await, on.checkpoints().await);
        (
            on.snapshot().await,
            on.messages().await,
            on.chunks().await,
            runs,
            checkpoints,
        )
    };
    let before = source().await;
    let checkpoints = on.checkpoints().await;
    let to = Branch::of(session()).at_checkpoint(&checkpoints[1].id);
    let turn = Turn::new("differently").session("branch").branch_of(to);
    let turn = turn
        .user("u")
        .tag("new")
        .metadata("k", "v")
        .state(json!({ "mood": "good" }));
    let run = on.runtime.execute(&agent, turn).await.unwrap();
    assert_eq!(run.output().await.unwrap(), "other");
    let branch = id("branch");
    let (state, lines) = found(on, &branch).await;
    assert_eq!(
        lines,
        [
            "user: first",
            "assistant: c1=count{}",
            "c1=success: done",
            "assistant: one",
            "user: differently",
            "assistant: c2_2=count{}",
            "c2_2=success: done",
            "assistant: other",
        ]
    );
    assert_eq!(
        *state.state.custom_state,
        json!({ "count": 2, "mood": "good" })
    );
    assert_eq!(state.state.user_id, Some(user("u")));
    assert_eq!(state.state.tags, ["new"]);
    assert!(state.state.key().is_root() && state.state.parent_session_id.is_none());
    let record = state.run.unwrap();
    assert_eq!((record.turn, record.trigger), (1, RunTrigger::Execute));
    let start = record.turn_start.unwrap();
    assert_eq!((start.messages, start.user_messages), (4, 1));
    assert_eq!(source().await, before, "the source is untouched");

    // The branch is a session of its own.
    let sessions = Sessions::new(&*on.backend().store, &*on.clock);
    assert!(sessions.delete_session(&session()).await.unwrap());
    let elsewhere = on.restarted().await;
    assert_eq!(found(&elsewhere, &branch).await.1, lines);
    let next = elsewhere
        .runtime
        .send(&agent, &branch, "and?")
        .await
        .unwrap();
    assert_eq!(next.output().await.unwrap(), "more");
}

/// A branch of a session that is running or waits has the steps that are in its history, and the state of then.
///
/// proves: SES-10
pub async fn a_branch_of_an_open_step_begins_before_it(on: &RuntimeSubject) {
    let gate = Gate::default();
    let replies = [
        calling([("c1", "count")]),
        calling([("c2", "gated"), ("c3", "count"), ("c4", "browser")]),
        MockReply::text("of the running one"),
        MockReply::text("of the paused one"),
        MockReply::text("of its checkpoint"),
        MockReply::text("of its first message"),
        MockReply::text("of its step"),
    ];
    let agent = counter(replies)
        .tools(gated("gated", &gate))
        .build()
        .unwrap();
    let run = on.start(&agent, "go").await;
    gate.reached(1).await;
    let history = ["user: go", "assistant: c1=count{}", "c1=success: done"];
    let check = async |to: &str, point, kept: &[&str], count, said: &str| {
        let run = branched(on, &agent, to, point).await.unwrap();
        assert_eq!(on.ended(&run).await.status, RunStatus::Completed);
        let (state, lines) = found(on, &id(to)).await;
        let new = ["user: differently".to_owned(), format!("assistant: {said}")];
        let kept: Vec<_> = kept.iter().map(|line| (*line).to_owned()).collect();
        assert_eq!(lines, [kept, new.to_vec()].concat());
        assert_eq!(*state.state.custom_state, json!({ "count": count }), "{to}");
    };
    check("b1", BranchPoint::Now, &history, 1, "of the running one").await;
    gate.open();
    assert!(on.ended(&run).await.status.is_suspended());
    assert_eq!(
        on.state().await,
        json!({ "count": 2 }),
        "a pause applies it"
    );
    check("b2", BranchPoint::Now, &history, 1, "of the paused one").await;
    let pause = on.checkpoints().await.pop().unwrap().id;
    let point = BranchPoint::Checkpoint(pause);
    check("b3", point, &history, 1, "of its checkpoint").await;
    let point = BranchPoint::Message(0);
    check("b4", point, &history[..1], 0, "of its first message").await;
    let point = BranchPoint::Message(1);
    check("b5", point, &history, 1, "of its step").await;
    // The source still waits, and its call ids are used in the branch.
    assert_eq!(on.pending().await.len(), 1);
    let store = &on.backend().store;
    let extras = store.extras(id("b2").as_root()).await.unwrap();
    let retired: Vec<_> = extras.retired_call_ids.iter().map(AsRef::as_ref).collect();
    assert_eq!(retired, ["c2", "c3", "c4"]);
}

/// A branch that cannot be made is refused, and leaves nothing: of another agent, of no session, at a point that the
/// source does not have, under an id that is taken.
///
/// proves: SES-10
pub async fn a_turn_in_an_impossible_branch_is_refused(on: &RuntimeSubject) {
    let replies = [MockReply::text("one"), MockReply::text("two")];
    let agent = counter(replies).build().unwrap();
    let other = Agent::builder("other")
        .model(std::sync::Arc::new(crate::MockModel::new()))
        .build()
        .unwrap();
    on.keep(&other);
    on.turn(&agent, "go").await;
    let now = || BranchPoint::Now;
    let run = branched(on, &agent, "taken", now()).await.unwrap();
    on.ended(&run).await;
    let taken = async || branched(on, &agent, "taken", now()).await;
    on.refuses(ErrorCode::StateStale, taken).await;
    let over = async || branched(on, &agent, session().as_str(), now()).await;
    on.refuses(ErrorCode::StateStale, over).await;
    let foreign = async || branched(on, &other, "new", now()).await;
    on.refuses(ErrorCode::ValidationError, foreign).await;
    for point in [
        BranchPoint::Checkpoint(checkpoint("never")),
        BranchPoint::Message(2),
    ] {
        let beyond = async || branched(on, &agent, "new", point.clone()).await;
        on.refuses(ErrorCode::ValidationError, beyond).await;
    }
    let request = ExecuteRequest::new(&agent, "go")
        .in_session(id("new"))
        .branch_of(BranchSource::new(id("nowhere"), now()));
    let missing = on.runtime.start(request, RunOptions::default()).await;
    assert_eq!(missing.unwrap_err().code(), ErrorCode::SessionNotFound);
    let store = &on.backend().store;
    assert_eq!(store.find(&id("new")).await.unwrap(), None);
    let (_, lines) = found(on, &session()).await;
    assert_eq!(lines.len(), 2);
    let of_source = on.messages().await;
    assert!(matches!(of_source[0], Message::User(_)));
}
