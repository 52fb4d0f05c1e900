//! Due work: what needs somebody's attention, from the instant on at which it does.

use std::time::Duration;

use helix_agents_core::SessionId;
use helix_agents_core::session::RunStatus;
use helix_agents_core::store::{Change, Due, Field, InboxRow, Lease};
use helix_agents_core::time::Timestamp;

use super::Subject;
use super::make::{answer, call, changed, created, run, running, stop, waiting};

async fn due(on: &Subject, at: Timestamp) -> Vec<(SessionId, Vec<Due>)> {
    on.elsewhere().store.due(at, 100).await.unwrap()
}

/// Holds that a session is due for this reason alone from an instant on, and not before.
async fn is_due_from(on: &Subject, id: &SessionId, from: Timestamp, why: Due) {
    let before = Timestamp::from_millis(from.as_millis() - 1);
    assert_eq!(due(on, before).await, [], "{why:?} is not due yet");
    let wanted = vec![(id.clone(), vec![why])];
    assert_eq!(due(on, from).await, wanted);
    let later = from.saturating_add(Duration::from_secs(999));
    assert_eq!(due(on, later).await, wanted);
}

async fn is_due_now(on: &Subject, id: &SessionId, why: Due) {
    assert_eq!(due(on, on.now()).await, [(id.clone(), vec![why])]);
}

async fn nothing_is_due(on: &Subject) {
    let far = on.now().saturating_add(Duration::from_secs(1 << 30));
    assert_eq!(due(on, far).await, []);
}

async fn ends(on: &Subject, id: &SessionId, status: RunStatus) {
    on.sessions()
        .update_run_status(id, &run("run"), status)
        .await
        .unwrap();
}

fn in_ten(on: &Subject) -> Timestamp {
    on.now().saturating_add(Duration::from_secs(10))
}

/// A run whose lease has lapsed; one without a lease is looked after by its host.
pub async fn a_running_run_is_due_when_its_lease_lapses(on: &Subject) {
    let id = created(on, "s").await;
    nothing_is_due(on).await;
    running(on, &id, "run").await;
    nothing_is_due(on).await;
    let until = in_ten(on);
    changed(on, &id, Change::Lease(Some(Lease::new("a", until)))).await;
    let why = || Due::LapsedLease {
        run: run("run"),
        host: "local".to_owned(),
    };
    is_due_from(on, &id, until, why()).await;
    on.clock.advance(Duration::from_secs(3));
    let renewed = in_ten(on);
    changed(on, &id, Change::Lease(Some(Lease::new("a", renewed)))).await;
    is_due_from(on, &id, renewed, why()).await;
    ends(on, &id, RunStatus::Completed).await;
    nothing_is_due(on).await;
}

/// A pending call whose deadline has passed, until it is answered or given up.
pub async fn a_pending_call_is_due_at_its_deadline(on: &Subject) {
    let id = created(on, "s").await;
    running(on, &id, "run").await;
    for name in ["c-1", "c-2", "c-3"] {
        let mut pending = waiting(on, &id, &run("run"), name);
        pending.deadline = (name != "c-3").then(|| in_ten(on));
        changed(on, &id, Change::Pending(Box::new(pending))).await;
    }
    ends(on, &id, RunStatus::SuspendedClientTool).await;
    let given = Change::Answer(call("c-1"), Box::new(answer(on, "c-1")));
    changed(on, &id, given).await;
    is_due_from(on, &id, in_ten(on), Due::Deadline { call: call("c-2") }).await;
    changed(on, &id, Change::RemovePending(call("c-2"))).await;
    nothing_is_due(on).await;
}

