//! The fields of a session.

use std::collections::BTreeMap;
use std::sync::Arc;

use helix_agents_core::error::{ErrorCode, ErrorRecord};
use helix_agents_core::session::{ChildWait, RunStatus, SessionMode, SessionState};
use helix_agents_core::store::{
    AnsweredCall, Change, Field, MAX_LABEL_BYTES, MAX_METADATA_BYTES, MAX_METADATA_KEYS, MAX_TAGS,
    NewSession, PendingStatus, Precondition, StoreError,
};
use helix_agents_core::time::Timestamp;
use serde_json::json;

use super::Subject;
use super::builders::{
    accepted, answer, call, changed, child_of, commit, created, running, session, sets, step, user,
    user_message, waiting,
};

/// A mode is set once; setting the same mode again is allowed.
///
/// proves: STO-09
pub async fn a_mode_is_written_once(on: &Subject) {
    let id = created(on, "s").await;
    let set = async |mode| {
        let commit = commit(on, &id).set(Field::Mode(mode));
        on.store.commit(commit).await
    };
    set(SessionMode::Persistent).await.unwrap();
    set(SessionMode::Persistent).await.unwrap();
    let other = set(SessionMode::Standard).await;
    assert!(
        matches!(other, Err(StoreError::Invalid { .. })),
        "{other:?}"
    );
    let mut state = on.sessions().load_state(&id).await.unwrap().unwrap();
    assert_eq!(state.mode, Some(SessionMode::Persistent));
    for mode in [Some(SessionMode::Standard), None] {
        state.mode = mode;
        let saved = on.sessions().save_state(&state, None).await;
        assert!(saved.is_err(), "a save cannot set the mode to {mode:?}");
    }
}

