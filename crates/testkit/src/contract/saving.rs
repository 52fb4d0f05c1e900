//! The one write that settles a step or suspends a run: state, messages, staged writes, checkpoint.

use std::sync::Arc;

use helix_agents_core::message::Message;
use helix_agents_core::session::{CheckpointSource, SessionStatus};
use helix_agents_core::store::{NewCheckpoint, Page, StoreError};
use serde_json::json;

use super::Subject;
use super::builders::{
    call, calling, checkpoint, created, run, step, step_of, user_message, waiting,
};
use super::everything::everything;
use super::staging::staged;

/// State, messages, staged writes and checkpoint are one atomic write.
///
/// proves in part: STO-02
pub async fn saving_and_promoting_is_one_write(on: &Subject) {
    let id = created(on, "s").await;
    let before = [user_message("hello")];
    on.sessions()
        .append_messages(&id, &before, None)
        .await
        .unwrap();
    staged(
        on,
        &id,
        "step",
        "c-1",
        json!([{ "op": "append", "path": "/log", "value": 1 }]),
    )
    .await;
    let mut state = on.sessions().load_state(&id).await.unwrap().unwrap();
    state.custom_state = Arc::new(json!({ "log": [0] }));
    state.status = SessionStatus::Paused;
    state.step_count = 3;
    state.suspended_step_id = Some(step("open"));
    let pending = waiting(on, &id, &run("run"), "c-2");
    state.pending_client_tool_calls = [(call("c-2"), pending.clone())].into();
    let mut messages = vec![user_message("do it")];
    messages.extend(step_of(&["c-1"]));
    let mut new = NewCheckpoint::new(checkpoint("cp"), run("run")).after_step(step("step"));
    new.open_step = Some(step("open"));
    let committed = on
        .sessions()
        .save_state_and_promote_staging(&state, &messages, new, Some(state.version))
        .await
        .unwrap();
    assert_eq!((committed.version, committed.message_count), (4, 4));

    let found = on
        .elsewhere()
        .store
        .load(id.as_root())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(*found.state.custom_state, json!({ "log": [0, 1] }));
    assert_eq!(
        (found.state.status, found.state.step_count),
        (SessionStatus::Paused, 3)
    );
    assert_eq!(found.state.pending_client_tool_calls[&call("c-2")], pending);
    assert_eq!(
        found.state.checkpoint_source,
        Some(CheckpointSource::Staging)
    );
    assert_eq!(
        on.store
            .messages(id.as_root(), Page::new(1, 9))
            .await
            .unwrap()
            .items,
        messages
    );
    assert!(
        on.store
            .extras(id.as_root())
            .await
            .unwrap()
            .staged
            .is_empty()
    );
    let latest = on
        .sessions()
        .get_latest_checkpoint(&id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((latest.id, latest.message_count), (checkpoint("cp"), 4));
    assert_eq!(
        latest.state_version, found.state_version,
        "it names the state that was saved"
    );
    assert_eq!(
        (latest.open_step, latest.status),
        (Some(step("open")), SessionStatus::Paused)
    );
}

/// A save over an outdated version is stale and writes nothing; neither does a save whose messages
/// are not whole steps.
///
/// proves in part: STO-02
pub async fn a_stale_save_leaves_nothing(on: &Subject) {
    let id = created(on, "s").await;
    staged(
        on,
        &id,
        "step",
        "c-1",
        json!([{ "op": "append", "path": "/log", "value": 1 }]),
    )
    .await;
    let mut state = on.sessions().load_state(&id).await.unwrap().unwrap();
    state.status = SessionStatus::Failed;
    let new = || NewCheckpoint::new(checkpoint("cp"), run("run")).after_step(step("step"));
    let before = everything(on, &[&id]).await;
    for version in [1, 3, 0] {
        let stale = on
            .sessions()
            .save_state_and_promote_staging(&state, &[user_message("a")], new(), Some(version))
            .await;
        assert!(
            matches!(stale, Err(StoreError::Refused { .. })),
            "{version}: {stale:?}"
        );
        assert_eq!(everything(on, &[&id]).await, before);
    }
    let unpaired = [Message::Assistant(calling(&["c-1"]))];
    let invalid = on
        .sessions()
        .save_state_and_promote_staging(&state, &unpaired, new(), None)
        .await;
    assert!(
        matches!(invalid, Err(StoreError::Invalid { .. })),
        "{invalid:?}"
    );
    assert_eq!(everything(on, &[&id]).await, before);
}

/// Exactly one of several saves at one version is made.
///
/// proves in part: STO-02
pub async fn exactly_one_of_the_saves_at_one_version_wins(on: &Subject) {
    let id = created(on, "s").await;
    let outcomes = on.at_once(8, async |on, index| {
        let mut state = on.sessions().load_state(&id).await.unwrap().unwrap();
        state.custom_state = Arc::new(json!({ "by": index }));
        let new = NewCheckpoint::new(checkpoint(&format!("cp-{index}")), run("run"));
        let said = [user_message(&format!("by {index}"))];
        on.sessions()
            .save_state_and_promote_staging(&state, &said, new, Some(1))
            .await
    });
    let won: Vec<usize> = (0..8).filter(|at| outcomes[*at].is_ok()).collect();
    assert_eq!(won.len(), 1, "{outcomes:?}");
    let found = on.store.load(id.as_root()).await.unwrap().unwrap();
    assert_eq!(*found.state.custom_state, json!({ "by": won[0] }));
    assert_eq!((found.message_count, found.state.version), (1, 2));
    let listed = on
        .sessions()
        .list_checkpoints(&id, Page::ALL)
        .await
        .unwrap();
    assert_eq!(listed.total, 1, "the others left no checkpoint");
}
