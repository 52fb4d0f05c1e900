//! Due work, and the instant from which it is due.

use std::collections::BTreeMap;
use std::time::Duration;

use helix_agents_core::SessionId;
use helix_agents_core::session::RunStatus;
use helix_agents_core::store::{
    Backlog, Change, DueKind, DueQuery, DueReason, Field, InboxRow, LeaseRequest, NewSession,
};
use helix_agents_core::time::Timestamp;

use super::Subject;
use super::builders::{answer, call, changed, created, run, running, session, stop, waiting};

async fn due(on: &Subject, at: Timestamp) -> Vec<(SessionId, Vec<DueReason>)> {
    let page = on.elsewhere().store.due(&DueQuery::at(at)).await.unwrap();
    assert_eq!(page.next, None, "that is all");
    let items = page.items.into_iter();
    items.map(|due| (due.session, due.reasons)).collect()
}

/// Holds that a session is due for this reason alone from an instant on, and not before.
async fn is_due_from(on: &Subject, id: &SessionId, from: Timestamp, why: DueReason) {
    let before = from.since(on.now()) - Duration::from_millis(1);
    on.clock.advance(before);
    assert_eq!(due(on, on.now()).await, [], "{why:?} is not due yet");
    let wanted = vec![(id.clone(), vec![why])];
    for wait in [Duration::from_millis(1), Duration::from_secs(999)] {
        on.clock.advance(wait);
        assert_eq!(due(on, on.now()).await, wanted);
    }
}

async fn is_due_now(on: &Subject, id: &SessionId, why: DueReason) {
    assert_eq!(due(on, on.now()).await, [(id.clone(), vec![why])]);
}

async fn nothing_is_due(on: &Subject) {
    let far = on.now().saturating_add(Duration::from_secs(1 << 30));
    assert_eq!(due(on, far).await, []);
}

async fn nothing_is_due_yet(on: &Subject) {
    assert_eq!(due(on, on.now()).await, []);
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

/// A run whose lease has lapsed is due; a run without a lease is left to its host.
pub async fn a_running_run_is_due_when_its_lease_lapses(on: &Subject) {
    let id = created(on, "s").await;
    nothing_is_due(on).await;
    running(on, &id, "run").await;
    nothing_is_due(on).await;
    let ten = || Change::Lease(Some(LeaseRequest::new("a", Duration::from_secs(10))));
    let until = in_ten(on);
    changed(on, &id, ten()).await;
    let why = || DueReason::LapsedLease {
        run: run("run"),
        host: "local".to_owned(),
    };
    is_due_from(on, &id, until, why()).await;
    on.clock.advance(Duration::from_secs(3));
    let renewed = in_ten(on);
    changed(on, &id, ten()).await;
    is_due_from(on, &id, renewed, why()).await;
    changed(on, &id, ten()).await;
    nothing_is_due_yet(on).await;
    let given_up = Change::Lease(Some(LeaseRequest::given_up("a")));
    changed(on, &id, given_up).await;
    is_due_now(on, &id, why()).await;
    ends(on, &id, RunStatus::Completed).await;
    nothing_is_due(on).await;
}

/// A pending call whose deadline has passed is due, until it is answered or abandoned.
pub async fn a_pending_call_is_due_at_its_deadline(on: &Subject) {
    let id = created(on, "s").await;
    running(on, &id, "run").await;
    let deadline = in_ten(on);
    for name in ["c-1", "c-2", "c-3"] {
        let mut pending = waiting(on, &id, &run("run"), name);
        pending.deadline = (name != "c-3").then_some(deadline);
        changed(on, &id, Change::Pending(Box::new(pending))).await;
    }
    ends(on, &id, RunStatus::SuspendedClientTool).await;
    let given = Change::Answer(call("c-1"), Box::new(answer(on, "c-1")));
    changed(on, &id, given).await;
    is_due_from(on, &id, deadline, DueReason::Deadline { call: call("c-2") }).await;
    changed(on, &id, Change::RemovePending(call("c-2"))).await;
    nothing_is_due(on).await;
}

/// A pending call of which readers are to be warned is due then, until they are warned or it is answered.
pub async fn a_pending_call_is_due_for_its_warning(on: &Subject) {
    let id = created(on, "s").await;
    running(on, &id, "run").await;
    let warning = in_ten(on);
    for name in ["c-1", "c-2", "c-3"] {
        let mut pending = waiting(on, &id, &run("run"), name);
        pending.deadline = Some(warning.saturating_add(Duration::from_secs(3_600)));
        pending.warn_at = (name != "c-3").then_some(warning);
        changed(on, &id, Change::Pending(Box::new(pending))).await;
    }
    let given = Change::Answer(call("c-1"), Box::new(answer(on, "c-1")));
    changed(on, &id, given).await;
    let why = DueReason::ExpiringSoon { call: call("c-2") };
    is_due_from(on, &id, warning, why).await;
    let mut warned = waiting(on, &id, &run("run"), "c-2");
    warned.deadline = Some(warning.saturating_add(Duration::from_secs(3_600)));
    changed(on, &id, Change::Pending(Box::new(warned))).await;
    nothing_is_due_yet(on).await;
}

/// A paused run whose calls are all answered is due, so that a crash between answer and
/// continuation loses nothing.
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
    is_due_now(on, &id, DueReason::Answered { run: run("run") }).await;
    ends(on, &id, RunStatus::Failed).await;
    nothing_is_due(on).await;
    ends(on, &id, RunStatus::SuspendedClientTool).await;
    is_due_now(on, &id, DueReason::Answered { run: run("run") }).await;
    running(on, &id, "next").await;
    nothing_is_due(on).await;
}

