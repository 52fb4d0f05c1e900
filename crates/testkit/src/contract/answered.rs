//! Answered calls: stored one by one, for as long as the session exists.

use std::sync::Arc;

use helix_agents_core::CallId;
use helix_agents_core::session::{AnswerKind, CallBinding};
use helix_agents_core::store::{AnsweredCall, Change, Commit, Field, Lookup, Page, SessionQuery};

use super::Subject;
use super::builders::{
    accepted, approval, call, changed, commit, created, open_step, run, session, waiting,
};

fn answer(on: &Subject, id: &str) -> Change {
    Change::Set(Field::CompletedCall(AnsweredCall::new(call(id), on.now())))
}

async fn all_answered(on: &Subject) -> Vec<CallId> {
    let which = Lookup::Page(Page::ALL);
    let found = on
        .store
        .answered(session("s").as_root(), which)
        .await
        .unwrap();
    found.items.into_iter().map(|one| one.call).collect()
}

async fn find_answered(on: &Subject, id: &str) -> Vec<AnsweredCall> {
    let which = Lookup::One(call(id));
    let found = on
        .store
        .answered(session("s").as_root(), which)
        .await
        .unwrap();
    assert_eq!(found.total, found.items.len());
    found.items
}

/// An answered call is found by its id and in the list, in any process, whatever was committed
/// later.
///
/// proves in part: SUS-06
pub async fn an_answered_call_is_found_for_ever(on: &Subject) {
    assert!(
        all_answered(on).await.is_empty(),
        "a missing session has none"
    );
    let id = created(on, "s").await;
    assert!(all_answered(on).await.is_empty());
    for n in [7, 3, 12] {
        changed(on, &id, answer(on, &format!("c-{n:03}"))).await;
    }
    let at = on.now();
    let many = (20..320).map(|n| answer(on, &format!("c-{n:03}")));
    let many = many.fold(commit(on, &id), Commit::then);
    accepted(on, many).await;
    for on in [on, on.elsewhere()] {
        assert_eq!(
            find_answered(on, "c-003").await,
            [AnsweredCall::new(call("c-003"), at)]
        );
        assert_eq!(find_answered(on, "c-319").await.len(), 1);
        assert_eq!(find_answered(on, "c-004").await, []);
        let every = all_answered(on).await;
        assert_eq!(every.len(), 303);
        assert!(every.is_sorted(), "in the order of their ids");
        let which = Lookup::Page(Page::new(2, 3));
        let page = on.store.answered(id.as_root(), which).await.unwrap();
        let ids: Vec<_> = page.items.into_iter().map(|one| one.call).collect();
        assert_eq!(ids, ["c-012", "c-020", "c-021"].map(call));
        assert_eq!((page.total, page.has_more), (303, true));
    }
    let state = on.sessions().load_state(&id).await.unwrap().unwrap();
    assert_eq!(state.completed_client_tool_calls.len(), 303);
    assert_eq!(state.completed_client_tool_calls[&call("c-007")], at);
}

/// Answered calls are not part of the session that every commit reads and writes, so its size does
/// not grow with them.
pub async fn answered_calls_are_not_part_of_a_loaded_session(on: &Subject) {
    let id = created(on, "s").await;
    changed(on, &id, answer(on, "c-1")).await;
    let found = on.store.load(id.as_root()).await.unwrap().unwrap();
    assert!(found.state.completed_client_tool_calls.is_empty());
    let listed = on.store.list(&SessionQuery::default()).await.unwrap().items;
    assert!(listed[0].completed_client_tool_calls.is_empty());
}

/// A snapshot names the calls of the open step that are answered.
pub async fn a_snapshot_has_the_answered_calls_of_the_open_step(on: &Subject) {
    let id = created(on, "s").await;
    for answered in ["c-0", "c-2", "c-3"] {
        changed(on, &id, answer(on, answered)).await;
    }
    let load = async || on.store.load(id.as_root()).await.unwrap().unwrap();
    assert!(load().await.answered.is_empty(), "there is no open step");
    let step = open_step(&run("run"), "step", &["c-3", "c-1", "c-2"]);
    changed(on, &id, Change::OpenStep(Some(Arc::new(step)))).await;
    assert_eq!(load().await.answered, ["c-3", "c-2"].map(call));
    changed(on, &id, answer(on, "c-1")).await;
    assert_eq!(load().await.answered, ["c-3", "c-1", "c-2"].map(call));
}

/// An answer is never taken back: neither by a save of an older reading that does not name it, nor
/// by a cut of the history. It is deleted only with its session.
pub async fn an_answered_call_stays_answered(on: &Subject) {
    let id = created(on, "s").await;
    changed(on, &id, answer(on, "c-1")).await;
    let mut read = on.store.load(id.as_root()).await.unwrap().unwrap().state;
    read.completed_client_tool_calls = [(call("c-2"), on.now())].into();
    on.sessions().save_state(&read, None).await.unwrap();
    changed(on, &id, Change::Truncate(0)).await;
    assert_eq!(all_answered(on).await, ["c-1", "c-2"].map(call));
    assert!(on.sessions().delete_session(&id).await.unwrap());
    assert!(all_answered(on).await.is_empty());
    created(on, "s").await;
    assert!(all_answered(on).await.is_empty(), "it is another session");
}

/// How a call was answered is kept. A call that timed out stays so, whatever a save or an earlier reading says,
/// until an answer that came later is told.
pub async fn a_call_that_timed_out_stays_so(on: &Subject) {
    let id = created(on, "s").await;
    let asked = waiting(on, &id, &run("run"), "c-1").needing_approval(approval("a"));
    let timed_out = AnsweredCall::new(call("c-1"), on.now());
    let kind = AnswerKind::TimedOut(Box::new(CallBinding::of(&asked)));
    let timed_out = timed_out.with_kind(kind);
    let record = |one: &AnsweredCall| Change::Set(Field::CompletedCall(one.clone()));
    changed(on, &id, answer(on, "c-1")).await;
    changed(on, &id, record(&timed_out)).await;
    let kept = async |expected: &AnsweredCall| {
        for on in [on, on.elsewhere()] {
            let expected = std::slice::from_ref(expected);
            assert_eq!(find_answered(on, "c-1").await, expected);
            let all = Lookup::Page(Page::ALL);
            let all = on.store.answered(id.as_root(), all).await.unwrap();
            assert_eq!(all.items, expected);
        }
    };
    kept(&timed_out).await;
    changed(on, &id, answer(on, "c-1")).await;
    let read = on.sessions().load_state(&id).await.unwrap().unwrap();
    on.sessions().save_state(&read, None).await.unwrap();
    kept(&timed_out).await;
    let told = AnsweredCall::new(call("c-1"), on.now()).with_kind(AnswerKind::AnsweredLate);
    changed(on, &id, record(&told)).await;
    changed(on, &id, answer(on, "c-1")).await;
    kept(&told).await;
}