/// Metadata is patched key by key; `None` removes.
///
/// proves: STO-09
pub async fn metadata_is_patched_key_by_key(on: &Subject) {
    let id = session("s");
    let mut new = NewSession::of("agent");
    new.metadata = ["a", "b"]
        .map(|key| (key.to_owned(), "old".to_owned()))
        .into();
    on.sessions().create_session(&id, new).await.unwrap();
    let patch: BTreeMap<String, Option<String>> = [
        ("a".to_owned(), Some("new".to_owned())),
        ("b".to_owned(), None),
        ("c".to_owned(), Some(String::new())),
        ("never".to_owned(), None),
    ]
    .into();
    on.sessions().patch_metadata(&id, patch).await.unwrap();
    let found = on.sessions().load_state(&id).await.unwrap().unwrap();
    let wanted = [("a", "new"), ("c", "")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(found.metadata, wanted.into());
    on.at_once(8, async |on, index| {
        let one = BTreeMap::from([(format!("k{index}"), Some("v".to_owned()))]);
        on.sessions().patch_metadata(&id, one).await.unwrap();
    });
    let found = on.sessions().load_state(&id).await.unwrap().unwrap();
    assert_eq!(
        found.metadata.len(),
        10,
        "patches of other keys do not undo each other"
    );
}

/// A save replaces fields and state, and leaves everything else unchanged.
///
/// proves: STO-09
pub async fn a_save_overwrites_fields_and_state(on: &Subject) {
    let id = created(on, "s").await;
    on.sessions()
        .append_messages(&id, &[user_message("stays")], None)
        .await
        .unwrap();
    on.sessions()
        .merge_custom_state(&id, sets("old", true))
        .await
        .unwrap();
    let mut state = on.sessions().load_state(&id).await.unwrap().unwrap();
    state.custom_state = Arc::new(json!({ "new": [1] }));
    state.step_count = 9;
    state.output = Some(json!(null));
    state.user_id = Some(user("u"));
    state.created_at = Timestamp::from_millis(1);
    let stale = on.sessions().save_state(&state, Some(1)).await.unwrap_err();
    assert!(matches!(stale, StoreError::Refused { .. }), "{stale:?}");
    let read = on.sessions().load_state(&id).await.unwrap().unwrap();
    assert_eq!(read.step_count, 0, "a save that is refused saves nothing");

    let committed = on
        .sessions()
        .save_state(&state, Some(state.version))
        .await
        .unwrap();
    assert_eq!((committed.version, committed.message_count), (4, 1));
    let found = on.sessions().load_state(&id).await.unwrap().unwrap();
    assert_eq!(*found.custom_state, json!({ "new": [1] }));
    assert_eq!((found.step_count, found.output), (9, Some(json!(null))));
    assert_eq!(
        found.created_at, read.created_at,
        "when it was made does not change"
    );
    state.session_id = session("nobody");
    let of_another = on.sessions().save_state(&state, None).await;
    assert!(of_another.is_err(), "there is no such session to save to");
}

/// A save replaces the pending calls, and does not change the parent or the root of a session.
///
/// proves: STO-09
pub async fn a_save_replaces_pending_calls_and_keeps_the_family(on: &Subject) {
    let root = created(on, "root").await;
    let child = child_of(on, &root, &root, "child").await;
    let (run, _) = running(on, &child, "run").await;
    for name in ["c-1", "c-2"] {
        let pending = waiting(on, &child, &run, name);
        changed(on, &child, Change::Pending(Box::new(pending))).await;
    }
    let mut state = on.sessions().load_state(&child).await.unwrap().unwrap();
    state.pending_client_tool_calls.remove(&call("c-1"));
    let mut answered = waiting(on, &child, &run, "c-3");
    answered.answer = Some(answer(on, "c-3"));
    state
        .pending_client_tool_calls
        .insert(call("c-3"), answered);
    let wanted = state.pending_client_tool_calls.clone();
    // Pending calls of a running run are kept: see the next case.
    let ended = RunStatus::Completed;
    let sessions = on.sessions();
    sessions
        .update_run_status(&child, &run, ended)
        .await
        .unwrap();
    (state.parent_session_id, state.root_session_id) = (None, Some(session("elsewhere")));
    let committed = on.sessions().save_state(&state, None).await.unwrap();
    assert_eq!(committed.answered, [call("c-3")], "it came with its answer");
    let found = on.sessions().load_state(&child).await.unwrap().unwrap();
    assert_eq!(found.pending_client_tool_calls, wanted);
    assert_eq!(found.parent_session_id.as_ref(), Some(&root));
    assert_eq!(found.root(), &root);
    let standing = [("c-1", PendingStatus::Absent), ("c-2", PendingStatus::Open)];
    let holds = standing
        .into_iter()
        .fold(commit(on, &root), |commit, (name, standing)| {
            commit.when_in(child.clone(), Precondition::Call(call(name), standing))
        });
    accepted(on, holds).await;
}

/// The number of tags and the size of metadata are limited, whichever operation sets them; a
/// refused operation changes nothing.
///
/// proves: SES-07
pub async fn labels_are_bounded(on: &Subject) {
    let id = created(on, "s").await;
    let pairs = |count: usize, value: &str| {
        let pairs = (0..count).map(|n| (format!("k-{n}"), value.to_owned()));
        pairs.collect::<BTreeMap<_, _>>()
    };
    let patch = |pairs: BTreeMap<String, String>| {
        let patch = pairs.into_iter().map(|(key, value)| (key, Some(value)));
        Field::Metadata(patch.collect())
    };
    let tags = |count: usize| (0..count).map(|n| format!("t-{n}")).collect::<Vec<_>>();
    changed(on, &id, Change::Set(Field::Tags(tags(MAX_TAGS)))).await;
    changed(on, &id, Change::Set(patch(pairs(MAX_METADATA_KEYS, "v")))).await;
    let before = on.store.load(id.as_root()).await.unwrap();
    let mut large = SessionState::new(session("large"), "agent", on.now());
    large.tags = tags(MAX_TAGS + 1);
    let mut saved = before.clone().unwrap().state;
    saved.metadata = pairs(2, &"v".repeat(MAX_METADATA_BYTES / 2));
    for change in [
        Change::Set(Field::Tags(tags(MAX_TAGS + 1))),
        Change::Set(Field::Tags(vec!["x".repeat(MAX_LABEL_BYTES + 1)])),
        Change::Set(patch([("one-more".to_owned(), "v".to_owned())].into())),
        Change::Overwrite(Box::new(saved)),
    ] {
        let refused = on.store.commit(commit(on, &id).then(change)).await;
        assert!(
            matches!(refused, Err(StoreError::Invalid { .. })),
            "{refused:?}"
        );
    }
    let made = commit(on, &large.session_id).then(Change::Create(Box::new(large.clone())));
    assert!(on.store.commit(made).await.is_err());
    assert_eq!(
        on.store.load(large.session_id.as_root()).await.unwrap(),
        None
    );
    assert_eq!(on.store.load(id.as_root()).await.unwrap(), before);
}

/// Every field can be set, and cleared, on its own.
///
/// proves: SES-07
pub async fn every_field_can_be_set_on_its_own(on: &Subject) {
    let id = created(on, "s").await;
    let wait = ChildWait::new(session("child"), "helper", on.now());
    let fields = [
        Field::StepCount(4),
        Field::Output(Some(json!([1]))),
        Field::Error(Some(ErrorRecord::new(ErrorCode::ToolFatal, "why"))),
        Field::FailureReason(Some("reason".to_owned())),
        Field::AwaitedChild(call("c-1"), Some(wait.clone())),
        Field::SuspendedStep(Some(step("step"))),
        Field::CompletedCall(AnsweredCall::new(call("c-2"), on.now())),
        Field::CallOwner(call("c-3"), Some(session("child"))),
        Field::ExpiresAt(Some(Timestamp::from_millis(5))),
        Field::User(Some(user("u"))),
        Field::Tags(vec!["t".to_owned()]),
    ];
    for field in fields {
        changed(on, &id, Change::Set(field)).await;
    }
    let found = on.sessions().load_state(&id).await.unwrap().unwrap();
    assert_eq!((found.step_count, found.output), (4, Some(json!([1]))));
    assert_eq!(found.error.unwrap().detail, "why");
    assert_eq!(found.failure_reason.as_deref(), Some("reason"));
    assert_eq!(found.suspended_awaiting_children[&call("c-1")], wait);
    assert_eq!(found.suspended_step_id, Some(step("step")));
    assert_eq!(found.completed_client_tool_calls[&call("c-2")], on.now());
    assert_eq!(
        found.client_tool_call_ownership[&call("c-3")],
        session("child")
    );
    assert_eq!(found.expires_at, Some(Timestamp::from_millis(5)));
    assert_eq!(
        (found.user_id, found.tags),
        (Some(user("u")), vec!["t".to_owned()])
    );

    let clearing = [
        Field::Output(None),
        Field::Error(None),
        Field::FailureReason(None),
        Field::InterruptContext(None),
        Field::AwaitedChild(call("c-1"), None),
        Field::SuspendedStep(None),
        Field::CallOwner(call("c-3"), None),
        Field::Tracing(None),
        Field::ExpiresAt(None),
        Field::User(None),
        Field::Tags(Vec::new()),
        Field::Workspace(None),
        Field::Stream(None),
    ];
    for field in clearing {
        changed(on, &id, Change::Set(field)).await;
    }
    let found = on.sessions().load_state(&id).await.unwrap().unwrap();
    assert_eq!(
        (found.output, found.error, found.failure_reason),
        (None, None, None)
    );
    assert!(found.suspended_awaiting_children.is_empty());
    assert!(found.client_tool_call_ownership.is_empty());
    assert_eq!((found.expires_at, found.user_id), (None, None));
    assert!(found.tags.is_empty());
}
