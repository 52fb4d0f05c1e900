//! Deleting sessions, with their children, rows and stream.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::SessionId;
use helix_agents_core::budget::{Budget, BudgetAction, BudgetAmount, BudgetChange, Budgets};
use helix_agents_core::message::UserMessage;
use helix_agents_core::session::{CheckpointSource, RunStatus, SessionState, SubSessionRef};
use helix_agents_core::store::{
    Change, DueQuery, Field, InboxRow, NewSession, Page, SessionKey, SessionQuery,
};
use helix_agents_core::usage::{CustomUsage, UsageEntry, UsageKind};

use super::Subject;
use super::builders::{
    accepted, call, changed, checkpoint_of, child_of, commit, created, event, open_step, paired,
    run, running, session, sets, step, usage_id, waiting,
};
use super::everything::{chunks, everything, everything_under};

/// Fills every kind of row of a session.
async fn fill(on: &Subject, root: &SessionId, id: &SessionId) {
    let (run, _) = running(on, id, "run").await;
    let usage = UsageKind::Custom(CustomUsage::new("n", 1.0));
    let child = SubSessionRef::new(session("ref"), "helper", call("c-3"), on.now());
    let mut pending = waiting(on, id, &run, "c-1");
    pending.root_session_id = root.clone();
    pending.deadline = Some(on.now());
    let changes = [
        Change::AppendUser(UserMessage::new("hello")),
        Change::AppendStep(paired(&["c-0"])),
        Change::WriteState(sets("a", 1)),
        Change::Checkpoint(checkpoint_of(on, id, "cp"), CheckpointSource::Save),
        Change::OpenStep(Some(Arc::new(open_step(&run, "step", &["c-1"])))),
        Change::Pending(Box::new(pending)),
        Change::Child(Box::new(child)),
        Change::Inbox(InboxRow::new("in", Vec::new(), on.now())),
        Change::Usage(UsageEntry {
            id: usage_id("u"),
            run_id: run,
            step: 1,
            timestamp: on.now(),
            kind: usage,
        }),
        Change::Stage(step("step"), call("c-1"), sets("b", 1)),
        Change::RetireCallIds(vec![call("c-8")]),
    ];
    let commit = changes
        .into_iter()
        .fold(commit(on, root), |commit, change| {
            commit.then_in(id.clone(), change)
        });
    accepted(on, commit.say(event(on, id, "filled"))).await;
}

/// A root, its child, its grandchild and its great-grandchild, all full.
async fn family(on: &Subject, prefix: &str) -> Vec<SessionId> {
    let root = created(on, &format!("{prefix}-0")).await;
    let mut all = vec![root.clone()];
    for depth in 1..=3 {
        let name = format!("{prefix}-{depth}");
        all.push(child_of(on, &all[depth - 1], &root, &name).await);
    }
    for id in &all {
        fill(on, &root, id).await;
    }
    all
}

/// Deleting a session removes its children to any depth, every row, and the stream; other sessions
/// stay.
///
/// proves: SES-13
pub async fn deleting_takes_children_rows_and_stream(on: &Subject) {
    let untouched: Vec<_> = ["doomed-0", "doomed-1", "doomed-2", "doomed-3"]
        .map(session)
        .into();
    let empty = everything_under(on, &untouched[0], &untouched).await;
    let doomed = family(on, "doomed").await;
    assert!(on.sessions().delete_session(&doomed[0]).await.unwrap());
    for on in [on, on.elsewhere()] {
        assert_eq!(
            everything_under(on, &doomed[0], &doomed).await,
            empty,
            "nothing is left of any of them"
        );
    }
    assert!(
        !on.sessions().delete_session(&doomed[0]).await.unwrap(),
        "it is gone already"
    );

    let kept = family(on, "kept").await;
    let doomed = family(on, "doomed").await;
    let kept: Vec<_> = kept.iter().collect();
    on.sessions().delete_session(&doomed[0]).await.unwrap();
    for id in kept {
        assert!(on.sessions().session_exists(id).await.unwrap());
    }
}

/// All children are removed, however many there are.
///
/// proves: SES-13
pub async fn deleting_takes_more_children_than_a_page_holds(on: &Subject) {
    let root = created(on, "root").await;
    for index in 0..Page::MAX + 5 {
        child_of(on, &root, &root, &format!("child-{index}")).await;
    }
    on.sessions().delete_session(&root).await.unwrap();
    let left = on.store.list(&SessionQuery::default()).await.unwrap();
    assert_eq!(left.total, 0, "nothing is left: {:?}", left.items);
}

/// Deleting a child leaves its parent and the stream, which belongs to the root.
///
/// proves: SES-13
pub async fn deleting_a_child_leaves_its_parent(on: &Subject) {
    let all = family(on, "f").await;
    let root = [&all[0]];
    let before = on.streams.info(&all[0]).await.unwrap();
    assert!(on.sessions().delete_session(&all[2]).await.unwrap());
    for (id, exists) in all.iter().zip([true, true, false, false]) {
        assert_eq!(
            on.sessions().session_exists(id).await.unwrap(),
            exists,
            "{id}"
        );
    }
    assert_eq!(on.streams.info(root[0]).await.unwrap(), before);
}

/// A session that is created again under the same id has nothing of the deleted one.
pub async fn a_session_made_again_starts_fresh(on: &Subject) {
    let id = created(on, "s").await;
    let mut never_used = everything(on, &[&id]).await;
    fill(on, &id, &id).await;
    let before = on.store.load(id.as_root()).await.unwrap().unwrap().fence;
    on.sessions().delete_session(&id).await.unwrap();
    created(on, "s").await;
    let found = on.store.load(id.as_root()).await.unwrap().unwrap();
    assert!(found.fence > before, "its runs are not the old one's");
    never_used.set_fence(&id, found.fence);
    assert_eq!(everything(on, &[&id]).await, never_used);
    let said = accepted(on, commit(on, &id).say(event(on, &id, "first"))).await;
    let chunks = chunks(on, &id).await;
    assert_eq!((chunks.len(), chunks[0].sequence), (1, said.sequence));
}

