//! A commit happens whole or not at all, and commits happen one after another.

use std::sync::Arc;
use std::time::Duration;

use helix_agents_core::message::UserMessage;
use helix_agents_core::session::CheckpointSource;
use helix_agents_core::store::{Change, Field, Precondition, SessionKey};
use serde_json::json;

use super::Subject;
use super::builders::{
    accepted, answer, call, changed, checkpoint_of, child_of, commit, created, event, run, session,
    sets, started, step, stop, writes,
};
use super::everything::{chunks, everything};
use super::full_session::{changes_everything, full_session};

/// One commit may change several sessions of one root; they change together or not at all.
///
/// proves in part: STO-02
pub async fn sessions_of_one_root_change_together_or_not_at_all(on: &Subject) {
    let root = created(on, "root").await;
    let child = child_of(on, &root, &root, "child").await;
    let grandchild = child_of(on, &child, &root, "grandchild").await;
    let family = [&root, &child, &grandchild];
    let of_all = |name: &str| {
        family.iter().fold(commit(on, &root), |commit, id| {
            commit
                .then_in((*id).clone(), Change::AppendUser(UserMessage::new(name)))
                .then_in((*id).clone(), Change::WriteState(sets("by", name)))
                .say(event(on, id, name))
        })
    };
    let before = everything(on, &family).await;
    // The last session refuses: by a precondition, then by a change that cannot be made.
    let refused = of_all("never").when_in(grandchild.clone(), Precondition::Version(9));
    assert!(on.store.commit(refused).await.is_err());
    assert_eq!(
        everything(on, &family).await,
        before,
        "no session of it changes"
    );
    let impossible = of_all("never").then_in(grandchild.clone(), Change::RewindState(9));
    assert!(on.store.commit(impossible).await.is_err());
    assert_eq!(
        everything(on, &family).await,
        before,
        "no session of it changes"
    );

    let mut versions = Vec::new();
    for id in family {
        versions.push(on.store.find(id).await.unwrap().unwrap().state.version);
    }
    let receipt = accepted(on, of_all("all")).await;
    assert_eq!(
        receipt.sequence.0, 3,
        "their chunks go to the root's stream"
    );
    for (id, before) in family.into_iter().zip(versions) {
        assert_eq!(receipt.sessions[id].version, before + 1);
        let key = SessionKey::new(&root, id);
        let found = on.store.load(key).await.unwrap().unwrap();
        assert_eq!((found.state.version, found.message_count), (before + 1, 1));
        assert_eq!(*found.state.custom_state, json!({ "by": "all" }));
    }
}

/// A change that cannot be made is an error, and the changes before it in the commit are undone.
pub async fn a_change_that_cannot_be_made_undoes_the_whole_commit(on: &Subject) {
    let (id, _) = full_session(on, "s").await;
    let before = everything(on, &[&id]).await;
    let on_a_text = writes(json!([
        { "op": "append", "path": "/mood", "value": "not an array" }
    ]));
    let impossible = [
        Change::WriteState(on_a_text),
        Change::RewindState(0),
        Change::RewindState(99),
        Change::SetState(Arc::new(json!("not an object"))),
        Change::Answer(call("nobody-asked"), Box::new(answer(on, "nobody-asked"))),
        Change::Checkpoint(
            checkpoint_of(on, &session("t"), "cp"),
            CheckpointSource::Save,
        ),
        Change::Create(Box::new(
            on.sessions().load_state(&id).await.unwrap().unwrap(),
        )),
    ];
    for change in impossible {
        let error = on
            .store
            .commit(changes_everything(on, &id).then(change.clone()))
            .await;
        assert!(error.is_err(), "this cannot be done: {change:?}");
        assert_eq!(
            everything(on, &[&id]).await,
            before,
            "{change:?} leaves nothing"
        );
    }
}

/// Every commit raises the version of a session by one, however many changes it makes, and records
/// its time.
///
/// proves: STO-10
pub async fn versions_grow_by_one_with_each_commit(on: &Subject) {
    let id = created(on, "s").await;
    let mut version = 1;
    let one_each = [
        Change::AppendUser(UserMessage::new("a")),
        Change::WriteState(sets("a", 1)),
        Change::SetState(Arc::new(json!({}))),
        Change::RewindState(1),
        Change::Set(Field::OneResumeMore),
        Change::RaiseFence,
        Change::Lease(None),
        Change::StartRun(Box::new(started(on, &id, "run"))),
        Change::Stage(step("step"), call("c"), sets("b", 1)),
        Change::Truncate(0),
        Change::ClearStop,
    ];
    let made = on.now();
    for change in one_each {
        on.clock.advance(Duration::from_millis(1));
        let committed = changed(on, &id, change.clone()).await;
        version += 1;
        assert_eq!(committed.version, version, "one more by {change:?}");
        let found = on.store.load(id.as_root()).await.unwrap().unwrap().state;
        assert_eq!((found.created_at, found.updated_at), (made, on.now()));
    }
    let several = commit(on, &id)
        .then(Change::AppendUser(UserMessage::new("b")))
        .then(Change::WriteState(sets("a", 2)))
        .set(Field::OneStepMore);
    let many = accepted(on, several).await;
    assert_eq!(
        many.sessions[&id].version,
        version + 1,
        "one commit is one version"
    );
    let found = on.store.load(id.as_root()).await.unwrap().unwrap();
    assert_eq!(found.state.version, version + 1);
    let looked = accepted(on, commit(on, &id).when(Precondition::Exists)).await;
    assert_eq!(
        looked.sessions[&id].version,
        version + 1,
        "looking changes nothing"
    );
}

