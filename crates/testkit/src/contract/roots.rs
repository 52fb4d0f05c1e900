//! A root and the sessions under it belong together: an operation that names another root finds
//! nothing.

use helix_agents_core::SessionId;
use helix_agents_core::message::UserMessage;
use helix_agents_core::session::SessionState;
use helix_agents_core::store::{
    AnsweredCall, Change, Commit, Field, Lookup, NewCheckpoint, NewSession, Page, Precondition,
    SessionExtras, SessionKey, SessionQuery, StoreError,
};
use helix_agents_core::stream::{StreamStatus, StreamWriter};

use super::Subject;
use super::builders::{
    accepted, call, changed, checkpoint, child_of, commit, created, event, paired, run, running,
    session, sets, started, text,
};
use super::everything::everything;
use super::full_session::full_session;

fn state(on: &Subject, name: &str, root: Option<&SessionId>) -> SessionState {
    let mut state = SessionState::new(session(name), "helper", on.now());
    state.parent_session_id = root.cloned();
    state.root_session_id = root.cloned();
    state
}

fn append_user(text: &str) -> Change {
    Change::AppendUser(UserMessage::new(text))
}

fn creating(on: &Subject, under: &SessionId, state: SessionState) -> Commit {
    let id = state.session_id.clone();
    commit(on, under).then_in(id, Change::Create(Box::new(state)))
}

async fn is_missing(on: &Subject, commit: Commit, missing: &SessionId) {
    let shown = format!("{commit:?}");
    match on.store.commit(commit).await {
        Err(StoreError::NotFound { session }) => assert_eq!(session, *missing, "{shown}"),
        other => panic!("{missing} must not be found for {shown}: {other:?}"),
    }
}

async fn is_taken(on: &Subject, commit: Commit, id: &SessionId) {
    match on.store.commit(commit).await {
        Err(StoreError::AlreadyExists { session }) => assert_eq!(session, *id),
        other => panic!("{id} is taken: {other:?}"),
    }
}

/// Creates a child with content in every part, under a root.
async fn filled(on: &Subject, root: &SessionId, name: &str) -> SessionId {
    let child = child_of(on, root, root, name).await;
    running(on, &child, "run").await;
    for change in [
        append_user("hello"),
        Change::AppendStep(paired(&["c-0"])),
        Change::WriteState(sets("a", 1)),
        Change::Set(Field::CompletedCall(AnsweredCall::new(
            call("c-9"),
            on.now(),
        ))),
        Change::RetireCallIds(vec![call("c-8")]),
    ] {
        changed(on, &child, change).await;
    }
    let sessions = on.sessions();
    let new = NewCheckpoint::new(checkpoint("cp"), run("run"));
    sessions.create_checkpoint(&child, new).await.unwrap();
    child
}

/// Every read of a session names its root. Under another root the session does not exist.
pub async fn a_read_finds_a_session_under_its_root_only(on: &Subject) {
    let (root, _) = full_session(on, "root").await;
    let other = created(on, "other").await;
    let child = filled(on, &root, "child").await;
    let all = Lookup::Page(Page::ALL);
    for on in [on, on.elsewhere()] {
        let store = &on.store;
        let key = SessionKey::new(&root, &child);
        assert_eq!(store.load(key).await.unwrap().unwrap().state.key(), key);
        assert_eq!(store.messages(key, Page::ALL).await.unwrap().total, 3);
        assert_eq!(
            store
                .runs(key, Lookup::One(run("run")))
                .await
                .unwrap()
                .total,
            1
        );
        assert_eq!(store.checkpoints(key, all.clone()).await.unwrap().total, 1);
        assert_eq!(
            store
                .answered(key, Lookup::Page(Page::ALL))
                .await
                .unwrap()
                .total,
            1
        );
        assert_eq!(store.extras(key).await.unwrap().retired_call_ids.len(), 1);
        assert!(store.state_at(key, 1).await.is_ok());
        for astray in [
            child.as_root(),
            SessionKey::new(&other, &child),
            SessionKey::new(&child, &root),
            SessionKey::new(&other, &root),
        ] {
            assert_eq!(store.load(astray).await.unwrap(), None, "{astray}");
            assert_eq!(store.messages(astray, Page::ALL).await.unwrap().total, 0);
            let runs = store.runs(astray, Lookup::One(run("run"))).await.unwrap();
            assert_eq!(runs.total, 0, "{astray}");
            assert_eq!(
                store
                    .runs(astray, Lookup::Page(Page::ALL))
                    .await
                    .unwrap()
                    .total,
                0
            );
            assert_eq!(
                store.checkpoints(astray, all.clone()).await.unwrap().total,
                0
            );
            let answered = store.answered(astray, Lookup::Page(Page::ALL)).await;
            assert_eq!(answered.unwrap().total, 0, "{astray}");
            assert_eq!(
                store.extras(astray).await.unwrap(),
                SessionExtras::default()
            );
            assert_eq!(store.usage(astray, Page::ALL).await.unwrap().total, 0);
            let state = store.state_at(astray, 1).await;
            assert!(
                matches!(state, Err(StoreError::NotFound { .. })),
                "{state:?}"
            );
            let stop = on.stops.stopped(astray, &run("run")).await;
            assert!(matches!(stop, Err(StoreError::NotFound { .. })), "{stop:?}");
        }
    }
}

