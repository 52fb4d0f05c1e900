//! Preconditions of commits, and the effect of a refusal.

use std::time::Duration;

use helix_agents_core::SessionId;
use helix_agents_core::session::{RunStatus, SessionStatus};
use helix_agents_core::store::{
    Change, Commit, CurrentSession, Fence, Field, LeaseRequest, PendingStatus, Precondition,
    StoreError,
};

use super::Subject;
use super::builders::{accepted, call, changed, commit, created, run, session};
use super::everything::everything;
use super::full_session::{changes_everything, full_session};

/// One precondition of each kind that does not hold for a full session.
fn that_do_not_hold(fence: Fence) -> Vec<Precondition> {
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
        Precondition::Call(call("c-1"), PendingStatus::Answered),
        Precondition::Call(call("c-1"), PendingStatus::Absent),
        Precondition::Call(call("c-0"), PendingStatus::Open),
        Precondition::LeaseFree,
        Precondition::Version(1),
        Precondition::Version(99),
    ]
}

async fn leased(on: &Subject, id: &SessionId) {
    let lease = LeaseRequest::new("owner", Duration::from_secs(10));
    changed(on, id, Change::Lease(Some(lease))).await;
}

/// A refused commit writes nothing: no field, no row, no chunk.
///
/// proves in part: STO-02
pub async fn a_commit_that_any_precondition_refuses_leaves_nothing(on: &Subject) {
    let (id, fence) = full_session(on, "s").await;
    leased(on, &id).await;
    let before = everything(on, &[&id]).await;
    for precondition in that_do_not_hold(fence) {
        let refusal = on
            .store
            .commit(changes_everything(on, &id).when(precondition.clone()))
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
    let commit = changes_everything(on, &id).when_in(other.clone(), Precondition::MessageCount(1));
    assert!(on.store.commit(commit).await.is_err());
    assert_eq!(everything(on, &[&id, &other]).await, before);
    let missing = changes_everything(on, &id).when_in(session("nobody"), Precondition::Exists);
    let refusal = on.store.commit(missing).await.unwrap_err();
    assert!(
        matches!(refusal, StoreError::NotFound { .. }),
        "{refusal:?}"
    );
    assert_eq!(everything(on, &[&id, &other]).await, before);
}

/// A commit whose preconditions hold is not refused.
pub async fn a_precondition_that_holds_lets_the_commit_pass(on: &Subject) {
    let (id, fence) = full_session(on, "s").await;
    leased(on, &id).await;
    on.clock.advance(Duration::from_secs(10));
    let version = on
        .store
        .load(id.as_root())
        .await
        .unwrap()
        .unwrap()
        .state
        .version;
    let mine = run("run");
    let all = [
        Precondition::Exists,
        Precondition::Status(vec![SessionStatus::Failed, SessionStatus::Active]),
        Precondition::MessageCount(3),
        Precondition::Fence(fence),
        Precondition::CurrentRun(Some(mine.clone())),
        Precondition::Run(mine.clone(), vec![RunStatus::Failed, RunStatus::Running]),
        Precondition::Stop(mine.clone(), false),
        Precondition::NotAborted(mine),
        Precondition::Call(call("c-1"), PendingStatus::Open),
        Precondition::Call(call("c-0"), PendingStatus::Absent),
        Precondition::LeaseFree,
        Precondition::Version(version),
    ];
    let guarded = all
        .into_iter()
        .fold(changes_everything(on, &id), Commit::when)
        .when_in(session("nobody"), Precondition::Absent);
    let receipt = accepted(on, guarded).await;
    assert_eq!(receipt.sessions[&id].version, version + 1);
}

/// A refusal names the precondition that did not hold, and the status and version of the session.
///
/// proves: STO-01
pub async fn a_refusal_reports_the_state_of_the_session(on: &Subject) {
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
    assert_eq!(current, CurrentSession::new(SessionStatus::Paused, 2));
}

/// Preconditions are judged before the changes of their own commit.
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