/// A session with waiting messages and no running run is due.
pub async fn an_inbox_is_due_when_nothing_runs(on: &Subject) {
    let id = created(on, "s").await;
    let row = InboxRow::new("in", Vec::new(), on.now());
    changed(on, &id, Change::Inbox(row)).await;
    is_due_now(on, &id, DueReason::Inbox).await;
    running(on, &id, "run").await;
    nothing_is_due(on).await;
    ends(on, &id, RunStatus::Interrupted).await;
    is_due_now(on, &id, DueReason::Inbox).await;
    changed(on, &id, Change::DrainInbox(vec!["in".to_owned()])).await;
    nothing_is_due(on).await;
}

/// A session is due when its suspended run was asked to stop, because no process is running it.
pub async fn a_stop_is_owed_when_nobody_performs_the_run(on: &Subject) {
    let id = created(on, "s").await;
    let (asked, _) = running(on, &id, "run").await;
    changed(on, &id, Change::Stop(stop(on, &asked))).await;
    nothing_is_due(on).await;
    ends(on, &id, RunStatus::SuspendedAwaitingChildren).await;
    is_due_now(on, &id, DueReason::OwedStop { run: asked.clone() }).await;
    changed(on, &id, Change::ClearStop).await;
    nothing_is_due(on).await;
    changed(on, &id, Change::Stop(stop(on, &asked))).await;
    is_due_now(on, &id, DueReason::OwedStop { run: asked }).await;
}

/// An expired session is due, but never while a run is running in it.
///
/// proves: SES-11
pub async fn a_session_is_due_when_it_expires(on: &Subject) {
    let id = created(on, "s").await;
    let at = in_ten(on);
    changed(on, &id, Change::Set(Field::ExpiresAt(Some(at)))).await;
    is_due_from(on, &id, at, DueReason::Expired).await;
    running(on, &id, "run").await;
    nothing_is_due(on).await;
    ends(on, &id, RunStatus::Completed).await;
    is_due_now(on, &id, DueReason::Expired).await;
    on.sessions().delete_session(&id).await.unwrap();
    nothing_is_due(on).await;
}