/// A deletion and the other changes of its commit are made together.
pub async fn a_session_can_be_replaced_in_one_commit(on: &Subject) {
    let id = created(on, "s").await;
    fill(on, &id, &id).await;
    let fresh = SessionState::new(id.clone(), "new", on.now());
    let swap = commit(on, &id)
        .then(Change::Delete)
        .then(Change::Create(Box::new(fresh)));
    accepted(on, swap).await;
    let found = on.store.load(id.as_root()).await.unwrap().unwrap();
    assert_eq!(
        (found.state.agent_type.as_str(), found.message_count),
        ("new", 0)
    );
    assert!(found.open_step.is_none() && found.run.is_none() && found.inbox.is_empty());
    let family = on.store.extras(id.as_root()).await.unwrap();
    assert_eq!(family, Default::default());
}

async fn expiring(on: &Subject, name: &str, after: u64) -> SessionId {
    let id = session(name);
    let mut new = NewSession::of("agent");
    new.expires_at = Some(on.now().saturating_add(Duration::from_millis(after)));
    on.sessions().create_session(&id, new).await.unwrap();
    id
}

/// Expired sessions are removed with their children. Sessions that have not expired stay, and so do
/// expired ones while a run of the session or of a child is running.
///
/// proves: SES-11
pub async fn expired_sessions_are_removed_with_their_children(on: &Subject) {
    let (soon, later) = (
        expiring(on, "soon", 1_000).await,
        expiring(on, "later", 1_001).await,
    );
    let child = child_of(on, &soon, &soon, "child").await;
    fill(on, &soon, &child).await;
    let never = created(on, "never").await;
    on.clock.advance(Duration::from_millis(999));
    assert_eq!(on.sessions().cleanup_expired(100).await.unwrap(), 0);
    on.clock.advance(Duration::from_millis(1));
    let cleaned = on.sessions().cleanup_expired(100).await.unwrap();
    assert_eq!(cleaned, 0, "the child's run is still running");
    on.sessions()
        .update_run_status(&child, &run("run"), RunStatus::Completed)
        .await
        .unwrap();
    assert_eq!(on.sessions().cleanup_expired(100).await.unwrap(), 1);
    for (id, exists) in [
        (&soon, false),
        (&child, false),
        (&later, true),
        (&never, true),
    ] {
        assert_eq!(
            on.sessions().session_exists(id).await.unwrap(),
            exists,
            "{id}"
        );
    }
    assert_eq!(on.streams.info(&soon).await.unwrap(), None);
    changed(on, &later, Change::Set(Field::ExpiresAt(None))).await;
    on.clock.advance(Duration::from_secs(9));
    assert_eq!(
        on.sessions().cleanup_expired(100).await.unwrap(),
        0,
        "it was given more time"
    );
}

/// Expired sessions are found even if there is much other due work.
///
/// proves: SES-11
pub async fn expired_sessions_are_found_among_other_due_work(on: &Subject) {
    for index in 0..9 {
        let id = created(on, &format!("busy-{index}")).await;
        let row = InboxRow::new("in", Vec::new(), on.now());
        changed(on, &id, Change::Inbox(row)).await;
        expiring(on, &format!("old-{index}"), 0).await;
    }
    assert_eq!(on.sessions().cleanup_expired(2).await.unwrap(), 2);
    assert_eq!(on.sessions().cleanup_expired(100).await.unwrap(), 7);
    let busy = on.store.due(&DueQuery::at(on.now())).await.unwrap();
    assert_eq!(busy.items.len(), 9, "those stay");
}

/// What a child has reserved of the budget of its tree is free once the child, or a session above it, is deleted.
pub async fn a_deleted_child_leaves_no_reservation(on: &Subject) {
    let root = created(on, "s").await;
    let child = child_of(on, &root, &root, "child").await;
    let below = child_of(on, &child, &root, "below").await;
    let beside = child_of(on, &root, &root, "beside").await;
    for id in [&root, &child, &below, &beside] {
        let tree = (*id == root).then(|| Budgets::new().tree(Budget::new().tokens(1_000)));
        let starts = BudgetAction::Start {
            agent: tree,
            requested: Budgets::new(),
            new_turn: true,
            next: Some(BudgetAmount::default()),
            step: Some(1),
        };
        let change = BudgetChange::new(id.clone(), run("run"), starts);
        changed(on, &root, Change::Budget(Box::new(change))).await;
    }
    let reserved = async || {
        let found = on.store.load(root.as_root()).await.unwrap().unwrap();
        let ledger = found.budget.expect("the tree has a limit");
        let all = ledger.sessions.iter();
        let reserved = all.filter(|(_, account)| account.reserved.is_some());
        reserved.map(|(id, _)| id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(reserved().await.len(), 4);
    assert!(on.sessions().delete_session(&child).await.unwrap());
    let mut left = [root.clone(), beside.clone()];
    left.sort();
    assert_eq!(reserved().await, left);
    changed(on, &beside, Change::Set(Field::ExpiresAt(Some(on.now())))).await;
    let key = SessionKey::new(&root, &beside);
    let deleted = on.sessions().delete_expired(key, on.now()).await;
    assert!(deleted.unwrap());
    assert_eq!(reserved().await, std::slice::from_ref(&root));
    assert!(on.sessions().delete_session(&root).await.unwrap());
}