/// A commit reaches the sessions of its own root only. Those of other roots do not exist for it,
/// and nothing is written.
pub async fn a_commit_reaches_sessions_under_its_root_only(on: &Subject) {
    let (root, _) = full_session(on, "root").await;
    let child = filled(on, &root, "child").await;
    let other = created(on, "other").await;
    let all = [&root, &child, &other];
    let before = everything(on, &all).await;
    for (under, id) in [
        (&other, &child),
        (&other, &root),
        (&child, &child),
        (&child, &root),
    ] {
        for change in [
            append_user("astray"),
            Change::Set(Field::OneStepMore),
            Change::RaiseFence,
            Change::Delete,
            Change::StartRun(Box::new(started(on, id, "astray"))),
        ] {
            is_missing(on, commit(on, under).then_in(id.clone(), change), id).await;
        }
        for condition in [Precondition::Exists, Precondition::CurrentRun(None)] {
            is_missing(on, commit(on, under).when_in(id.clone(), condition), id).await;
        }
        let version = Precondition::Version(before_version(on, id).await);
        let refused = on
            .store
            .commit(commit(on, under).when_in(id.clone(), version))
            .await;
        assert!(
            matches!(refused, Err(StoreError::Refused { .. })),
            "{refused:?}"
        );
        let absent = commit(on, under).when_in(id.clone(), Precondition::Absent);
        is_taken(on, absent, id).await;
    }
    // The stream of a root is the root's.
    is_missing(
        on,
        commit(on, &child).say(event(on, &child, "astray")),
        &child,
    )
    .await;
    is_missing(on, commit(on, &child).stream(StreamStatus::Ended), &child).await;
    let fence = on.store.find(&child).await.unwrap().unwrap().fence;
    let astray = StreamWriter::new(child.clone(), child.clone(), fence);
    let deltas = vec![text(on, &child, "astray")];
    assert!(on.streams.append_deltas(&astray, deltas).await.is_err());
    assert_eq!(everything(on, &all).await, before, "nothing is written");
}

async fn before_version(on: &Subject, id: &SessionId) -> u64 {
    on.store.find(id).await.unwrap().unwrap().state.version
}

