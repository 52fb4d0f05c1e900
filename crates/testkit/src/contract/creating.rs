//! Creating sessions: once, completely, and under their own id.

use std::collections::BTreeMap;
use std::sync::Arc;

use helix_agents_core::error::{ErrorCode, ErrorRecord};
use helix_agents_core::session::{
    CheckpointSource, ChildWait, InterruptContext, SessionMode, SessionState, SessionStatus,
    TracingContext, WorkspaceRef,
};
use helix_agents_core::store::{Change, Lookup, NewSession, Page, Precondition, StoreError};
use helix_agents_core::time::Timestamp;
use helix_agents_core::{SessionId, StreamId};
use serde_json::json;

use super::Subject;
use super::builders::{
    accepted, answer, approval, call, checkpoint, child_of, commit, created, run, session, step,
    user, user_message, waiting,
};

const CREATORS: usize = 16;

/// Creating is atomic: one of many attempts succeeds, and all others are told that the id is taken.
///
/// proves: SES-02
pub async fn exactly_one_of_many_concurrent_creates_wins(on: &Subject) {
    let id = session("s");
    let outcomes = on.at_once(CREATORS, async |on, index| {
        let mut new = NewSession::of(format!("agent-{index}"));
        new.state = Some(Arc::new(json!({ "creator": index })));
        on.sessions().create_session(&id, new).await
    });
    let won: Vec<usize> = (0..CREATORS).filter(|at| outcomes[*at].is_ok()).collect();
    assert_eq!(
        won.len(),
        1,
        "exactly one create of an id succeeds: {outcomes:?}"
    );
    for lost in outcomes.into_iter().filter_map(Result::err) {
        let is_typed = matches!(&lost, StoreError::AlreadyExists { session } if *session == id);
        assert!(
            is_typed,
            "the others are told that the id is taken, not {lost:?}"
        );
    }
    let found = on
        .store
        .load(id.as_root())
        .await
        .unwrap()
        .expect("it was created");
    assert_eq!(found.state.agent_type, format!("agent-{}", won[0]));
    assert_eq!(
        *found.state.custom_state,
        json!({ "creator": won[0] }),
        "what the others brought is not mixed in"
    );
}

/// A session is found under its id and under no other.
///
/// proves: SES-01
pub async fn a_session_is_found_under_its_id_and_no_other(on: &Subject) {
    let ids = ["a", "A", "a.b", "a:b", "a_b", "a-b", &"x".repeat(256)].map(session);
    for id in &ids {
        let mut new = NewSession::of("agent");
        new.state = Some(Arc::new(json!({ "id": id })));
        on.sessions().create_session(id, new).await.unwrap();
    }
    for id in &ids {
        assert!(on.sessions().session_exists(id).await.unwrap());
        let found = on.sessions().load_state(id).await.unwrap().unwrap();
        assert_eq!((&found.session_id, found.version), (id, 1));
        assert_eq!(*found.custom_state, json!({ "id": id }));
    }
    let missing = session("a.");
    assert!(!on.sessions().session_exists(&missing).await.unwrap());
    assert_eq!(on.store.load(missing.as_root()).await.unwrap(), None);
}

/// proves: SES-02
pub async fn a_taken_id_is_refused_with_or_without_a_precondition(on: &Subject) {
    let id = created(on, "s").await;
    let before = on.store.load(id.as_root()).await.unwrap();
    let again = SessionState::new(id.clone(), "another", on.now());
    let plain = commit(on, &id).then(Change::Create(Box::new(again)));
    for commit in [plain.clone(), plain.when(Precondition::Absent)] {
        let refusal = on.store.commit(commit).await.unwrap_err();
        assert!(
            matches!(refusal, StoreError::AlreadyExists { .. }) && refusal.is_conflict(),
            "a taken id is a conflict of its own kind, not {refusal:?}"
        );
    }
    assert_eq!(on.store.load(id.as_root()).await.unwrap(), before);
}

