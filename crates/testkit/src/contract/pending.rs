//! Pending calls: stored one by one, and found across sessions.

use std::time::Duration;

use helix_agents_core::session::PendingCall;
use helix_agents_core::store::{Change, Field, NewSession, Page, PendingQuery};
use serde_json::json;

use super::Subject;
use super::builders::{
    answer, approval, call, changed, created, run, running, session, user, waiting,
};

/// Creates three roots of two users and a child, each with pending calls.
async fn askers(on: &Subject) -> Vec<PendingCall> {
    let mut all = Vec::new();
    let sessions = [
        ("a", Some("u-1"), None),
        ("b", Some("u-2"), None),
        ("c", None, None),
    ];
    let child = ("a-child", Some("u-1"), Some("a"));
    for (name, owner, root) in sessions.into_iter().chain([child]) {
        let mut new = NewSession::of("agent");
        new.user_id = owner.map(user);
        new.family = root.map(|root| (session(root), session(root)));
        on.sessions()
            .create_session(&session(name), new)
            .await
            .unwrap();
    }
    for (name, root, id) in [
        ("b", "b", "c-1"),
        ("a-child", "a", "c-2"),
        ("a", "a", "c-3"),
        ("c", "c", "c-4"),
        ("a", "a", "c-5"),
    ] {
        let mut pending = waiting(on, &session(name), &run("run"), id);
        pending.root_session_id = session(root);
        changed(
            on,
            &session(name),
            Change::Pending(Box::new(pending.clone())),
        )
        .await;
        all.push(pending);
        on.clock.advance(Duration::from_secs(1));
    }
    all
}

/// Pending calls are found by owner, by root, or all together, oldest first.
pub async fn calls_that_wait_are_found_across_sessions(on: &Subject) {
    let all = askers(on).await;
    let those = |which: &[usize]| which.iter().map(|at| all[*at].clone()).collect::<Vec<_>>();
    let found = async |user_id: Option<&str>, root: Option<&str>| {
        let query = PendingQuery {
            user_id: user_id.map(user),
            root: root.map(session),
            page: Page::default(),
        };
        let found = on.elsewhere().store.pending(&query).await.unwrap();
        assert_eq!((found.items.len(), found.has_more), (found.total, false));
        found.items
    };
    assert_eq!(found(None, None).await, all);
    assert_eq!(found(Some("u-1"), None).await, those(&[1, 2, 4]));
    assert_eq!(found(None, Some("a")).await, those(&[1, 2, 4]));
    assert_eq!(found(Some("u-2"), Some("b")).await, those(&[0]));
    assert!(found(Some("u-2"), Some("a")).await.is_empty());
    assert!(found(Some("u-9"), None).await.is_empty());
    let part = PendingQuery {
        page: Page::new(1, 2),
        ..PendingQuery::default()
    };
    let part = on.store.pending(&part).await.unwrap();
    assert_eq!(
        (part.items, part.total, part.has_more),
        (those(&[1, 2]), 5, true)
    );

    // Who is answered or given up waits no more.
    let given = Change::Answer(call("c-3"), Box::new(answer(on, "c-3")));
    changed(on, &session("a"), given).await;
    changed(on, &session("c"), Change::RemovePending(call("c-4"))).await;
    assert_eq!(found(None, None).await, those(&[0, 1, 4]));
    on.sessions().delete_session(&session("a")).await.unwrap();
    assert_eq!(found(None, None).await, those(&[0]));
    changed(
        on,
        &session("b"),
        Change::Set(Field::User(Some(user("u-9")))),
    )
    .await;
    assert_eq!(
        found(Some("u-9"), None).await,
        those(&[0]),
        "it goes with its session's owner"
    );
}

/// Pending calls are written, answered and removed one by one, with all their content.
pub async fn pending_calls_are_kept_one_by_one(on: &Subject) {
    let id = created(on, "s").await;
    let (run, _) = running(on, &id, "run").await;
    let mut asked = waiting(on, &id, &run, "c-1").needing_approval(approval("a-1"));
    asked.deadline = Some(on.now());
    asked.input = json!({ "big": "x".repeat(100_000) }).into();
    let plain = waiting(on, &id, &run, "c-2");
    for pending in [&asked, &plain] {
        changed(on, &id, Change::Pending(Box::new(pending.clone()))).await;
    }
    let found = async || on.sessions().load_state(&id).await.unwrap().unwrap();
    let pending = found().await.pending_client_tool_calls;
    assert_eq!(
        pending.into_values().collect::<Vec<_>>(),
        [asked.clone(), plain.clone()]
    );

    let given = answer(on, "c-1");
    let committed = changed(
        on,
        &id,
        Change::Answer(call("c-1"), Box::new(given.clone())),
    )
    .await;
    assert_eq!(committed.answered, [call("c-1")]);
    asked.answer = Some(given);
    let pending = found().await.pending_client_tool_calls;
    assert_eq!(
        pending[&call("c-1")],
        asked,
        "an answer is added, nothing else changes"
    );
    let committed = changed(on, &id, Change::RemovePending(call("c-1"))).await;
    assert!(committed.answered.is_empty());
    changed(on, &id, Change::RemovePending(call("nobody"))).await;
    let pending = found().await.pending_client_tool_calls;
    assert_eq!(pending.into_values().collect::<Vec<_>>(), [plain]);
}