/// A session is created under a root that exists at the time of the commit, or is created by it.
pub async fn a_session_is_made_under_a_root_that_is_there(on: &Subject) {
    let root = session("root");
    is_missing(
        on,
        creating(on, &root, state(on, "child", Some(&root))),
        &root,
    )
    .await;
    let mut new = NewSession::of("helper");
    new.family = Some((root.clone(), root.clone()));
    let refused = on.sessions().create_session(&session("child"), new).await;
    assert!(
        matches!(refused, Err(StoreError::NotFound { .. })),
        "{refused:?}"
    );
    let none = everything(on, &[]).await;

    // Together with its root, in either order.
    let both = creating(on, &root, state(on, "child", Some(&root)));
    let both = both.then(Change::Create(Box::new(state(on, "root", None))));
    accepted(on, both).await;
    let child = session("child");
    let key = SessionKey::new(&root, &child);
    assert!(on.store.load(key).await.unwrap().is_some());

    // Not under a root that goes at the same time, nor under one that is no root, nor as if under
    // another than the commit is for.
    let late = creating(on, &root, state(on, "late", Some(&root)));
    is_missing(on, late.then(Change::Delete), &root).await;
    let below = creating(on, &child, state(on, "late", Some(&child)));
    is_missing(on, below, &child).await;
    let other = created(on, "other").await;
    for astray in [
        creating(on, &root, state(on, "late", Some(&other))),
        creating(on, &root, state(on, "late", None)),
    ] {
        let refused = on.store.commit(astray).await;
        assert!(
            matches!(refused, Err(StoreError::Invalid { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(on.store.find(&session("late")).await.unwrap(), None);
    for id in [&root, &other] {
        assert!(on.sessions().delete_session(id).await.unwrap());
    }
    assert_eq!(everything(on, &[]).await, none);
}

/// The parent of a session exists under the same root, so that removing a root finds everything
/// under it through the parents.
///
/// proves: SES-13
pub async fn a_session_is_created_under_an_existing_parent(on: &Subject) {
    let (root, other) = (created(on, "root").await, created(on, "other").await);
    let child = child_of(on, &root, &root, "child").await;
    assert!(on.sessions().delete_session(&child).await.unwrap());
    let under = |name: &str, parent: Option<&SessionId>| {
        let mut state = state(on, name, Some(&root));
        state.parent_session_id = parent.cloned();
        state
    };
    let [late, later] = ["late", "later"].map(session);
    for parent in [&child, &other] {
        let astray = creating(on, &root, under("late", Some(parent)));
        is_missing(on, astray, parent).await;
    }
    // Removing one that is its own parent or ancestor would not find it, or come to no end.
    let circle = creating(on, &root, under("late", Some(&later)));
    let circle = circle.then_in(
        later.clone(),
        Change::Create(Box::new(under("later", Some(&late)))),
    );
    for astray in [
        creating(on, &root, under("late", Some(&late))),
        creating(on, &root, under("late", None)),
        circle,
    ] {
        let refused = on.store.commit(astray).await;
        assert!(
            matches!(refused, Err(StoreError::Invalid { .. })),
            "{refused:?}"
        );
    }
    // A parent may be made in the same commit, before or after its child.
    let chain = creating(on, &root, under("later", Some(&late)));
    let chain = chain.then_in(
        late.clone(),
        Change::Create(Box::new(under("late", Some(&root)))),
    );
    accepted(on, chain).await;
    for id in [&root, &other] {
        let removed = on.sessions().delete_session(id).await;
        assert!(matches!(removed, Ok(true)), "{id}: {removed:?}");
    }
    let left = on.store.list(&SessionQuery::default()).await.unwrap();
    assert_eq!(
        left.total, 0,
        "sessions without their root: {:?}",
        left.items
    );
}

/// An id names one session, whatever its root.
pub async fn an_id_is_one_session(on: &Subject) {
    let (one, two) = (created(on, "one").await, created(on, "two").await);
    let child = child_of(on, &one, &one, "child").await;
    let all = [&one, &two, &child];
    let before = everything(on, &all).await;
    for on in [on, on.elsewhere()] {
        is_taken(on, creating(on, &child, state(on, "child", None)), &child).await;
        is_taken(
            on,
            creating(on, &two, state(on, "child", Some(&two))),
            &child,
        )
        .await;
        is_taken(on, creating(on, &two, state(on, "one", Some(&two))), &one).await;
    }
    assert_eq!(everything(on, &all).await, before);
}

/// A lookup by id alone gives the root of a child, and finds roots and children alike.
pub async fn a_session_is_found_by_its_id_alone(on: &Subject) {
    let root = created(on, "root").await;
    let child = child_of(on, &root, &root, "child").await;
    let grandchild = child_of(on, &child, &root, "grandchild").await;
    for on in [on, on.elsewhere()] {
        for (id, wanted) in [
            (&root, None),
            (&child, Some(&root)),
            (&grandchild, Some(&root)),
        ] {
            assert_eq!(on.store.root_of(id).await.unwrap().as_ref(), wanted, "{id}");
            let found = on.store.find(id).await.unwrap().unwrap();
            assert_eq!(found.state.key(), SessionKey::new(&root, id));
        }
        assert_eq!(on.store.root_of(&session("none")).await.unwrap(), None);
        assert_eq!(on.store.find(&session("none")).await.unwrap(), None);
    }
    // Operations that are told an id and nothing else work on children too.
    let sessions = on.sessions();
    sessions.increment_step_count(&grandchild).await.unwrap();
    let count = sessions.append_messages(&grandchild, &[], Some(0)).await;
    assert_eq!(count.unwrap().message_count, 0);
    let loaded = sessions.load_state(&grandchild).await.unwrap().unwrap();
    assert_eq!((loaded.step_count, loaded.root()), (1, &root));
}

/// A child whose commit was refused does not stop anybody from creating and finding another session
/// with its id.
pub async fn a_child_that_was_not_created_does_not_block_its_id(on: &Subject) {
    let (one, two) = (created(on, "one").await, created(on, "two").await);
    let name = session("child");
    let never = async |under: &SessionId| {
        let child = creating(on, under, state(on, "child", Some(under)));
        let refused = on.store.commit(child.when(Precondition::Version(99))).await;
        assert!(
            matches!(refused, Err(StoreError::Refused { .. })),
            "{refused:?}"
        );
        assert_eq!(on.store.find(&name).await.unwrap(), None);
        assert!(!on.sessions().session_exists(&name).await.unwrap());
    };
    never(&one).await;
    // A root of that id.
    created(on, "child").await;
    assert_eq!(
        on.store.find(&name).await.unwrap().unwrap().state.key(),
        name.as_root()
    );
    on.sessions().increment_step_count(&name).await.unwrap();
    assert!(on.sessions().delete_session(&name).await.unwrap());
    // A child of that id, under another root.
    never(&one).await;
    child_of(on, &two, &two, "child").await;
    let key = SessionKey::new(&two, &name);
    assert_eq!(
        on.store.find(&name).await.unwrap().unwrap().state.key(),
        key
    );
    on.sessions().increment_step_count(&name).await.unwrap();
    assert!(on.sessions().delete_session(&name).await.unwrap());
    assert_eq!(on.store.find(&name).await.unwrap(), None);
}

/// A child that is created while its root is removed is either refused or removed with it.
///
/// proves: SES-13
pub async fn a_child_created_during_a_removal_is_removed_or_stays_with_its_root(on: &Subject) {
    for round in 0..12 {
        let root = created(on, &format!("root-{round}")).await;
        on.at_once(3, async |on, index| {
            if index == 0 {
                assert!(on.sessions().delete_session(&root).await.unwrap());
                return;
            }
            for child in 0..4 {
                let id = session(&format!("child-{round}-{index}-{child}"));
                let mut new = NewSession::of("helper");
                new.family = Some((root.clone(), root.clone()));
                match on.sessions().create_session(&id, new).await {
                    Ok(_) | Err(StoreError::NotFound { .. }) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
        });
        let left = on.store.list(&SessionQuery::default()).await.unwrap();
        assert_eq!(
            left.total, 0,
            "children without their root: {:?}",
            left.items
        );
    }
    // As commits, one after another: what was read of the root is what is removed.
    let root = created(on, "root").await;
    let read = Precondition::Version(before_version(on, &root).await);
    child_of(on, &root, &root, "child").await;
    let removal = commit(on, &root).when(read).then(Change::Delete);
    let refused = on.store.commit(removal).await;
    assert!(
        matches!(refused, Err(StoreError::Refused { .. })),
        "{refused:?}"
    );
}

/// A root that is created again under its id, and the sessions under it, begin above every earlier
/// fence under that root: no earlier run can write to them.
///
/// proves in part: LCK-02
pub async fn a_root_made_again_begins_above_all_that_was_under_it(on: &Subject) {
    let root = created(on, "root").await;
    let child = child_of(on, &root, &root, "child").await;
    let mut highest = running(on, &root, "r").await.1;
    for number in 0..5 {
        highest = highest.max(running(on, &child, &format!("r-{number}")).await.1);
    }
    assert!(on.sessions().delete_session(&root).await.unwrap());
    created(on, "root").await;
    child_of(on, &root, &root, "child").await;
    for id in [&root, &child] {
        let found = on.store.find(id).await.unwrap().unwrap();
        assert!(
            found.fence > highest,
            "{id}: {:?}, {highest:?}",
            found.fence
        );
    }
}