/// A session cannot be created under another id than its own.
pub async fn a_session_is_created_under_its_own_id_only(on: &Subject) {
    let (id, other) = (session("s"), session("t"));
    let wrong = SessionState::new(other.clone(), "agent", on.now());
    let refusal = on
        .store
        .commit(commit(on, &id).then(Change::Create(Box::new(wrong))))
        .await;
    assert!(
        matches!(refusal, Err(StoreError::Invalid { .. })),
        "{refusal:?}"
    );
    assert_eq!(on.store.load(id.as_root()).await.unwrap(), None);
    assert_eq!(on.store.load(other.as_root()).await.unwrap(), None);
}

/// A session in which every field is set.
fn full(on: &Subject, id: &SessionId) -> SessionState {
    let mut approved = waiting(on, id, &run("r"), "c-2").needing_approval(approval("a-1"));
    approved.deadline = Some(Timestamp::from_millis(9_999));
    let mut answered = waiting(on, id, &run("r"), "c-1");
    answered.answer = Some(answer(on, "c-1"));
    answered.root_session_id = session("root");
    let mut state = SessionState::new(id.clone(), "agent", on.now());
    state.stream_id = Some(StreamId::new("stream-1").unwrap());
    state.custom_state = Arc::new(json!({ "deep": [{ "er": [1.5, -2, null, true, "x"] }] }));
    state.status = SessionStatus::Interrupted;
    state.step_count = 7;
    state.output = Some(json!({ "answer": 42 }));
    state.error = Some(ErrorRecord::new(ErrorCode::MaxSteps, "step 50"));
    state.failure_reason = Some("parent_suspended".to_owned());
    let why = Some("user".to_owned());
    state.interrupt_context = Some(InterruptContext::new(run("r"), why, on.now()));
    state.pending_client_tool_calls =
        BTreeMap::from([(call("c-1"), answered), (call("c-2"), approved)]);
    let wait = ChildWait::new(session("child"), "helper", on.now());
    state.suspended_awaiting_children = BTreeMap::from([(call("c-3"), wait)]);
    state.suspended_step_id = Some(step("step-3"));
    state.completed_client_tool_calls = BTreeMap::from([(call("c-0"), on.now())]);
    state.client_tool_call_ownership = BTreeMap::from([(call("c-4"), session("child"))]);
    state.tracing_context = Some(TracingContext {
        trace_id: "t".repeat(32),
        root_span_id: "s".repeat(16),
    });
    state.expires_at = Some(Timestamp::from_millis(1 << 50));
    state.parent_session_id = Some(session("parent"));
    state.root_session_id = Some(session("root"));
    state.mode = Some(SessionMode::Persistent);
    state.resume_count = 3;
    state.checkpoint_id = Some(checkpoint("cp-1"));
    state.checkpointed_at = Some(on.now());
    state.checkpoint_source = Some(CheckpointSource::Staging);
    state.user_id = Some(user("u-1"));
    state.tags = vec!["b".to_owned(), "a".to_owned()];
    state.metadata = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
    state.workspace_ref = Some(WorkspaceRef {
        provider_id: "local".to_owned(),
        reference: json!({ "path": "/tmp" }),
        capabilities: vec!["fs".to_owned()],
        schema_version: 2,
    });
    state
}

/// Every field of a session is stored, by a create and by a save.
///
/// proves: SES-07
pub async fn every_field_of_a_session_is_kept(on: &Subject) {
    let mut wanted = full(on, &session("full"));
    let root = created(on, "root").await;
    child_of(on, &root, &root, "parent").await;
    let by_create = commit(on, &root).then_in(
        wanted.session_id.clone(),
        Change::Create(Box::new(wanted.clone())),
    );
    accepted(on, by_create).await;
    let found = on.sessions().load_state(&wanted.session_id).await.unwrap();
    wanted.version = 1;
    assert_eq!(
        found.as_ref(),
        Some(&wanted),
        "a created session is kept whole"
    );
    let seen = on
        .elsewhere()
        .sessions()
        .load_state(&wanted.session_id)
        .await;
    assert_eq!(seen.unwrap(), found, "others read the same session");

    wanted.session_id = created(on, "plain").await;
    for pending in wanted.pending_client_tool_calls.values_mut() {
        pending.session_id = wanted.session_id.clone();
    }
    on.sessions().save_state(&wanted, None).await.unwrap();
    let mut found = on
        .sessions()
        .load_state(&wanted.session_id)
        .await
        .unwrap()
        .unwrap();
    // What says where the session belongs and what was checkpointed is not saved over.
    found.parent_session_id = wanted.parent_session_id.clone();
    found.root_session_id = wanted.root_session_id.clone();
    found.checkpoint_id = wanted.checkpoint_id.clone();
    found.checkpointed_at = wanted.checkpointed_at;
    found.checkpoint_source = wanted.checkpoint_source;
    wanted.version = 2;
    assert_eq!(found, wanted, "a saved session is kept whole");
}

