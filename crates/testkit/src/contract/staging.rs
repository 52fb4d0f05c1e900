//! Staged writes, which wait until their step is settled.

use helix_agents_core::store::StoreError;
use helix_agents_core::{CallId, SessionId};
use serde_json::json;

use super::Subject;
use super::builders::{call, created, session, sets, step, writes};

pub(super) async fn staged(
    on: &Subject,
    id: &SessionId,
    name: &str,
    by: &str,
    what: serde_json::Value,
) {
    let (step, call) = (step(name), call(by));
    on.sessions()
        .stage_changes(id, &step, &call, writes(what))
        .await
        .unwrap();
}

async fn names(on: &Subject, id: &SessionId, name: &str) -> Vec<CallId> {
    let staged = on
        .sessions()
        .get_staged_changes(id, &step(name))
        .await
        .unwrap();
    staged.into_iter().map(|one| one.call).collect()
}

/// Staged writes are stored per step and call, in the order in which they were first staged;
/// staging a call again replaces its writes. The state does not change.
///
/// proves: STO-08
pub async fn staged_writes_are_stored_beside_the_state(on: &Subject) {
    let id = created(on, "s").await;
    staged(
        on,
        &id,
        "step-1",
        "z",
        json!([{ "op": "replace", "path": "/z", "value": 1 }]),
    )
    .await;
    staged(
        on,
        &id,
        "step-1",
        "a",
        json!([{ "op": "replace", "path": "/a", "value": 1 }]),
    )
    .await;
    staged(
        on,
        &id,
        "step-2",
        "z",
        json!([{ "op": "delete", "path": "/z" }]),
    )
    .await;
    let again = sets("z", 2);
    on.sessions()
        .stage_changes(&id, &step("step-1"), &call("z"), again.clone())
        .await
        .unwrap();
    assert_eq!(names(on, &id, "step-1").await, [call("z"), call("a")]);
    let found = on
        .elsewhere()
        .sessions()
        .get_staged_changes(&id, &step("step-1"))
        .await;
    assert_eq!(
        found.unwrap()[0].writes,
        again,
        "the same call replaces its writes"
    );
    assert_eq!(names(on, &id, "step-2").await, [call("z")]);
    assert!(
        on.sessions()
            .has_staged_changes(&id, &step("step-2"))
            .await
            .unwrap()
    );
    assert!(
        !on.sessions()
            .has_staged_changes(&id, &step("step-3"))
            .await
            .unwrap()
    );
    assert!(names(on, &id, "step-3").await.is_empty());
    let state = on.store.load(id.as_root()).await.unwrap().unwrap();
    assert_eq!(
        (&*state.state.custom_state, state.state_version),
        (&json!({}), 1)
    );
    let nobody = session("nobody");
    let refused = on
        .sessions()
        .stage_changes(&nobody, &step("step"), &call("c"), sets("a", 1))
        .await;
    assert!(
        matches!(refused, Err(StoreError::NotFound { .. })),
        "{refused:?}"
    );
}

/// Promoting applies the staged writes of a step in their order and removes them.
///
/// proves: STO-08
pub async fn promoting_applies_staged_writes_in_order(on: &Subject) {
    let id = created(on, "s").await;
    for by in ["c-1", "c-2", "c-3"] {
        let what = json!([
            { "op": "append", "path": "/log", "value": by },
            { "op": "increment", "path": "/n", "by": 1 },
            { "op": "replace", "path": "/last", "value": by },
        ]);
        staged(on, &id, "step", by, what).await;
    }
    staged(
        on,
        &id,
        "other",
        "c-4",
        json!([{ "op": "delete", "path": "/log" }]),
    )
    .await;
    on.sessions()
        .promote_staging(&id, &step("step"))
        .await
        .unwrap();
    let found = on.sessions().load_state(&id).await.unwrap().unwrap();
    let wanted = json!({ "log": ["c-1", "c-2", "c-3"], "n": 3, "last": "c-3" });
    assert_eq!(*found.custom_state, wanted);
    assert!(
        !on.sessions()
            .has_staged_changes(&id, &step("step"))
            .await
            .unwrap()
    );
    assert!(
        on.sessions()
            .has_staged_changes(&id, &step("other"))
            .await
            .unwrap()
    );
    on.sessions()
        .promote_staging(&id, &step("step"))
        .await
        .unwrap();
    let again = on.sessions().load_state(&id).await.unwrap().unwrap();
    assert_eq!(*again.custom_state, wanted, "they are applied once");
}

/// Discarded writes are gone; the orphans of a step are the writes of all other steps.
///
/// proves: STO-08
pub async fn staged_writes_can_be_discarded(on: &Subject) {
    let id = created(on, "s").await;
    let what = json!([{ "op": "replace", "path": "/a", "value": 1 }]);
    for name in ["step-1", "step-2", "step-3", "step-4"] {
        staged(on, &id, name, "c-1", what.clone()).await;
        staged(on, &id, name, "c-2", what.clone()).await;
    }
    on.sessions()
        .discard_staging(&id, &step("step-1"))
        .await
        .unwrap();
    assert!(names(on, &id, "step-1").await.is_empty());
    let kept = step("step-3");
    let cleaned = on
        .sessions()
        .cleanup_orphaned_staging(&id, Some(&kept))
        .await;
    assert_eq!(
        cleaned.unwrap(),
        2,
        "two steps but this one had kept writes"
    );
    assert_eq!(names(on, &id, "step-3").await.len(), 2);
    let cleaned = on.sessions().cleanup_orphaned_staging(&id, None).await;
    assert_eq!(cleaned.unwrap(), 1);
    assert!(
        on.store
            .extras(id.as_root())
            .await
            .unwrap()
            .staged
            .is_empty()
    );
    let found = on.sessions().load_state(&id).await.unwrap().unwrap();
    assert_eq!(
        *found.custom_state,
        json!({}),
        "nothing of it reached the state"
    );
}
