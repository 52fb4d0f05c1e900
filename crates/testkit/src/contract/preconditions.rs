//! Preconditions: what must hold for a commit to happen, and what a refusal leaves.

use std::time::Duration;

use helix_agents_core::SessionId;
use helix_agents_core::message::UserMessage;
use helix_agents_core::session::{RunStatus, SessionStatus};
use helix_agents_core::store::{
    CallStanding, Change, Commit, Current, Fence, Field, InboxRow, Lease, Precondition, StoreError,
    Unstage,
};
use helix_agents_core::stream::{StreamStatus, StreamWriter};
use serde_json::json;

use super::Subject;
use super::everything::everything;
use super::make::{
    accepted, answer, call, changed, checkpoint_of, child_of, commit, created, event, open_step,
    paired, run, running, session, sets, step, stop, text, waiting,
};

/// A session of which every part has content, with a run at a fence.
async fn furnished(on: &Subject, name: &str) -> (SessionId, Fence) {
    let id = created(on, name).await;
    let (run, fence) = running(on, &id, "run").await;
    let commit = commit(on, &id)
        .then(Change::AppendUser(UserMessage::new("hello")))
        .then(Change::AppendStep(paired(&["c-0"])))
        .then(Change::WriteState(sets("mood", "calm")))
        .then(Change::OpenStep(Some(Box::new(open_step(
            &run,
            "step",
            &["c-1"],
        )))))
        .then(Change::Pending(Box::new(waiting(on, &id, &run, "c-1"))))
        .then(Change::Checkpoint(
            checkpoint_of(on, &id, "cp-1"),
            helix_agents_core::session::CheckpointSource::Staging,
        ))
        .then(Change::Stage(step("step"), call("c-1"), sets("kept", 1)))
        .then(Change::Inbox(InboxRow::new("in-1", Vec::new(), on.now())))
        .say(event(on, &id, "furnished"));
    accepted(on, commit).await;
    (id, fence)
}

/// A commit that changes something of everything.
fn sweeping(on: &Subject, id: &SessionId) -> Commit {
    let stopped = stop(on, &run("run"));
    commit(on, id)
        .then(Change::Truncate(1))
        .then(Change::AppendUser(UserMessage::new("must not be seen")))
        .then(Change::WriteState(sets("mood", "must not be seen")))
        .set(Field::Status(SessionStatus::Failed))
        .set(Field::OneStepMore)
        .then(Change::RaiseFence)
        .then(Change::Lease(Some(Lease::new("intruder", on.now()))))
        .then(Change::StartRun(Box::new(super::make::started(
            on, id, "intruder",
        ))))
        .then(Change::Checkpoint(
            checkpoint_of(on, id, "cp-2"),
            helix_agents_core::session::CheckpointSource::Save,
        ))
        .then(Change::OpenStep(None))
        .then(Change::Answer(call("c-1"), Box::new(answer(on, "c-1"))))
        .then(Change::Stop(stopped))
        .then(Change::Inbox(InboxRow::new("in-2", Vec::new(), on.now())))
        .then(Change::Unstage(Unstage::Step(step("step"))))
        .then(Change::RetireCallIds(vec![call("c-9")]))
        .say(event(on, id, "must not be seen"))
        .stream(StreamStatus::Failed)
}

/// One precondition of each kind that does not hold for a furnished session.
fn that_do_not_hold(on: &Subject, fence: Fence) -> Vec<Precondition> {
    let (mine, other) = (run("run"), run("other"));
    vec![
        Precondition::Absent,
        Precondition::Status(vec![SessionStatus::Completed, SessionStatus::Paused]),
        Precondition::Status(Vec::new()),
        Precondition::MessageCount(2),
        Precondition::Fence(Fence(fence.0 + 1)),
        Precondition::Fence(Fence(fence.0 - 1)),
        Precondition::CurrentRun(None),
        Precondition::CurrentRun(Some(other.clone())),
        Precondition::Run(mine.clone(), vec![RunStatus::Completed]),
        Precondition::Run(other, vec![RunStatus::Running]),
        Precondition::Stop(mine, true),
        Precondition::Call(call("c-1"), CallStanding::Answered),
        Precondition::Call(call("c-1"), CallStanding::Absent),
        Precondition::Call(call("c-0"), CallStanding::Open),
        Precondition::LeaseFree {
            holder: "somebody".to_owned(),
            at: on.now(),
        },
        Precondition::Version(1),
        Precondition::Version(99),
    ]
}