/// Texts of any size and script are read back unchanged.
///
/// proves: SES-07
pub async fn large_empty_and_foreign_texts_are_kept(on: &Subject) {
    let texts = [
        String::new(),
        " \t\r\n".to_owned(),
        "quote ' \" back \\ slash % percent _ line\nbreak \u{0} nul".to_owned(),
        "e\u{301} é ß 漢字 العربية 👩‍👩‍👧‍👦 \u{10FFFF}".to_owned(),
        "x".repeat(100 * 1024),
        "ü漢".repeat(300 * 1024),
    ];
    let id = session("s");
    let mut new = NewSession::of(texts[3].clone());
    // Labels are bounded: what is large among them is a value.
    new.tags = texts[..4].to_vec();
    new.metadata = texts[..4]
        .iter()
        .map(|text| (text.clone(), text.clone()))
        .collect();
    let large = "ü漢".repeat(10 * 1024);
    new.metadata.insert("large".to_owned(), large);
    new.state = Some(Arc::new(json!({ "texts": texts, "": { "~/": texts[2] } })));
    on.sessions()
        .create_session(&id, new.clone())
        .await
        .unwrap();
    let found = on.sessions().load_state(&id).await.unwrap().unwrap();
    assert_eq!(Some(&found.custom_state), new.state.as_ref());
    assert_eq!((found.tags, found.metadata), (new.tags, new.metadata));
    assert_eq!(found.agent_type, new.agent_type);

    let said: Vec<_> = texts.iter().map(|text| user_message(text)).collect();
    on.sessions()
        .append_messages(&id, &said, None)
        .await
        .unwrap();
    let found = on.store.messages(id.as_root(), Page::ALL).await.unwrap();
    assert_eq!(found.items, said);
}

/// Reads of a session that does not exist find nothing, and changes of it are refused.
pub async fn a_missing_session_reads_as_empty_or_not_found(on: &Subject) {
    let id = session("nobody");
    let store = &on.store;
    assert_eq!(store.load(id.as_root()).await.unwrap(), None);
    assert!(
        store
            .messages(id.as_root(), Page::ALL)
            .await
            .unwrap()
            .items
            .is_empty()
    );
    assert!(
        store
            .usage(id.as_root(), Page::ALL)
            .await
            .unwrap()
            .items
            .is_empty()
    );
    let runs = store
        .runs(id.as_root(), Lookup::Page(Page::ALL))
        .await
        .unwrap();
    assert_eq!((runs.items.len(), runs.total, runs.has_more), (0, 0, false));
    let one = store
        .checkpoints(id.as_root(), Lookup::One(checkpoint("cp")))
        .await;
    assert!(one.unwrap().items.is_empty());
    assert_eq!(
        store.extras(id.as_root()).await.unwrap(),
        Default::default()
    );
    assert_eq!(on.streams.info(&id).await.unwrap(), None);
    let error = store.state_at(id.as_root(), 1).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }), "{error:?}");

    let change = commit(on, &id).then(Change::RaiseFence);
    let error = store.commit(change).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::NotFound { session } if *session == id),
        "a session that does not exist cannot be changed: {error:?}"
    );
    assert!(!on.sessions().delete_session(&id).await.unwrap());
}