/// The most overdue session comes first, with all its reasons, and the limit of the query is kept.
pub async fn the_most_overdue_comes_first(on: &Subject) {
    for (name, after) in [("a-late", 30), ("z-early", 10), ("m-middle", 20)] {
        let id = created(on, name).await;
        let at = on.now().saturating_add(Duration::from_secs(after));
        changed(on, &id, Change::Set(Field::ExpiresAt(Some(at)))).await;
        let mut pending = waiting(on, &id, &run("run"), "c");
        pending.deadline = Some(at.saturating_add(Duration::from_secs(100)));
        changed(on, &id, Change::Pending(Box::new(pending))).await;
    }
    let names = async |limit| {
        let query = DueQuery::at(on.now()).limit(limit);
        let found = on.store.due(&query).await.unwrap().items;
        found
            .into_iter()
            .map(|due| due.session.as_str().to_owned())
            .collect::<Vec<_>>()
    };
    on.clock.advance(Duration::from_secs(25));
    assert_eq!(names(100).await, ["z-early", "m-middle"]);
    assert_eq!(names(1).await, ["z-early"]);
    assert!(names(0).await.is_empty());
    on.clock.advance(Duration::from_secs(90));
    let found = due(on, on.now()).await;
    assert_eq!(found.len(), 3);
    let both = |found: &[DueReason]| found.contains(&DueReason::Expired) && found.len() == 2;
    assert!(both(&found[0].1) && !both(&found[1].1), "{found:?}");
}

/// Creates a session that is due for two reasons: its inbox from now on, its expiry since `ago`.
async fn busy(on: &Subject, name: &str, agent: &str, ago: u64) -> SessionId {
    let id = session(name);
    let mut new = NewSession::of(agent);
    new.expires_at = Some(Timestamp::from_millis(on.now().as_millis() - ago));
    on.sessions().create_session(&id, new).await.unwrap();
    let row = InboxRow::new("in", Vec::new(), on.now());
    changed(on, &id, Change::Inbox(row)).await;
    id
}

/// A query returns only the requested kinds of work and agents.
pub async fn due_work_is_asked_for_by_kind_and_agent(on: &Subject) {
    for (name, agent) in [("a", "one"), ("b", "two"), ("c", "three"), ("d", "one")] {
        busy(on, name, agent, 1_000).await;
    }
    let ask = async |query: DueQuery| {
        let found = on.elsewhere().store.due(&query).await.unwrap().items;
        let shown = found
            .into_iter()
            .map(|due| (due.session.as_str().to_owned(), due.reasons));
        shown.collect::<Vec<_>>()
    };
    let given = |names: &[&str], due: &[DueReason]| {
        let all = names.iter().map(|name| ((*name).to_owned(), due.to_vec()));
        all.collect::<Vec<_>>()
    };
    let query = || DueQuery::at(on.now());
    let expired = ask(query().of_kinds([DueKind::Expired])).await;
    assert_eq!(expired, given(&["a", "b", "c", "d"], &[DueReason::Expired]));
    let inbox = ask(query().of_kinds([DueKind::Inbox]).of_agents(["one"])).await;
    assert_eq!(inbox, given(&["a", "d"], &[DueReason::Inbox]));
    let both = ask(query().of_agents(["two", "three", "nobody"])).await;
    assert_eq!(
        both,
        given(&["b", "c"], &[DueReason::Inbox, DueReason::Expired])
    );
    let none = Vec::<(String, Vec<DueReason>)>::new();
    assert_eq!(ask(query().of_agents(Vec::<String>::new())).await, none);
    assert_eq!(ask(query().of_kinds([DueKind::Answered])).await, none);
    // Another agent is another owner of its due work.
    let mut moved = on
        .store
        .load(session("a").as_root())
        .await
        .unwrap()
        .unwrap()
        .state;
    moved.agent_type = "two".into();
    changed(on, &session("a"), Change::Overwrite(Box::new(moved))).await;
    let two = ask(query().of_kinds([DueKind::Inbox]).of_agents(["two"])).await;
    assert_eq!(two, given(&["a", "b"], &[DueReason::Inbox]));
    on.sessions().delete_session(&session("b")).await.unwrap();
    let two = ask(query().of_agents(["two"])).await;
    assert_eq!(two, given(&["a"], &[DueReason::Inbox, DueReason::Expired]));
}

