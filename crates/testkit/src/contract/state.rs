//! The state of a session, and every version that it ever had.

use std::sync::Arc;

use helix_agents_core::store::{Change, StoreError};
use serde_json::{Value, json};

use super::Subject;
use super::builders::{accepted, changed, commit, created, sets, writes};

/// Operations are applied to the state at the time of the commit, all or none.
///
/// proves: STO-09
pub async fn writes_are_applied_to_the_state(on: &Subject) {
    let id = created(on, "s").await;
    let first = json!([
        { "op": "append", "path": "/notes", "value": "milk" },
        { "op": "increment", "path": "/count", "by": 2 },
        { "op": "replace", "path": "/a/b", "value": { "c": null } },
    ]);
    let second = json!([
        { "op": "append", "path": "/notes", "value": ["eggs"] },
        { "op": "increment", "path": "/count", "by": -0.5 },
        { "op": "delete", "path": "/a/b/c" },
        { "op": "delete", "path": "/never" },
    ]);
    on.sessions()
        .merge_custom_state(&id, writes(first))
        .await
        .unwrap();
    on.sessions()
        .merge_custom_state(&id, writes(second))
        .await
        .unwrap();
    let found = on
        .elsewhere()
        .sessions()
        .load_state(&id)
        .await
        .unwrap()
        .unwrap();
    let wanted = json!({ "notes": ["milk", ["eggs"]], "count": 1.5, "a": { "b": {} } });
    assert_eq!(*found.custom_state, wanted);

    let half = writes(json!([
        { "op": "replace", "path": "/count", "value": 0 },
        { "op": "increment", "path": "/notes", "by": 1 },
    ]));
    let refusal = on.sessions().merge_custom_state(&id, half).await;
    assert!(
        matches!(refusal, Err(StoreError::State { .. })),
        "{refusal:?}"
    );
    let found = on.store.load(id.as_root()).await.unwrap().unwrap();
    assert_eq!(
        *found.state.custom_state, wanted,
        "writes apply all or none"
    );
    assert_eq!(found.state_version, 3);
}

/// Concurrent writes compose: none overwrites another.
///
/// proves: STO-09
pub async fn concurrent_writes_compose(on: &Subject) {
    const WRITERS: usize = 8;
    let id = created(on, "s").await;
    on.at_once(WRITERS, async |on, index| {
        let mine = writes(json!([
            { "op": "append", "path": "/who", "value": index },
            { "op": "increment", "path": "/count", "by": 1 },
        ]));
        on.sessions().merge_custom_state(&id, mine).await.unwrap();
    });
    let found = on.sessions().load_state(&id).await.unwrap().unwrap();
    assert_eq!(found.custom_state["count"], WRITERS);
    let mut who: Vec<u64> = serde_json::from_value(found.custom_state["who"].clone()).unwrap();
    who.sort_unstable();
    assert_eq!(who, (0..WRITERS as u64).collect::<Vec<_>>());
}

/// Every version of the state can be read for as long as the session exists, however it was made.
pub async fn every_version_of_the_state_can_be_read(on: &Subject) {
    const VERSIONS: usize = 230;
    let id = created(on, "s").await;
    let mut history: Vec<Arc<Value>> = vec![Arc::new(json!({}))];
    for version in 2..=VERSIONS {
        // Long stretches of nothing but writes, longer than anybody keeps them without a whole state.
        let change = match version {
            20 => Change::SetState(Arc::new(json!({ "set": version, "log": [] }))),
            25 | 180 => Change::RewindState(u64::try_from(version / 2).unwrap()),
            _ => Change::WriteState(writes(json!([
                { "op": "append", "path": "/log", "value": version },
                { "op": "replace", "path": format!("/k{}", version % 9), "value": version },
            ]))),
        };
        let rewound = match change {
            Change::RewindState(to) => Some(usize::try_from(to).unwrap()),
            _ => None,
        };
        let committed = changed(on, &id, change).await;
        assert_eq!(committed.state_version, u64::try_from(version).unwrap());
        let now = on.store.load(id.as_root()).await.unwrap().unwrap();
        history.push(now.state.custom_state);
        if let Some(to) = rewound {
            assert_eq!(
                history[version - 1],
                history[to - 1],
                "back at version {to}"
            );
        }
    }
    for (at, wanted) in history.iter().enumerate() {
        let version = u64::try_from(at + 1).unwrap();
        let found = on
            .elsewhere()
            .store
            .state_at(id.as_root(), version)
            .await
            .unwrap();
        assert_eq!(found, *wanted, "the state at version {version}");
    }
    assert_eq!(history[VERSIONS - 1]["k5"], VERSIONS);
}

/// Reading a version that the state never had is an error.
pub async fn a_version_that_never_was_cannot_be_read(on: &Subject) {
    let id = created(on, "s").await;
    changed(on, &id, Change::WriteState(sets("a", 1))).await;
    for version in [0, 3, u64::MAX] {
        let found = on.store.state_at(id.as_root(), version).await;
        assert!(
            matches!(found, Err(StoreError::Invalid { .. })),
            "{version}: {found:?}"
        );
    }
    let empty = Change::WriteState(writes(json!([])));
    let committed = changed(on, &id, empty).await;
    assert_eq!(committed.state_version, 2, "no writes make no version");
}

/// Several changes of the state in one commit build on each other.
pub async fn changes_of_one_commit_build_on_each_other(on: &Subject) {
    let id = created(on, "s").await;
    let many = commit(on, &id)
        .then(Change::SetState(Arc::new(json!({ "log": [1] }))))
        .then(Change::WriteState(writes(json!([
            { "op": "append", "path": "/log", "value": 2 },
        ]))))
        .then(Change::WriteState(writes(json!([
            { "op": "append", "path": "/log", "value": 3 },
        ]))));
    let receipt = accepted(on, many).await;
    assert_eq!(receipt.sessions[&id].state_version, 4);
    let logs = [
        json!({}),
        json!({ "log": [1] }),
        json!({ "log": [1, 2] }),
        json!({ "log": [1, 2, 3] }),
    ];
    for (at, wanted) in logs.iter().enumerate() {
        let version = u64::try_from(at + 1).unwrap();
        assert_eq!(
            *on.store.state_at(id.as_root(), version).await.unwrap(),
            *wanted
        );
    }
}

/// A state of a megabyte is stored, and so is a small write to it.
pub async fn a_large_state_is_kept_version_by_version(on: &Subject) {
    let id = created(on, "s").await;
    let large = Arc::new(json!({ "blob": "ß".repeat(512 * 1024), "n": 0 }));
    changed(on, &id, Change::SetState(Arc::clone(&large))).await;
    for n in 1..=3 {
        changed(on, &id, Change::WriteState(sets("n", n))).await;
    }
    assert_eq!(on.store.state_at(id.as_root(), 2).await.unwrap(), large);
    let last = on.store.state_at(id.as_root(), 5).await.unwrap();
    assert_eq!((&last["blob"], &last["n"]), (&large["blob"], &json!(3)));
}
