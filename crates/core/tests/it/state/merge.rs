//! Merging the writes of parallel tools.

use std::sync::Arc;

use helix_agents_core::state::{
    ArrayMode, ConflictReason, Draft, Merged, StateOp, StepWrites, Writer, apply_writes,
    merge_writes, to_rfc6902,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::model::{self, oracle_patch};

fn writes(ops: Value) -> StepWrites {
    serde_json::from_value(ops).unwrap()
}

fn merge(base: &Value, writers: impl IntoIterator<Item = Value>) -> (Value, Value) {
    let named = writers.into_iter().zip(["a", "b", "c", "d"]).enumerate();
    let writers = named.map(|(order, (ops, name))| Writer {
        order,
        name: name.to_owned(),
        writes: writes(ops),
    });
    let merged = merge_writes(&Arc::new(base.clone()), writers);
    let mut state = base.clone();
    apply_writes(&mut state, &merged.writes).unwrap();
    (state, serde_json::to_value(merged.conflicts).unwrap())
}

fn overlap(path: &str, winner: &str, losers: &[&str]) -> Value {
    json!({ "path": path, "winner": winner, "losers": losers, "reason": { "kind": "overlap" } })
}

/// proves: STT-07
#[test]
fn parallel_changes_are_merged_in_order() {
    let base = json!({ "n": 1, "x": 0, "list": [0], "o": { "k": 1, "l": 2 }, "grid": [[1]] });
    let append = |v: Value| json!({ "op": "append", "path": "/list", "value": v });
    let add = |by: Value| json!({ "op": "increment", "path": "/n", "by": by });
    let set = |path: &str, v: Value| json!({ "op": "replace", "path": path, "value": v });
    let delete = |path: &str| json!({ "op": "delete", "path": path });

    for (name, writers, changed, conflicts) in [
        (
            "appends and increments compose",
            vec![
                json!([append(json!(1)), add(json!(1))]),
                json!([append(json!(2)), add(json!(10))]),
                json!([append(json!(3))]),
            ],
            json!({ "list": [0, 1, 2, 3], "n": 12 }),
            json!([]),
        ),
        (
            "disjoint keys do not meet, also under a new parent",
            vec![
                json!([set("/o/k", json!(5)), set("/new/a", json!(1))]),
                json!([set("/o/m", json!(6)), set("/new/b", json!(2))]),
            ],
            json!({ "o": { "k": 5, "l": 2, "m": 6 }, "new": { "a": 1, "b": 2 } }),
            json!([]),
        ),
        (
            "the last replacement wins",
            vec![
                json!([set("/x", json!(1))]),
                json!([set("/x", json!(2))]),
                json!([set("/x", json!(3))]),
            ],
            json!({ "x": 3 }),
            json!([overlap("/x", "c", &["a", "b"])]),
        ),
        (
            "equal replacements and deletions agree",
            vec![
                json!([set("/x", json!(1)), delete("/o/k")]),
                json!([set("/x", json!(1)), delete("/o/k")]),
            ],
            json!({ "x": 1, "o": { "l": 2 } }),
            json!([]),
        ),
        (
            "only who differs from the winner loses",
            vec![
                json!([set("/x", json!(1))]),
                json!([set("/x", json!(2))]),
                json!([set("/x", json!(2))]),
            ],
            json!({ "x": 2 }),
            json!([overlap("/x", "c", &["a"])]),
        ),
        (
            "a replacement overwrites appends and increments",
            vec![
                json!([append(json!(1)), add(json!(1))]),
                json!([append(json!(2)), add(json!(1))]),
                json!([set("/list", json!([])), set("/n", json!(0))]),
            ],
            json!({ "list": [], "n": 0 }),
            json!([
                overlap("/list", "c", &["a", "b"]),
                overlap("/n", "c", &["a", "b"])
            ]),
        ),
        (
            "appends and increments build on a replacement",
            vec![
                json!([set("/list", json!([9])), set("/n", json!(5))]),
                json!([append(json!(1)), add(json!(1))]),
                json!([append(json!(2)), add(json!(1))]),
            ],
            json!({ "list": [9, 1, 2], "n": 7 }),
            json!([overlap("/list", "c", &["a"]), overlap("/n", "c", &["a"])]),
        ),
        (
            "a value and a part of it",
            vec![
                json!([set("/o/k", json!(5))]),
                json!([set("/o", json!({}))]),
                json!([set("/o/k", json!(7)), set("/o/z", json!(8))]),
            ],
            json!({ "o": { "k": 7, "z": 8 } }),
            json!([
                overlap("/o", "b", &["a"]),
                overlap("/o/k", "c", &["b"]),
                overlap("/o/z", "c", &["b"])
            ]),
        ),
        (
            "what lost below is part of what loses above",
            vec![
                json!([set("/o/k", json!(5))]),
                json!([set("/o/k", json!(6))]),
                json!([delete("/o")]),
            ],
            json!({ "o": null }),
            json!([overlap("/o", "c", &["a", "b"])]),
        ),
        (
            "the whole state",
            vec![
                json!([set("/x", json!(5))]),
                json!([set("", json!({ "only": 1 }))]),
            ],
            json!({ "n": null, "x": null, "list": null, "o": null, "grid": null, "only": 1 }),
            json!([overlap("", "b", &["a"])]),
        ),
        (
            "one's own changes are no conflict, but agree with nobody's",
            vec![
                json!([
                    set("/n", json!(5)),
                    add(json!(1)),
                    set("/grid/0/0", json!(2)),
                    json!({ "op": "append", "path": "/grid", "value": 3 })
                ]),
                json!([
                    add(json!(1)),
                    json!({ "op": "append", "path": "/grid", "value": 4 })
                ]),
            ],
            json!({ "n": 7, "grid": [[2], 3, 4] }),
            json!([overlap("/grid", "b", &["a"]), overlap("/n", "b", &["a"])]),
        ),
        (
            "what one overwrites oneself does not count",
            vec![
                json!([
                    append(json!(1)),
                    set("/list", json!([5])),
                    add(json!(1)),
                    delete("/n")
                ]),
                json!([set("/list", json!([5])), delete("/n")]),
            ],
            json!({ "list": [5], "n": null }),
            json!([]),
        ),
        (
            "keys that look alike do not overlap",
            vec![
                json!([set("/o", json!(1))]),
                json!([set("/o~1k", json!(2))]),
                json!([set("/ok", json!(3))]),
            ],
            json!({ "o": 1, "o/k": 2, "ok": 3 }),
            json!([]),
        ),
    ] {
        let mut expected = base.clone();
        for (key, value) in changed.as_object().unwrap() {
            match value {
                Value::Null => drop(expected.as_object_mut().unwrap().remove(key)),
                value => expected[key] = value.clone(),
            }
        }
        assert_eq!(merge(&base, writers), (expected, conflicts), "{name}");
    }
}

/// A change that an earlier writer made impossible is dropped and reported.
///
/// proves: STT-07
#[test]
fn changes_that_no_longer_apply_are_dropped() {
    let base = json!({ "list": [], "n": 1 });
    let dropped = |path: &str, winner: Value, loser: &str, error: &str| json!({ "path": path, "winner": winner, "losers": [loser], "reason": { "kind": "inapplicable", "error": error } });
    let (state, conflicts) = merge(
        &base,
        [
            json!([
                { "op": "replace", "path": "/list", "value": "none" },
                { "op": "increment", "path": "/n", "by": u64::MAX - 1 },
                { "op": "replace", "path": "/o/k", "value": 1 },
            ]),
            json!([
                { "op": "append", "path": "/list", "value": 1 },
                { "op": "replace", "path": "/list/x/y", "value": 1 },
                { "op": "increment", "path": "/n", "by": 1 },
                { "op": "append", "path": "/o", "value": 1 },
                { "op": "append", "path": "/n", "value": 1 },
                { "op": "replace", "path": "/kept", "value": true },
            ]),
            json!([{ "op": "replace", "path": "/kept/x", "value": 1 }, { "op": "append", "path": "/o", "value": 1 }]),
        ],
    );
    assert_eq!(
        state,
        json!({ "list": "none", "n": u64::MAX, "o": { "k": 1 }, "kept": true })
    );
    assert_eq!(
        conflicts,
        json!([
            dropped(
                "/list",
                json!("a"),
                "b",
                "`/list` is a string, not an array; set it to an array first"
            ),
            dropped(
                "/list/x/y",
                json!("a"),
                "b",
                "`/list/x/y` leads through a string at `/list`; replace that value by an object first"
            ),
            dropped(
                "/n",
                json!("a"),
                "b",
                "incrementing `/n` overflows a JSON number; keep counters within 64 bits"
            ),
            dropped(
                "/o",
                json!("a"),
                "b",
                "`/o` is an object, not an array; set it to an array first"
            ),
            dropped(
                "/n",
                json!("a"),
                "b",
                "`/n` is a number, not an array; set it to an array first"
            ),
            dropped(
                "/kept/x",
                json!("b"),
                "c",
                "`/kept/x` leads through a boolean at `/kept`; replace that value by an object first"
            ),
            dropped(
                "/o",
                json!("a"),
                "c",
                "`/o` is an object, not an array; set it to an array first"
            ),
        ]),
    );

    let (_, conflicts) = merge(
        &base,
        [json!([{ "op": "append", "path": "/n", "value": 1 }])],
    );
    assert_eq!(
        conflicts[0]["winner"],
        Value::Null,
        "nobody else is to blame"
    );
}

/// Writers that each changed the same state, with the writes that tools report: one list each, or,
/// if streamed, the lists of several updates one after the other.
fn writers(streamed: bool) -> impl Strategy<Value = (Value, Vec<Writer>)> {
    let scripts = proptest::collection::vec(model::commands(), 0..5);
    (model::state(), scripts).prop_map(move |(state, scripts)| {
        let writers = scripts.iter().enumerate().map(|(order, commands)| {
            let mut state = state.clone();
            let mut writes = StepWrites::new();
            for update in commands.chunks(if streamed { 2 } else { usize::MAX }) {
                let mut draft = Draft::new(state.clone(), ArrayMode::Delta);
                for command in update {
                    let _ = command.run(&mut draft, &command.path(&state));
                }
                state = draft.to_value();
                writes.extend(draft.writes());
            }
            Writer {
                order,
                name: format!("call_{order}"),
                writes,
            }
        });
        let writers = writers.collect();
        (state, writers)
    })
}

/// Finds overlaps the slow way: compares every two changes of different writers.
fn overlaps_naively(base: &Value, writers: &[Writer]) -> bool {
    let mut draft = Draft::new(base.clone(), ArrayMode::Delta);
    let mut applied: Vec<(usize, &StateOp)> = Vec::new();
    for (index, writer) in writers.iter().enumerate() {
        applied.extend(
            writer
                .writes
                .iter()
                .filter(|op| draft.apply(op).is_ok())
                .map(|op| (index, op)),
        );
    }
    let agree = |a: &StateOp, b: &StateOp| match (a, b) {
        (StateOp::Append { path: p, .. }, StateOp::Append { path: q, .. })
        | (StateOp::Increment { path: p, .. }, StateOp::Increment { path: q, .. })
        | (StateOp::Delete { path: p }, StateOp::Delete { path: q }) => p == q,
        (StateOp::Replace { .. }, StateOp::Replace { .. }) => a == b,
        _ => false,
    };
    applied.iter().any(|(i, a)| {
        applied
            .iter()
            .any(|(j, b)| i != j && a.path().is_prefix_of(b.path()) && !agree(a, b))
    })
}

/// Merges writers that arrived in some order, checks the invariants, and returns whether overlaps
/// were reported, and whether there are any.
fn check(state: &Value, arrived: Vec<Writer>) -> Result<(bool, bool), TestCaseError> {
    let base = Arc::new(state.clone());
    let mut in_order = arrived.clone();
    in_order.sort_by_key(|writer| writer.order);
    let merged = merge_writes(&base, arrived);
    prop_assert_eq!(&merged, &merge_writes(&base, in_order.clone()));

    let mut expected = Draft::new(Arc::clone(&base), ArrayMode::Delta);
    for op in in_order.iter().flat_map(|writer| &writer.writes) {
        let _ = expected.apply(op);
    }
    let expected = expected.to_value();
    let mut stored = state.clone();
    apply_writes(&mut stored, &merged.writes).unwrap();
    prop_assert_eq!(&stored, &expected);
    let patches = to_rfc6902(&merged.writes, &base).unwrap();
    prop_assert_eq!(&oracle_patch(state, &patches)?, &expected);

    for conflict in &merged.conflicts {
        prop_assert!(!conflict.losers.is_empty());
        prop_assert!(conflict.losers.is_sorted());
        prop_assert!(
            !conflict
                .losers
                .iter()
                .any(|loser| Some(loser) == conflict.winner.as_ref())
        );
    }
    let reported = merged
        .conflicts
        .iter()
        .any(|conflict| conflict.reason == ConflictReason::Overlap);
    Ok((reported, overlaps_naively(state, &in_order)))
}

fn shuffled(streamed: bool) -> impl Strategy<Value = (Value, Vec<Writer>)> {
    writers(streamed).prop_flat_map(|(state, writers)| (Just(state), Just(writers).prop_shuffle()))
}

proptest! {
    /// The result does not depend on which writer finished first, applies to the initial state, and
    /// is the same for store and client; overlaps are reported if and only if there are any.
    ///
    /// proves: STT-05, STT-07
    #[test]
    fn merging_does_not_depend_on_arrival((state, arrived) in shuffled(false)) {
        let (reported, found) = check(&state, arrived)?;
        prop_assert_eq!(reported, found);
    }

    /// The same for writers whose lists have several changes of one place; a change that a writer
    /// overwrites itself may avoid a conflict.
    ///
    /// proves: STT-05, STT-07
    #[test]
    fn merging_streamed_writes_does_not_depend_on_arrival((state, arrived) in shuffled(true)) {
        let (reported, found) = check(&state, arrived)?;
        prop_assert!(found || !reported);
    }

    /// All appends survive and all increments count, without a conflict.
    ///
    /// proves: STT-07
    #[test]
    fn appends_and_increments_compose(
        state in model::state(),
        counts in proptest::collection::vec((0_usize..4, -9_i64..10), 1..6).prop_shuffle(),
    ) {
        let mut base = state;
        let initial = json!({ "list": ["first"], "n": 5 });
        base["shared"] = initial;
        let base = Arc::new(base);
        let writers = counts.iter().enumerate().map(|(order, (appends, by))| {
            let mut draft = Draft::new(Arc::clone(&base), ArrayMode::Delta);
            for item in 0..*appends {
                draft.push("/shared/list", (order, item)).unwrap();
                draft.push("/shared/fresh/list", (order, item)).unwrap();
            }
            draft.increment("/shared/n", *by).unwrap();
            draft.increment("/shared/fresh/n", *by).unwrap();
            Writer { order, name: order.to_string(), writes: draft.writes() }
        });
        let Merged { writes, conflicts, .. } = merge_writes(&base, writers.collect::<Vec<_>>().into_iter().rev());
        prop_assert_eq!(conflicts, vec![]);

        let mut state = (*base).clone();
        apply_writes(&mut state, &writes).unwrap();
        let items: Vec<Value> = counts.iter().enumerate()
            .flat_map(|(order, (appends, _))| (0..*appends).map(move |item| json!([order, item])))
            .collect();
        let sum: i64 = counts.iter().map(|(_, by)| by).sum();
        let mut fresh = json!({ "n": sum });
        if !items.is_empty() {
            fresh["list"] = Value::from(items.clone());
        }
        let list: Vec<Value> = [json!("first")].into_iter().chain(items).collect();
        prop_assert_eq!(&state["shared"], &json!({ "list": list, "n": 5 + sum, "fresh": fresh }));
    }
}