/// Commits of one session are serialised: none is lost, and each sees the one before.
///
/// proves: STO-10
pub async fn concurrent_commits_happen_one_after_another(on: &Subject) {
    const WRITERS: usize = 8;
    const EACH: usize = 12;
    let id = created(on, "s").await;
    let versions = on.at_once(WRITERS, async |on, _| {
        let mut seen = Vec::new();
        for _ in 0..EACH {
            let bump = writes(json!([{ "op": "increment", "path": "/n", "by": 1 }]));
            let commit = commit(on, &id)
                .then(Change::WriteState(bump))
                .then(Change::AppendUser(UserMessage::new("one")))
                .say(event(on, &id, "one"));
            seen.push(accepted(on, commit).await.sessions[&id].version);
        }
        assert!(seen.is_sorted(), "versions only grow: {seen:?}");
        seen
    });
    let mut all: Vec<u64> = versions.into_iter().flatten().collect();
    all.sort_unstable();
    let commits = u64::try_from(WRITERS * EACH).unwrap();
    assert_eq!(
        all,
        (2..=commits + 1).collect::<Vec<_>>(),
        "each commit has its version"
    );
    let found = on.store.load(id.as_root()).await.unwrap().unwrap();
    assert_eq!(*found.state.custom_state, json!({ "n": commits }));
    assert_eq!(found.message_count, WRITERS * EACH);
    let chunks = chunks(on, &id).await;
    assert_eq!(chunks.len(), WRITERS * EACH);
}

/// A receipt has `{version, stop?, inbox, answered}` and the counts, so that nothing has to be read
/// again.
pub async fn a_receipt_has_all_that_the_next_step_needs(on: &Subject) {
    let (id, fence) = full_session(on, "s").await;
    let other = child_of(on, &id, &id, "child").await;
    let request = stop(on, &run("run"));
    changed(on, &id, Change::Stop(request.clone())).await;
    let answered = Change::Answer(call("c-1"), Box::new(answer(on, "c-1")));
    changed(on, &id, answered).await;
    let last = commit(on, &id)
        .set(Field::OneStepMore)
        .when_in(other.clone(), Precondition::Exists)
        .say(event(on, &id, "told"));
    let receipt = accepted(on, last).await;
    let found = on.store.load(id.as_root()).await.unwrap().unwrap();
    let told = &receipt.sessions[&id];
    assert_eq!((told.version, told.fence), (found.state.version, fence));
    assert_eq!((told.message_count, told.state_version), (3, 2));
    assert_eq!(
        (&told.stop, &found.stop),
        (&Some(request.clone()), &Some(request))
    );
    assert_eq!((told.inbox.len(), &told.inbox), (1, &found.inbox));
    assert_eq!(told.answered, [call("c-1")]);
    assert_eq!(
        receipt.sessions[&other].version, 1,
        "those only looked at are told of too"
    );
    assert_eq!(receipt.sequence, chunks(on, &id).await[1].sequence);

    let gone = accepted(on, commit(on, &id).then_in(other.clone(), Change::Delete)).await;
    assert!(
        !gone.sessions.contains_key(&other),
        "a deleted session is left out"
    );
}

/// A reader sees all of a commit or nothing of it, at any time.
pub async fn a_commit_is_seen_whole_by_others(on: &Subject) {
    const COMMITS: u64 = 40;
    let id = created(on, "s").await;
    on.at_once(4, async |on, index| {
        if index == 0 {
            for round in 0..COMMITS {
                let whole = commit(on, &id)
                    .then(Change::WriteState(sets("round", round + 1)))
                    .then(Change::AppendUser(UserMessage::new("a")))
                    .set(Field::OneStepMore);
                accepted(on, whole).await;
            }
            return;
        }
        let mut version = 0;
        while version <= COMMITS {
            let found = on.store.load(id.as_root()).await.unwrap().unwrap();
            assert!(found.state.version >= version, "nobody reads backwards");
            version = found.state.version;
            let round = version - 1;
            assert_eq!(u64::from(found.state.step_count), round);
            assert_eq!(
                found.message_count as u64, round,
                "messages of a part of a commit"
            );
            let wanted = if round == 0 {
                json!({})
            } else {
                json!({ "round": round })
            };
            assert_eq!(
                *found.state.custom_state, wanted,
                "state of a part of a commit"
            );
        }
    });
}