/// A paused run all of whose calls are answered: a kill between answer and continuation loses
/// nothing.
pub async fn a_suspended_run_is_due_when_all_its_calls_are_answered(on: &Subject) {
    let id = created(on, "s").await;
    running(on, &id, "run").await;
    let answering = async |name: &str| {
        let given = Change::Answer(call(name), Box::new(answer(on, name)));
        changed(on, &id, given).await;
    };
    for name in ["c-1", "c-2"] {
        let pending = waiting(on, &id, &run("run"), name);
        changed(on, &id, Change::Pending(Box::new(pending))).await;
    }
    answering("c-1").await;
    ends(on, &id, RunStatus::SuspendedStepPartial).await;
    nothing_is_due(on).await;
    answering("c-2").await;
    is_due_now(on, &id, Due::Answered { run: run("run") }).await;
    ends(on, &id, RunStatus::Failed).await;
    nothing_is_due(on).await;
    ends(on, &id, RunStatus::SuspendedClientTool).await;
    is_due_now(on, &id, Due::Answered { run: run("run") }).await;
    running(on, &id, "next").await;
    nothing_is_due(on).await;
}

/// Messages that wait and no run to take them.
pub async fn an_inbox_is_due_when_nothing_runs(on: &Subject) {
    let id = created(on, "s").await;
    let row = InboxRow::new("in", Vec::new(), on.now());
    changed(on, &id, Change::Inbox(row)).await;
    is_due_now(on, &id, Due::Inbox).await;
    running(on, &id, "run").await;
    nothing_is_due(on).await;
    ends(on, &id, RunStatus::Interrupted).await;
    is_due_now(on, &id, Due::Inbox).await;
    changed(on, &id, Change::DrainInbox(vec!["in".to_owned()])).await;
    nothing_is_due(on).await;
}

/// A request to stop a run that is suspended, so that nobody hears it.
pub async fn a_stop_is_owed_when_nobody_performs_the_run(on: &Subject) {
    let id = created(on, "s").await;
    let (asked, _) = running(on, &id, "run").await;
    changed(on, &id, Change::Stop(stop(on, &asked))).await;
    nothing_is_due(on).await;
    ends(on, &id, RunStatus::SuspendedAwaitingChildren).await;
    is_due_now(on, &id, Due::OwedStop { run: asked.clone() }).await;
    changed(on, &id, Change::ClearStop).await;
    nothing_is_due(on).await;
    changed(on, &id, Change::Stop(stop(on, &asked))).await;
    is_due_now(on, &id, Due::OwedStop { run: asked }).await;
}

/// A session that may be cleaned up.
///
/// proves: SES-11
pub async fn a_session_is_due_when_it_expires(on: &Subject) {
    let id = created(on, "s").await;
    let at = in_ten(on);
    changed(on, &id, Change::Set(Field::ExpiresAt(Some(at)))).await;
    is_due_from(on, &id, at, Due::Expired).await;
    on.sessions().delete_session(&id).await.unwrap();
    nothing_is_due(on).await;
}

/// The most overdue comes first, with all its reasons, and no more than were asked for.
pub async fn the_most_overdue_comes_first(on: &Subject) {
    for (name, after) in [("a-late", 30), ("z-early", 10), ("m-middle", 20)] {
        let id = created(on, name).await;
        let at = on.now().saturating_add(Duration::from_secs(after));
        changed(on, &id, Change::Set(Field::ExpiresAt(Some(at)))).await;
        let mut pending = waiting(on, &id, &run("run"), "c");
        pending.deadline = Some(at.saturating_add(Duration::from_secs(100)));
        changed(on, &id, Change::Pending(Box::new(pending))).await;
    }
    let at = on.now().saturating_add(Duration::from_secs(25));
    let names = async |at, limit| {
        let found = on.store.due(at, limit).await.unwrap();
        found
            .into_iter()
            .map(|(id, _)| id.as_str().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(at, 100).await, ["z-early", "m-middle"]);
    assert_eq!(names(at, 1).await, ["z-early"]);
    assert!(names(at, 0).await.is_empty());
    let at = at.saturating_add(Duration::from_secs(90));
    let found = on.store.due(at, 100).await.unwrap();
    assert_eq!(found.len(), 3);
    let both = |found: &[Due]| found.contains(&Due::Expired) && found.len() == 2;
    assert!(both(&found[0].1) && !both(&found[1].1), "{found:?}");
}
