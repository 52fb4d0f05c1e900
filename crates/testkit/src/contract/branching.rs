//! Branches: new sessions from a point of an existing one.

use std::sync::Arc;

use helix_agents_core::SessionId;
use helix_agents_core::message::Message;
use helix_agents_core::session::SessionStatus;
use helix_agents_core::store::{BranchPoint, Change, NewCheckpoint, NewSession, Page, StoreError};
use serde_json::{Value, json};

use super::Subject;
use super::builders::{
    call, changed, checkpoint, created, paired, run, running, session, sets, step_of, user,
    user_message, waiting,
};
use super::everything::everything;

/// Creates a session of three turns with a checkpoint after each, and a state that counts the
/// turns.
async fn session_with_history(on: &Subject) -> (SessionId, Vec<Message>) {
    let id = session("source");
    let mut new = NewSession::of("agent");
    new.user_id = Some(user("u"));
    new.tags = vec!["tag".to_owned()];
    new.metadata = [("k".to_owned(), "v".to_owned())].into();
    new.state = Some(Arc::new(json!({ "turns": 0 })));
    on.sessions().create_session(&id, new).await.unwrap();
    running(on, &id, "run").await;
    let mut all = Vec::new();
    for turn in 1..=3 {
        let mut messages = vec![user_message(&format!("question {turn}"))];
        messages.extend(step_of(&[&format!("c-{turn}-1"), &format!("c-{turn}-2")]));
        on.sessions()
            .append_messages(&id, &messages, None)
            .await
            .unwrap();
        on.sessions()
            .merge_custom_state(&id, sets("turns", turn))
            .await
            .unwrap();
        let new = NewCheckpoint::new(checkpoint(&format!("cp-{turn}")), run("run"));
        on.sessions().create_checkpoint(&id, new).await.unwrap();
        all.extend(messages);
    }
    let pending = waiting(on, &id, &run("run"), "c-9");
    changed(on, &id, Change::Pending(Box::new(pending))).await;
    (id, all)
}

async fn contents(on: &Subject, id: &SessionId) -> (Vec<Message>, Value) {
    let messages = on
        .store
        .messages(id.as_root(), Page::ALL)
        .await
        .unwrap()
        .items;
    let state = on.sessions().load_state(id).await.unwrap().unwrap();
    (messages, Value::clone(&state.custom_state))
}

/// A branch from a checkpoint has the messages and the state at that checkpoint; the source is
/// unchanged.
///
/// proves in part: SES-10
pub async fn a_branch_begins_at_a_checkpoint(on: &Subject) {
    let (source, all) = session_with_history(on).await;
    let before = everything(on, &[&source]).await;
    for turn in 1..=3 {
        let to = session(&format!("branch-{turn}"));
        let point = BranchPoint::Checkpoint(checkpoint(&format!("cp-{turn}")));
        on.sessions().branch(&source, &point, &to).await.unwrap();
        let wanted = (all[..turn * 4].to_vec(), json!({ "turns": turn }));
        assert_eq!(contents(on, &to).await, wanted);
        let found = on.store.load(to.as_root()).await.unwrap().unwrap();
        assert_eq!(
            (found.state.user_id, found.state.tags),
            (Some(user("u")), vec!["tag".to_owned()])
        );
        assert_eq!(found.state.metadata["k"], "v");
        assert_eq!((found.state.version, found.message_count), (1, turn * 4));
        assert!(found.run.is_none() && found.state.pending_client_tool_calls.is_empty());
        assert_eq!(
            found.state.status,
            SessionStatus::Completed,
            "it can be continued"
        );
        on.sessions().delete_session(&to).await.unwrap();
    }
    let after = everything(on, &[&source]).await;
    assert_eq!(after, before, "the source of a branch is not touched");
}