async fn leased(on: &Subject, id: &SessionId) {
    let until = on.now().saturating_add(Duration::from_secs(10));
    changed(on, id, Change::Lease(Some(Lease::new("owner", until)))).await;
}

/// When a commit is refused, nothing was written: not a field, not a row, not a chunk.
///
/// proves: STO-02
pub async fn a_commit_that_any_precondition_refuses_leaves_nothing(on: &Subject) {
    let (id, fence) = furnished(on, "s").await;
    leased(on, &id).await;
    let before = everything(on, &[&id]).await;
    for precondition in that_do_not_hold(on, fence) {
        let refusal = on
            .store
            .commit(sweeping(on, &id).when(precondition.clone()))
            .await
            .expect_err(&format!(
                "not true: {precondition:?}, so the commit is refused"
            ));
        assert!(refusal.is_conflict(), "{precondition:?} gives {refusal:?}");
        let after = everything(on, &[&id]).await;
        assert_eq!(
            after, before,
            "refused by {precondition:?}, it leaves nothing"
        );
    }
    // On another session of the same commit they count as much.
    let other = created(on, "t").await;
    let before = everything(on, &[&id, &other]).await;
    let commit = sweeping(on, &id).when_in(other.clone(), Precondition::MessageCount(1));
    assert!(on.store.commit(commit).await.is_err());
    assert_eq!(everything(on, &[&id, &other]).await, before);
    let missing = sweeping(on, &id).when_in(session("nobody"), Precondition::Exists);
    let refusal = on.store.commit(missing).await.unwrap_err();
    assert!(
        matches!(refusal, StoreError::NotFound { .. }),
        "{refusal:?}"
    );
    assert_eq!(everything(on, &[&id, &other]).await, before);
}

/// What holds is not refused.
pub async fn a_precondition_that_holds_lets_the_commit_pass(on: &Subject) {
    let (id, fence) = furnished(on, "s").await;
    leased(on, &id).await;
    let version = on.store.load(&id).await.unwrap().unwrap().state.version;
    let mine = run("run");
    let all = [
        Precondition::Exists,
        Precondition::Status(vec![SessionStatus::Failed, SessionStatus::Active]),
        Precondition::MessageCount(3),
        Precondition::Fence(fence),
        Precondition::CurrentRun(Some(mine.clone())),
        Precondition::Run(mine.clone(), vec![RunStatus::Failed, RunStatus::Running]),
        Precondition::Stop(mine, false),
        Precondition::Call(call("c-1"), CallStanding::Open),
        Precondition::Call(call("c-0"), CallStanding::Absent),
        Precondition::LeaseFree {
            holder: "owner".to_owned(),
            at: on.now(),
        },
        Precondition::Version(version),
    ];
    let guarded = all
        .into_iter()
        .fold(sweeping(on, &id), Commit::when)
        .when_in(session("nobody"), Precondition::Absent);
    let receipt = accepted(on, guarded).await;
    assert_eq!(receipt.sessions[&id].version, version + 1);
}

/// A refusal names what did not hold, and the status and version that the session has.
///
/// proves: STO-01
pub async fn a_refusal_says_what_the_session_is(on: &Subject) {
    let id = created(on, "s").await;
    changed(on, &id, Change::Set(Field::Status(SessionStatus::Paused))).await;
    let wanted = Precondition::Version(1);
    let refusal = on
        .store
        .commit(
            commit(on, &id)
                .when(wanted.clone())
                .then(Change::RaiseFence),
        )
        .await
        .unwrap_err();
    let StoreError::Refused {
        session,
        expected,
        current,
    } = refusal
    else {
        panic!("a precondition that does not hold is a refusal, not {refusal:?}");
    };
    assert_eq!((session, expected), (id, wanted));
    assert_eq!(current, Current::new(SessionStatus::Paused, 2));
}

/// Preconditions speak of what is, not of what the commit makes of it.
pub async fn preconditions_are_judged_before_any_change(on: &Subject) {
    let id = created(on, "s").await;
    let pausing = commit(on, &id)
        .set(Field::Status(SessionStatus::Paused))
        .when(Precondition::Status(vec![SessionStatus::Active]));
    accepted(on, pausing.clone()).await;
    let again = on.store.commit(pausing).await;
    assert!(
        matches!(again, Err(StoreError::Refused { .. })),
        "{again:?}"
    );
}