/// The pages together have every session once, whatever their size, also when the sessions of a
/// page are processed before the next page is read.
pub async fn pages_of_due_work_miss_nothing(on: &Subject) {
    let mut all = Vec::new();
    for index in 0..12_u64 {
        let agent = ["one", "two", "three"][usize::try_from(index % 3).unwrap()];
        // Several since the same instant, in another order than their names.
        all.push(busy(on, &format!("s-{}", (index * 7) % 12), agent, index / 2).await);
    }
    all.sort();
    for limit in [1, 2, 3, 5, 12, 100] {
        let mut query = DueQuery::at(on.now()).of_agents(["one", "two", "three"]);
        query = query.limit(limit);
        let mut seen = Vec::new();
        loop {
            let page = on.store.due(&query).await.unwrap();
            assert!(page.items.len() <= limit, "no more than were asked for");
            for due in page.items {
                assert_eq!(due.reasons.len(), 2, "with all its reasons");
                if limit == 100 {
                    on.sessions().delete_session(&due.session).await.unwrap();
                }
                seen.push(due.session);
            }
            match page.next {
                Some(next) => query = query.after(Some(next)),
                None => break,
            }
        }
        seen.sort();
        assert_eq!(seen, all, "in pages of {limit}");
    }
    nothing_is_due(on).await;
}

/// A backlog counts pending calls, valid leases and due sessions. It does not count anything that
/// has ended, nor sessions that are only expired.
pub async fn a_backlog_counts_pending_calls_leases_and_due_sessions(on: &Subject) {
    let backlog = async || on.elsewhere().store.backlog(on.now()).await.unwrap();
    assert_eq!(backlog().await, Backlog::default(), "nothing waits yet");

    let asked = on.now();
    let paused = created(on, "paused").await;
    let (paused_run, _) = running(on, &paused, "run").await;
    for name in ["c-1", "c-2"] {
        let pending = waiting(on, &paused, &paused_run, name);
        changed(on, &paused, Change::Pending(Box::new(pending))).await;
        on.clock.advance(Duration::from_secs(1));
    }
    for name in ["held", "lapses"] {
        let id = created(on, name).await;
        running(on, &id, "run").await;
        let lasts = Duration::from_secs(if name == "held" { 60 } else { 5 });
        let lease = LeaseRequest::new("somebody", lasts);
        changed(on, &id, Change::Lease(Some(lease))).await;
    }
    let expiring = created(on, "expiring").await;
    let expires = Field::ExpiresAt(Some(on.now()));
    changed(on, &expiring, Change::Set(expires)).await;
    let inbox = created(on, "inbox").await;
    let row = InboxRow::new("in-1", Vec::new(), on.now());
    changed(on, &inbox, Change::Inbox(row)).await;

    let before = backlog().await;
    assert_eq!(
        (before.pending_calls, before.oldest_pending),
        (2, Some(asked))
    );
    assert_eq!(before.leases, 2);
    let inbox_only = BTreeMap::from([(DueKind::Inbox, 1)]);
    assert_eq!(before.due, inbox_only);

    on.clock.advance(Duration::from_secs(5));
    let change = Change::Answer(call("c-1"), Box::new(answer(on, "c-1")));
    changed(on, &paused, change).await;
    let after = backlog().await;
    let second = asked.saturating_add(Duration::from_secs(1));
    assert_eq!(
        (after.pending_calls, after.oldest_pending),
        (1, Some(second))
    );
    assert_eq!(after.leases, 1);
    let due = BTreeMap::from([(DueKind::LapsedLease, 1), (DueKind::Inbox, 1)]);
    assert_eq!(after.due, due);
}
