//! Fences and leases: superseded runs cannot write, and all others can.

use std::time::Duration;

use helix_agents_core::store::{
    Change, Lease, LeaseRequest, PendingStatus, Precondition, StoreError,
};
use helix_agents_core::stream::StreamWriter;

use super::Subject;
use super::builders::{accepted, answer, call, changed, commit, created, event, sets, text};
use super::everything::everything;
use super::full_session::{changes_everything, full_session};

/// A submitted answer carries no fence, and the commits of the run stay valid.
pub async fn a_submission_does_not_make_a_running_executor_stale(on: &Subject) {
    let (id, fence) = full_session(on, "s").await;
    let of_run = |name: &str| {
        commit(on, &id)
            .when(Precondition::Fence(fence))
            .then(Change::WriteState(sets(name, true)))
    };
    accepted(on, of_run("before")).await;
    let submission = commit(on.elsewhere(), &id)
        .when(Precondition::Call(call("c-1"), PendingStatus::Open))
        .then(Change::Answer(call("c-1"), Box::new(answer(on, "c-1"))));
    accepted(on.elsewhere(), submission.clone()).await;
    let receipt = accepted(on, of_run("after")).await;
    assert_eq!(
        receipt.sessions[&id].answered,
        [call("c-1")],
        "and the run learns of it"
    );
    let twice = on.store.commit(submission).await;
    assert!(
        matches!(twice, Err(StoreError::Refused { .. })),
        "an answer is taken once: {twice:?}"
    );
    let found = on.store.load(id.as_root()).await.unwrap().unwrap();
    let pending = &found.state.pending_client_tool_calls[&call("c-1")];
    assert_eq!(pending.answer, Some(answer(on, "c-1")));
}

/// Commits and deltas with an old fence are refused.
///
/// proves in part: LCK-02
pub async fn a_superseded_fence_cannot_write_anything(on: &Subject) {
    let (id, old) = full_session(on, "s").await;
    let taken_over = commit(on.elsewhere(), &id)
        .when(Precondition::Fence(old))
        .then(Change::RaiseFence);
    let new = accepted(on.elsewhere(), taken_over).await.sessions[&id].fence;
    assert!(new > old, "a take-over raises the fence");
    let before = everything(on, &[&id]).await;
    let late = changes_everything(on, &id).when(Precondition::Fence(old));
    assert!(on.store.commit(late).await.is_err());
    let writer = StreamWriter::new(id.clone(), id.clone(), old);
    let deltas = vec![text(on, &id, "late")];
    assert!(on.streams.append_deltas(&writer, deltas).await.is_err());
    let say = event(on, &id, "late");
    let discarded = on
        .streams
        .discard_deltas(&writer, Default::default(), say)
        .await;
    assert!(discarded.is_err());
    assert_eq!(
        everything(on, &[&id]).await,
        before,
        "a superseded run writes nothing"
    );
    accepted(
        on,
        changes_everything(on, &id).when(Precondition::Fence(new)),
    )
    .await;
}

/// A process that performs a run of a deleted session cannot write to a new session with the same
/// id, however many runs that one has had.
pub async fn a_deleted_sessions_fence_is_never_used_again(on: &Subject) {
    let (id, old) = full_session(on, "s").await;
    on.sessions().delete_session(&id).await.unwrap();
    created(on.elsewhere(), "s").await;
    let fenced = commit(on, &id).when(Precondition::Fence(old));
    let writer = StreamWriter::new(id.clone(), id.clone(), old);
    for _ in 0..=old.0 {
        let before = everything(on, &[&id]).await;
        let late = fenced.clone().then(Change::WriteState(sets("late", true)));
        assert!(on.store.commit(late).await.is_err());
        let deltas = vec![text(on, &id, "late")];
        assert!(on.streams.append_deltas(&writer, deltas).await.is_err());
        assert_eq!(everything(on, &[&id]).await, before, "the old run is over");
        changed(on, &id, Change::RaiseFence).await;
    }
}

/// A lease is valid up to its instant for everybody, also for its own process if that lost track of
/// the run. The holder renews it with its fence.
///
/// proves in part: LCK-01
pub async fn a_lease_keeps_others_out_until_it_lapses(on: &Subject) {
    let id = created(on, "s").await;
    let ten = Duration::from_secs(10);
    let taking = |holder: &str| {
        let lease = LeaseRequest::new(holder, ten);
        commit(on, &id)
            .when(Precondition::LeaseFree)
            .then(Change::RaiseFence)
            .then(Change::Lease(Some(lease)))
    };
    let fence = accepted(on, taking("a")).await.sessions[&id].fence;
    on.clock.advance(Duration::from_millis(9_999));
    for holder in ["a", "b"] {
        let taken = on.store.commit(taking(holder)).await;
        assert!(taken.is_err(), "it is still valid");
    }
    let renewal = Change::Lease(Some(LeaseRequest::new("a", ten)));
    let renewal = commit(on, &id)
        .when(Precondition::Fence(fence))
        .then(renewal);
    accepted(on, renewal).await;
    on.clock.advance(Duration::from_millis(9_999));
    let taken = on.store.commit(taking("b")).await;
    assert!(taken.is_err(), "it was renewed");
    on.clock.advance(Duration::from_millis(1));
    accepted(on, taking("b")).await;
    let found = on.store.load(id.as_root()).await.unwrap().unwrap();
    let wanted = Lease::new("b", on.now().saturating_add(ten));
    assert_eq!(found.lease, Some(wanted));
    changed(on, &id, Change::Lease(None)).await;
    accepted(on, taking("a")).await;
    let given_up = Change::Lease(Some(LeaseRequest::given_up("a")));
    changed(on, &id, given_up).await;
    accepted(on, taking("c")).await;
}
