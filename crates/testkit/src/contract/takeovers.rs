//! Take-overs: which runs are taken over, and how often without progress.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::SessionId;
use helix_agents_core::entries::{Entries, EntryError, Performer};
use helix_agents_core::session::RunStatus;
use helix_agents_core::store::{Change, Fence, LeaseRequest, PendingStatus, Precondition};
use helix_agents_core::stream::StreamStatus;
use helix_agents_core::time::Clock;

use super::Subject;
use super::builders::{
    accepted, answer, call, changed, child_of, commit, created, event, run, running, sets, started,
    waiting,
};
use super::everything::everything;
use crate::SequentialIds;

const TEN: Duration = Duration::from_secs(10);

pub(super) fn entries(on: &Subject, clock: Arc<dyn Clock>) -> Entries {
    let ids = Arc::new(SequentialIds::new());
    Entries::new(on.store.clone(), on.streams.clone(), clock, ids)
}

pub(super) fn performer(holder: &str) -> Performer {
    Performer::new("local").leased(holder, TEN)
}

/// Takes over the session's run for a new holder and returns the fence.
async fn taken(on: &Subject, id: &SessionId, holder: &str) -> Fence {
    on.clock.advance(TEN);
    let recovered = entries(on, on.clock.clone())
        .recover(id, &performer(holder))
        .await;
    recovered.expect("the run is free").fence
}

async fn takeovers(on: &Subject, id: &SessionId) -> u32 {
    on.elsewhere()
        .store
        .load(id.as_root())
        .await
        .unwrap()
        .unwrap()
        .takeovers
}

fn leased(holder: &str) -> Change {
    Change::Lease(Some(LeaseRequest::new(holder, TEN)))
}

/// The count grows with each take-over and is reset by the first commit of the run. Neither a
/// renewal of the lease nor a write of another process resets it.
pub async fn a_take_over_is_counted_until_the_run_commits(on: &Subject) {
    let id = created(on, "s").await;
    running(on, &id, "run").await;
    let pending = waiting(on, &id, &run("run"), "c-1");
    changed(on, &id, Change::Pending(Box::new(pending))).await;
    changed(on, &id, leased("a")).await;
    assert_eq!(takeovers(on, &id).await, 0);
    let mut fence = Fence::default();
    for count in 1..=3 {
        fence = taken(on, &id, "b").await;
        assert_eq!(takeovers(on, &id).await, count);
        let of_run = || commit(on, &id).when(Precondition::Fence(fence));
        accepted(on, of_run().then(leased("b"))).await;
        assert_eq!(takeovers(on, &id).await, count, "a renewal is no work");
    }
    let submission = commit(on, &id)
        .when(Precondition::Call(call("c-1"), PendingStatus::Open))
        .then(Change::Answer(call("c-1"), Box::new(answer(on, "c-1"))));
    accepted(on, submission).await;
    assert_eq!(takeovers(on, &id).await, 3, "that was somebody else");
    let of_run = commit(on, &id).when(Precondition::Fence(fence));
    let work = of_run.then(Change::WriteState(sets("a", 1)));
    accepted(on, work.then(leased("b")).say(event(on, &id, "work"))).await;
    assert_eq!(takeovers(on, &id).await, 0);
    taken(on, &id, "c").await;
    assert_eq!(takeovers(on, &id).await, 1);
}

/// Releasing a run in good order does not raise the count, and does not reset it.
pub async fn an_orderly_hand_over_is_not_counted(on: &Subject) {
    let id = created(on, "s").await;
    running(on, &id, "run").await;
    changed(on, &id, leased("a")).await;
    for counted in [0, 1] {
        let give_up = Change::Lease(Some(LeaseRequest::given_up("a")));
        changed(on, &id, give_up).await;
        taken(on, &id, "b").await;
        assert_eq!(takeovers(on, &id).await, counted, "it was given up");
        taken(on, &id, "c").await;
        assert_eq!(takeovers(on, &id).await, counted + 1, "it was not");
    }
}

/// The count belongs to one run and is not passed on to the next.
pub async fn a_new_run_was_never_taken_over(on: &Subject) {
    let id = created(on, "s").await;
    running(on, &id, "run").await;
    changed(on, &id, leased("a")).await;
    taken(on, &id, "b").await;
    running(on, &id, "next").await;
    assert_eq!(takeovers(on, &id).await, 0);
}

/// Only a host of the same kind knows whether a run is still running, so no other takes it over.
pub async fn a_run_of_another_host_is_left_to_it(on: &Subject) {
    let id = created(on, "s").await;
    running(on, &id, "run").await;
    let before = everything(on, &[&id]).await;
    for other in [
        Performer::new("elsewhere"),
        Performer::new("elsewhere").leased("b", TEN),
    ] {
        let taken = entries(on, on.clock.clone()).recover(&id, &other).await;
        let Err(EntryError::OtherHost { has, asked, .. }) = taken else {
            panic!("it is not taken over: {taken:?}");
        };
        assert_eq!((has.as_str(), asked.as_str()), ("local", "elsewhere"));
    }
    assert_eq!(everything(on, &[&id]).await, before, "nothing is written");
}

/// A valid lease keeps out every other process, and also other parts of the process that holds it.
pub async fn nobody_takes_a_run_whose_lease_is_valid(on: &Subject) {
    let id = created(on, "s").await;
    running(on, &id, "run").await;
    changed(on, &id, leased("a")).await;
    on.clock.advance(TEN - Duration::from_millis(1));
    let before = everything(on, &[&id]).await;
    for holder in ["a", "b"] {
        let taken = entries(on, on.clock.clone())
            .recover(&id, &performer(holder))
            .await;
        let Err(EntryError::StillHeld { holder, .. }) = taken else {
            panic!("it is not taken over: {taken:?}");
        };
        assert_eq!(holder, "a");
    }
    assert_eq!(everything(on, &[&id]).await, before, "nothing is written");
}

/// A child that works when the turn of its root is over is taken over without opening the stream of that turn again.
pub async fn a_take_over_under_a_root_at_rest_leaves_the_stream_ended(on: &Subject) {
    let root = created(on, "s").await;
    running(on, &root, "turn").await;
    let child = child_of(on, &root, &root, "child").await;
    running(on, &child, "run").await;
    changed(on, &child, leased("a")).await;
    let mut ended = started(on, &root, "turn");
    ended.status = RunStatus::Completed;
    let end = commit(on, &root).then(Change::Run(Box::new(ended)));
    accepted(on, end.stream(StreamStatus::Ended)).await;
    taken(on, &child, "b").await;
    let info = on.streams.info(&root).await.unwrap();
    assert_eq!(info.map(|info| info.status), Some(StreamStatus::Ended));
}
