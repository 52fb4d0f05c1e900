//! Properties of drafts, of their reports, and of `diff`.

use std::{borrow::Cow, sync::Arc};

use helix_agents_core::state::{
    ArrayMode, Draft, Pointer, StateError, StateOp, StepWrites, apply_patch, apply_writes, diff,
    to_rfc6902,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::model::{self, Command, oracle_patch, step};

const MODES: [ArrayMode; 2] = [ArrayMode::Delta, ArrayMode::Replace];

/// Runs commands on a draft and on the model, compares after each, and returns the final state.
fn run(draft: &mut Draft, state: &Value, commands: &[Command]) -> Result<Value, TestCaseError> {
    let mut model = state.clone();
    for command in commands {
        let path = command.path(&model);
        let found = command.run(draft, &path);
        match command.model(&model, &path) {
            Some((next, done)) => {
                prop_assert_eq!(
                    found.ok(),
                    Some(done),
                    "{:?} at {:?} in {}",
                    command,
                    path,
                    model
                );
                model = next;
            }
            None => prop_assert!(found.is_err(), "{:?} at {:?} in {}", command, path, model),
        }
        prop_assert_eq!(
            &draft.to_value(),
            &model,
            "after {:?} at {:?}",
            command,
            path
        );
        check_reads(draft, &model, &path)?;
    }
    Ok(model)
}

/// Checks that every prefix of the path reads as in the model.
fn check_reads(draft: &Draft, model: &Value, path: &Pointer) -> Result<(), TestCaseError> {
    let mut at = Some(model);
    let mut prefix = Pointer::root();
    for segment in path.segments().map(Some).chain([None]) {
        let found = draft.get(&prefix).unwrap();
        prop_assert_eq!(found.as_deref(), at);
        prop_assert_eq!(draft.contains(&prefix).unwrap(), at.is_some());
        let len = at.and_then(|v| {
            v.as_array()
                .map(Vec::len)
                .or(v.as_object().map(|map| map.len()))
        });
        prop_assert_eq!(draft.len(&prefix).unwrap(), len);
        if let Some(segment) = segment {
            at = at.and_then(|value| step(value, &segment));
            prefix.push(&segment);
        }
    }
    Ok(())
}

/// Checks that no two reported places contain each other; only appends and increments repeat one.
fn check_disjoint(ops: &[StateOp]) -> Result<(), TestCaseError> {
    for (i, a) in ops.iter().enumerate() {
        for b in &ops[i + 1..] {
            let compose = matches!(
                (a, b),
                (StateOp::Append { path: p, .. }, StateOp::Append { path: q, .. })
                | (StateOp::Increment { path: p, .. }, StateOp::Increment { path: q, .. }) if p == q
            );
            let overlap = a.path().is_prefix_of(b.path()) || b.path().is_prefix_of(a.path());
            prop_assert!(compose || !overlap, "{:?} and {:?}", a, b);
        }
    }
    Ok(())
}

proptest! {
    /// One writer: whatever is done to a draft, the stored changes and the streamed patches both
    /// lead from the old state to the draft's.
    ///
    /// proves: STT-02, STT-03, STT-04, STT-05
    #[test]
    fn writes_and_patches_of_a_draft_rebuild_its_state(state in model::state(), commands in model::commands()) {
        for mode in MODES {
            let base = Arc::new(state.clone());
            let mut draft = Draft::new(Arc::clone(&base), mode);
            let expected = run(&mut draft, &state, &commands)?;
            prop_assert_eq!(&*base, &state, "the base is never touched");

            let writes = draft.writes();
            check_disjoint(writes.as_slice())?;
            let mut stored = state.clone();
            apply_writes(&mut stored, &writes).unwrap();
            prop_assert_eq!(&stored, &expected, "{:?}", writes);

            let patches = draft.rfc6902_patches();
            prop_assert_eq!(&oracle_patch(&state, &patches)?, &expected, "{:?}", &patches);
            let mut client = state.clone();
            apply_patch(&mut client, &patches).unwrap();
            prop_assert_eq!(&client, &expected, "{:?}", &patches);

            prop_assert_eq!(to_rfc6902(&writes, &base).unwrap(), patches, "stored and streamed agree");
        }
    }

    /// The differences between two drafts are those between their states, whatever part of the base
    /// both show, and whether they share a base or have two equal ones.
    ///
    /// proves in part: STT-03
    #[test]
    fn drafts_differ_as_their_states_do(
        state in model::state(),
        first in model::commands(),
        second in model::commands(),
    ) {
        let base = Arc::new(state.clone());
        for other_base in [Arc::clone(&base), Arc::new(state.clone())] {
            let mut one = Draft::new(Arc::clone(&base), ArrayMode::Delta);
            let mut two = Draft::new(other_base, ArrayMode::Delta);
            let from = run(&mut one, &state, &first)?;
            let to = run(&mut two, &state, &second)?;
            let writes = one.differences(&two);
            prop_assert_eq!(&writes, &diff(&from, &to, ArrayMode::Delta));
            let mut led = from.clone();
            apply_writes(&mut led, &writes).unwrap();
            prop_assert_eq!(led, to);
            prop_assert!(two.differences(&two).is_empty());
        }
    }

    /// In replace mode no change of an array is reported as an append, and in no mode is a change
    /// inside an array reported.
    ///
    /// proves: STT-04
    #[test]
    fn arrays_are_reported_whole(state in model::state(), commands in model::commands()) {
        for mode in MODES {
            let mut draft = Draft::new(state.clone(), mode);
            run(&mut draft, &state, &commands)?;
            let base = Draft::new(state.clone(), mode);
            for op in &draft.writes() {
                let append = matches!(op, StateOp::Append { .. });
                prop_assert!(mode == ArrayMode::Delta || !append);
                let mut above = op.path().parent();
                while let Some(path) = above {
                    prop_assert!(!base.get(&path).unwrap().is_some_and(|v| v.is_array()), "{:?}", op);
                    above = path.parent();
                }
            }
        }
    }

    /// Changes that do not apply leave the state as it was.
    ///
    /// proves: STT-05
    #[test]
    fn a_failed_application_changes_nothing(
        state in model::state(),
        other in model::state(),
        commands in model::commands(),
    ) {
        let mut draft = Draft::new(other.clone(), ArrayMode::Delta);
        run(&mut draft, &other, &commands)?;
        let mut target = state.clone();
        if apply_writes(&mut target, &draft.writes()).is_err() {
            prop_assert_eq!(&target, &state);
        }
        let mut target = state.clone();
        if apply_patch(&mut target, &draft.rfc6902_patches()).is_err() {
            prop_assert_eq!(&target, &state);
        }
    }

    /// The changes between two states lead from one to the other.
    ///
    /// proves: STT-05
    #[test]
    fn a_diff_leads_from_old_to_new(old in model::state(), new in model::state()) {
        for mode in MODES {
            let writes = diff(&old, &new, mode);
            check_disjoint(writes.as_slice())?;
            let mut found = old.clone();
            apply_writes(&mut found, &writes).unwrap();
            prop_assert_eq!(&found, &new, "{:?}", writes);
            prop_assert!(diff(&new, &new, mode).is_empty());

            let json = serde_json::to_string(&writes).unwrap();
            let read: StepWrites = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(read, writes, "the stored form loses nothing");
        }
    }

    /// The changes between a state and a draft of it lead there too.
    ///
    /// proves: STT-05
    #[test]
    fn a_diff_of_near_states_leads_from_old_to_new(old in model::state(), commands in model::commands()) {
        for mode in MODES {
            let mut draft = Draft::new(old.clone(), mode);
            let new = run(&mut draft, &old, &commands)?;
            let mut found = old.clone();
            apply_writes(&mut found, &diff(&old, &new, mode)).unwrap();
            prop_assert_eq!(&found, &new);
        }
    }
}

/// Reading and changing a draft copies neither the state nor its unchanged parts.
///
/// proves: STT-01
#[test]
fn an_unchanged_part_is_borrowed_from_the_base() {
    let base = Arc::new(json!({ "big": [[1, 2], { "x": 1 }], "other": { "deep": { "n": 1 } } }));
    let mut draft = Draft::new(Arc::clone(&base), ArrayMode::Delta);
    draft.set("/other/deep/n", 2).unwrap();
    draft.push("/big", 3).unwrap();
    draft.insert("/big/1", 4).unwrap();
    draft.remove("/big/3").unwrap();

    let borrowed = |path: &str| match draft.get(path).unwrap() {
        Some(Cow::Borrowed(value)) => Some(std::ptr::from_ref(value)),
        _ => None,
    };
    assert_eq!(
        borrowed("/big/0"),
        base.pointer("/big/0").map(std::ptr::from_ref)
    );
    assert_eq!(
        borrowed("/big/2"),
        base.pointer("/big/1").map(std::ptr::from_ref)
    );
    assert_eq!(borrowed("/big"), None);
    assert_eq!(
        draft.to_value(),
        json!({ "big": [[1, 2], 4, { "x": 1 }], "other": { "deep": { "n": 2 } } })
    );
    assert_eq!(Arc::strong_count(&base), 2);
}

/// A failed change leaves nothing behind, so the parts on its path are still borrowed.
///
/// proves: STT-01
#[test]
fn a_failed_change_leaves_no_trace() {
    let mut draft = Draft::new(
        json!({ "a": { "b": { "c": 1 }, "l": [[1]] } }),
        ArrayMode::Delta,
    );
    for error in [
        draft.set("/a/b/c/d", 1),
        draft.set("/a/l/0/5", 1),
        draft.set("/a/l/x/y", 1),
        draft.push("/a/b", 1),
        draft.increment("/a/l", 1),
        draft.insert("/a/l/7", 1),
        draft.insert("/a/missing/0", 1),
        draft.remove("").map(drop),
        draft.set("", 1),
        draft.set("a", 1),
    ] {
        error.unwrap_err();
    }
    assert!(matches!(draft.get("").unwrap(), Some(Cow::Borrowed(_))));
    assert!(draft.writes().is_empty());
}

/// The root of a state is an object, whatever a draft is made of.
///
/// proves: STT-10
#[test]
fn only_an_object_can_be_changed() {
    let mut draft = Draft::new(json!([1]), ArrayMode::Delta);
    assert!(matches!(
        draft.set("/0", 2),
        Err(StateError::RootNotObject { .. })
    ));
    assert!(matches!(
        draft.push("", 2),
        Err(StateError::RootNotObject { .. })
    ));
    assert!(matches!(
        draft.remove("/0"),
        Err(StateError::RootNotObject { .. })
    ));
    draft.set("", json!({ "a": 1 })).unwrap();
    assert_eq!(draft.to_value(), json!({ "a": 1 }));
}