/// A branch from a message keeps the message and, if it called tools, their results.
///
/// proves in part: SES-10
pub async fn a_branch_begins_after_the_results_of_its_message(on: &Subject) {
    let (source, all) = session_with_history(on).await;
    // A turn is a question, a message with two calls, and their results.
    for (index, keep, turns) in [
        (0, 1, 0),
        (1, 4, 1),
        (2, 4, 1),
        (3, 4, 1),
        (4, 5, 1),
        (11, 12, 3),
    ] {
        let to = session(&format!("branch-{index}"));
        on.sessions()
            .branch(&source, &BranchPoint::Message(index), &to)
            .await
            .unwrap();
        let wanted = (all[..keep].to_vec(), json!({ "turns": turns }));
        assert_eq!(
            contents(on, &to).await,
            wanted,
            "branched at message {index}"
        );
    }
    let beyond = BranchPoint::Message(12);
    let refused = on
        .sessions()
        .branch(&source, &beyond, &session("beyond"))
        .await;
    assert!(
        matches!(refused, Err(StoreError::Invalid { .. })),
        "{refused:?}"
    );
    assert!(
        !on.sessions()
            .session_exists(&session("beyond"))
            .await
            .unwrap()
    );
}

/// A clone is independent of its original.
///
/// proves: STO-09
pub async fn a_clone_is_independent_of_its_original(on: &Subject) {
    let (source, all) = session_with_history(on).await;
    let to = session("clone");
    on.sessions().clone_session(&source, &to).await.unwrap();
    assert_eq!(
        contents(on, &to).await,
        (all.clone(), json!({ "turns": 3 }))
    );
    on.sessions()
        .append_messages(&to, &[user_message("here")], None)
        .await
        .unwrap();
    on.sessions()
        .merge_custom_state(&to, sets("turns", 4))
        .await
        .unwrap();
    on.sessions()
        .append_messages(&source, &[user_message("there")], None)
        .await
        .unwrap();
    let (mine, theirs) = (contents(on, &to).await, contents(on, &source).await);
    assert_eq!(
        (mine.0.last(), mine.1),
        (Some(&user_message("here")), json!({ "turns": 4 }))
    );
    assert_eq!(
        (theirs.0.last(), theirs.1),
        (Some(&user_message("there")), json!({ "turns": 3 }))
    );
}

/// A branch that cannot be made is refused, and leaves no partial session.
///
/// proves in part: SES-10
pub async fn a_branch_that_cannot_be_made_leaves_nothing(on: &Subject) {
    let (source, _) = session_with_history(on).await;
    let taken = created(on, "taken").await;
    on.sessions()
        .create_checkpoint(&taken, NewCheckpoint::new(checkpoint("cp-x"), run("run")))
        .await
        .unwrap();
    let before = everything(on, &[&source, &taken]).await;
    let now = BranchPoint::Now;
    let over = on.sessions().branch(&source, &now, &taken).await;
    assert!(
        matches!(over, Err(StoreError::AlreadyExists { .. })),
        "{over:?}"
    );
    let (nobody, to) = (session("nobody"), session("to"));
    let from = on.sessions().branch(&nobody, &now, &to).await;
    assert!(matches!(from, Err(StoreError::NotFound { .. })), "{from:?}");
    for foreign in ["cp-x", "never"] {
        let point = BranchPoint::Checkpoint(checkpoint(foreign));
        let refused = on.sessions().branch(&source, &point, &to).await;
        assert!(
            matches!(refused, Err(StoreError::Invalid { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(on.store.load(to.as_root()).await.unwrap(), None);
    assert_eq!(everything(on, &[&source, &taken]).await, before);
}

/// Call ids of the source stay used, including those of messages that the branch leaves out.
///
/// proves in part: SES-10
pub async fn a_branch_uses_no_call_id_again(on: &Subject) {
    let (source, _) = session_with_history(on).await;
    on.sessions().truncate_messages(&source, 8).await.unwrap();
    let to = session("to");
    let point = BranchPoint::Checkpoint(checkpoint("cp-1"));
    on.sessions().branch(&source, &point, &to).await.unwrap();
    let mut transcript = on.sessions().transcript(&to).await.unwrap();
    for used in ["c-1-1", "c-2-2", "c-3-1"] {
        assert!(
            transcript.push_step(paired(&[used])).is_err(),
            "{used} was used"
        );
    }
    let retired = on
        .store
        .extras(to.as_root())
        .await
        .unwrap()
        .retired_call_ids;
    assert!(retired.contains(&call("c-2-1")) && retired.contains(&call("c-3-2")));
}
