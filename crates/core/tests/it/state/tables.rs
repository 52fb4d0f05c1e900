//! Tables of the operations that each kind of change reports, in both array modes.

use helix_agents_core::state::{ArrayMode, Draft, StateError, apply_patch, apply_writes};
use serde_json::{Value, json};

type Change = fn(&mut Draft) -> Result<(), StateError>;

struct Case {
    name: &'static str,
    change: Change,
    /// The stored writes, and the patches for clients, in delta mode.
    writes: Value,
    patches: Value,
}

fn base() -> Value {
    json!({
        "count": 1,
        "ratio": 0.5,
        "name": "x",
        "nothing": null,
        "user": { "profile": { "name": "Alice" } },
        "items": [1, 2, 3],
        "grid": [[1], [2, { "x": 0 }]],
        "a/b": { "m~n": 1, "": "empty" },
    })
}

fn check(mode: ArrayMode, cases: impl IntoIterator<Item = Case>) {
    for Case {
        name,
        change,
        writes,
        patches,
    } in cases
    {
        let mut draft = Draft::new(base(), mode);
        change(&mut draft).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(
            serde_json::to_value(draft.writes()).unwrap(),
            writes,
            "{name}: writes"
        );
        assert_eq!(
            serde_json::to_value(draft.rfc6902_patches()).unwrap(),
            patches,
            "{name}: patches"
        );

        let (mut stored, mut client) = (base(), base());
        apply_writes(&mut stored, &draft.writes()).unwrap();
        apply_patch(&mut client, &draft.rfc6902_patches()).unwrap();
        assert_eq!(stored, draft.to_value(), "{name}: stored");
        assert_eq!(client, draft.to_value(), "{name}: client");
    }
}

/// proves: STT-02
#[test]
fn changes_of_values_and_keys_are_reported_as_operations() {
    let cases = || {
        [
            Case {
                name: "a scalar is replaced",
                change: |d| d.set("/count", 5),
                writes: json!([{ "op": "replace", "path": "/count", "value": 5 }]),
                patches: json!([{ "op": "replace", "path": "/count", "value": 5 }]),
            },
            Case {
                name: "a new key is added",
                change: |d| d.set("/new", [1]),
                writes: json!([{ "op": "replace", "path": "/new", "value": [1] }]),
                patches: json!([{ "op": "add", "path": "/new", "value": [1] }]),
            },
            Case {
                name: "a nested value is replaced at its own path",
                change: |d| d.set("/user/profile/name", "Bob"),
                writes: json!([{ "op": "replace", "path": "/user/profile/name", "value": "Bob" }]),
                patches: json!([{ "op": "replace", "path": "/user/profile/name", "value": "Bob" }]),
            },
            Case {
                name: "missing parents are added with what is in them",
                change: |d| {
                    d.set("/p/q/r", 1)?;
                    d.set("/count", 2)?;
                    d.push("/p/list", 2)
                },
                writes: json!([
                    { "op": "replace", "path": "/p/q/r", "value": 1 },
                    { "op": "replace", "path": "/count", "value": 2 },
                    { "op": "append", "path": "/p/list", "value": 2 },
                ]),
                patches: json!([
                    { "op": "add", "path": "/p", "value": { "q": { "r": 1 }, "list": [2] } },
                    { "op": "replace", "path": "/count", "value": 2 },
                ]),
            },
            Case {
                name: "a removed key",
                change: |d| d.remove("/user/profile").map(|found| assert!(found)),
                writes: json!([{ "op": "delete", "path": "/user/profile" }]),
                patches: json!([{ "op": "remove", "path": "/user/profile" }]),
            },
            Case {
                name: "removing what is not there",
                change: |d| {
                    for path in ["/missing", "/name/x", "/items/9", "/items/x", "/user/x/y"] {
                        assert!(!d.remove(path)?, "{path}");
                    }
                    Ok(())
                },
                writes: json!([]),
                patches: json!([]),
            },
            Case {
                name: "segments are escaped",
                change: |d| {
                    d.set("/a~1b/m~0n", 2)?;
                    d.set("/a~1b/x~1~0", 3)?;
                    d.remove("/a~1b/").map(drop)
                },
                writes: json!([
                    { "op": "replace", "path": "/a~1b/m~0n", "value": 2 },
                    { "op": "replace", "path": "/a~1b/x~1~0", "value": 3 },
                    { "op": "delete", "path": "/a~1b/" },
                ]),
                patches: json!([
                    { "op": "replace", "path": "/a~1b/m~0n", "value": 2 },
                    { "op": "add", "path": "/a~1b/x~1~0", "value": 3 },
                    { "op": "remove", "path": "/a~1b/" },
                ]),
            },
            Case {
                name: "the last value of a key is reported once",
                change: |d| {
                    d.set("/count", 2)?;
                    d.set("/name", "y")?;
                    d.set("/count", 3)
                },
                writes: json!([
                    { "op": "replace", "path": "/count", "value": 3 },
                    { "op": "replace", "path": "/name", "value": "y" },
                ]),
                patches: json!([
                    { "op": "replace", "path": "/count", "value": 3 },
                    { "op": "replace", "path": "/name", "value": "y" },
                ]),
            },
            Case {
                name: "what is set and removed again never was",
                change: |d| {
                    d.set("/new", 1)?;
                    d.remove("/new").map(drop)
                },
                writes: json!([]),
                patches: json!([]),
            },
            Case {
                name: "a parent that was made on the way stays",
                change: |d| {
                    d.set("/new/key", 1)?;
                    d.remove("/new/key").map(drop)
                },
                writes: json!([{ "op": "replace", "path": "/new", "value": {} }]),
                patches: json!([{ "op": "add", "path": "/new", "value": {} }]),
            },
            Case {
                name: "what is removed and set again is replaced whole",
                change: |d| {
                    d.remove("/user")?;
                    d.set("/user/age", 7)
                },
                writes: json!([{ "op": "replace", "path": "/user", "value": { "age": 7 } }]),
                patches: json!([{ "op": "replace", "path": "/user", "value": { "age": 7 } }]),
            },
            Case {
                name: "the whole state",
                change: |d| {
                    d.set("/count", 9)?;
                    d.set("", json!({ "only": 1 }))?;
                    d.set("/more", 2)
                },
                writes: json!([{ "op": "replace", "path": "", "value": { "only": 1, "more": 2 } }]),
                patches: json!([{ "op": "replace", "path": "", "value": { "only": 1, "more": 2 } }]),
            },
        ]
    };
    check(ArrayMode::Delta, cases());
    // Only the case that appends differs between the modes.
    check(
        ArrayMode::Replace,
        cases()
            .into_iter()
            .filter(|case| !case.writes.to_string().contains("append")),
    );
}

/// A number can be incremented.
///
/// proves: STT-02, STT-07
#[test]
fn increments_are_reported_as_operations() {
    check(
        ArrayMode::Delta,
        [
            Case {
                name: "a number",
                change: |d| d.increment("/count", 2),
                writes: json!([{ "op": "increment", "path": "/count", "by": 2 }]),
                patches: json!([{ "op": "replace", "path": "/count", "value": 3 }]),
            },
            Case {
                name: "several of an integer are one",
                change: |d| {
                    d.increment("/count", 2)?;
                    d.increment("/count", -5)?;
                    d.increment("/count", 1_u8)
                },
                writes: json!([{ "op": "increment", "path": "/count", "by": -2 }]),
                patches: json!([{ "op": "replace", "path": "/count", "value": -1 }]),
            },
            Case {
                name: "several of a float stay apart, because their sum depends on the order",
                change: |d| {
                    d.increment("/ratio", 1.0_f32)?;
                    d.increment("/ratio", -0.25)
                },
                writes: json!([
                    { "op": "increment", "path": "/ratio", "by": 1.0 },
                    { "op": "increment", "path": "/ratio", "by": -0.25 },
                ]),
                patches: json!([{ "op": "replace", "path": "/ratio", "value": 1.25 }]),
            },
            Case {
                name: "a missing number starts at zero",
                change: |d| d.increment("/stats/calls", 1_u64),
                writes: json!([{ "op": "increment", "path": "/stats/calls", "by": 1 }]),
                patches: json!([{ "op": "add", "path": "/stats", "value": { "calls": 1 } }]),
            },
            Case {
                name: "after a set",
                change: |d| {
                    d.set("/count", 10)?;
                    d.increment("/count", 1)
                },
                writes: json!([{ "op": "replace", "path": "/count", "value": 11 }]),
                patches: json!([{ "op": "replace", "path": "/count", "value": 11 }]),
            },
            Case {
                name: "before a removal",
                change: |d| {
                    d.increment("/count", 1)?;
                    d.remove("/count").map(drop)
                },
                writes: json!([{ "op": "delete", "path": "/count" }]),
                patches: json!([{ "op": "remove", "path": "/count" }]),
            },
            Case {
                name: "inside an array",
                change: |d| d.increment("/grid/1/1/x", 1),
                writes: json!([{ "op": "replace", "path": "/grid", "value": [[1], [2, { "x": 1 }]] }]),
                patches: json!([{ "op": "replace", "path": "/grid", "value": [[1], [2, { "x": 1 }]] }]),
            },
        ],
    );
}

/// proves: STT-03
#[test]
fn array_changes_are_reported_as_appends_in_delta_mode() {
    check(
        ArrayMode::Delta,
        [
            Case {
                name: "appends in order",
                change: |d| {
                    d.push("/items", json!({ "id": 1 }))?;
                    d.insert("/items/-", 5)?;
                    d.insert("/items/5", 6)
                },
                writes: json!([
                    { "op": "append", "path": "/items", "value": { "id": 1 } },
                    { "op": "append", "path": "/items", "value": 5 },
                    { "op": "append", "path": "/items", "value": 6 },
                ]),
                patches: json!([
                    { "op": "add", "path": "/items/-", "value": { "id": 1 } },
                    { "op": "add", "path": "/items/-", "value": 5 },
                    { "op": "add", "path": "/items/-", "value": 6 },
                ]),
            },
            Case {
                name: "a missing array is added",
                change: |d| {
                    d.push("/log", "a")?;
                    d.push("/log", "b")
                },
                writes: json!([
                    { "op": "append", "path": "/log", "value": "a" },
                    { "op": "append", "path": "/log", "value": "b" },
                ]),
                patches: json!([{ "op": "add", "path": "/log", "value": ["a", "b"] }]),
            },
            Case {
                name: "an element is set",
                change: |d| d.set("/items/0", 9),
                writes: json!([{ "op": "replace", "path": "/items", "value": [9, 2, 3] }]),
                patches: json!([{ "op": "replace", "path": "/items", "value": [9, 2, 3] }]),
            },
            Case {
                name: "an element is removed",
                change: |d| d.remove("/items/1").map(drop),
                writes: json!([{ "op": "replace", "path": "/items", "value": [1, 3] }]),
                patches: json!([{ "op": "replace", "path": "/items", "value": [1, 3] }]),
            },
            Case {
                name: "an element is inserted",
                change: |d| d.insert("/items/1", 9),
                writes: json!([{ "op": "replace", "path": "/items", "value": [1, 9, 2, 3] }]),
                patches: json!([{ "op": "replace", "path": "/items", "value": [1, 9, 2, 3] }]),
            },
            Case {
                name: "appends and other changes together are one replacement",
                change: |d| {
                    d.push("/items", 4)?;
                    d.remove("/items/0")?;
                    d.push("/items", 5)?;
                    d.set("/items/1", 0)
                },
                writes: json!([{ "op": "replace", "path": "/items", "value": [2, 0, 4, 5] }]),
                patches: json!([{ "op": "replace", "path": "/items", "value": [2, 0, 4, 5] }]),
            },
            Case {
                name: "what is inside arrays replaces the outermost one, once",
                change: |d| {
                    d.push("/grid/0", 7)?;
                    d.set("/grid/1/1/x", 8)?;
                    d.set("/grid/1/1/y/z", 9)
                },
                writes: json!([{ "op": "replace", "path": "/grid", "value": [[1, 7], [2, { "x": 8, "y": { "z": 9 } }]] }]),
                patches: json!([{ "op": "replace", "path": "/grid", "value": [[1, 7], [2, { "x": 8, "y": { "z": 9 } }]] }]),
            },
            Case {
                name: "an array that was set is reported with what was appended since",
                change: |d| {
                    d.set("/items", json!([]))?;
                    d.push("/items", 1)
                },
                writes: json!([{ "op": "replace", "path": "/items", "value": [1] }]),
                patches: json!([{ "op": "replace", "path": "/items", "value": [1] }]),
            },
            Case {
                name: "an array that is removed",
                change: |d| {
                    d.push("/items", 4)?;
                    d.set("/items/0", 4)?;
                    d.remove("/items").map(drop)
                },
                writes: json!([{ "op": "delete", "path": "/items" }]),
                patches: json!([{ "op": "remove", "path": "/items" }]),
            },
        ],
    );
}

/// proves: STT-04
#[test]
fn array_changes_are_reported_whole_in_replace_mode() {
    assert_eq!(ArrayMode::default(), ArrayMode::Replace);
    check(
        ArrayMode::Replace,
        [
            Case {
                name: "appends",
                change: |d| {
                    d.push("/items", 4)?;
                    d.push("/items", 5)
                },
                writes: json!([{ "op": "replace", "path": "/items", "value": [1, 2, 3, 4, 5] }]),
                patches: json!([{ "op": "replace", "path": "/items", "value": [1, 2, 3, 4, 5] }]),
            },
            Case {
                name: "an append to an array in an array",
                change: |d| d.push("/grid/0", 4),
                writes: json!([{ "op": "replace", "path": "/grid", "value": [[1, 4], [2, { "x": 0 }]] }]),
                patches: json!([{ "op": "replace", "path": "/grid", "value": [[1, 4], [2, { "x": 0 }]] }]),
            },
            Case {
                name: "an append to a missing array",
                change: |d| d.push("/log/today", "a"),
                writes: json!([{ "op": "replace", "path": "/log/today", "value": ["a"] }]),
                patches: json!([{ "op": "add", "path": "/log", "value": { "today": ["a"] } }]),
            },
            Case {
                name: "a splice",
                change: |d| d.remove("/items/1").map(drop),
                writes: json!([{ "op": "replace", "path": "/items", "value": [1, 3] }]),
                patches: json!([{ "op": "replace", "path": "/items", "value": [1, 3] }]),
            },
        ],
    );
}

/// An impossible change is refused with an error that says what to do.
///
/// proves: STT-10
#[test]
fn impossible_changes_are_refused_with_a_remedy() {
    let mut draft = Draft::new(base(), ArrayMode::Delta);
    let nan = draft.set("/count", f64::NAN);
    for (result, message) in [
        (
            draft.set("/name/first", 1),
            "`/name/first` leads through a string at `/name`; replace that value by an object first",
        ),
        (
            draft.set("/nothing/a/b", 1),
            "`/nothing/a/b` leads through null at `/nothing`; replace that value by an object first",
        ),
        (
            draft.set("/items/3", 1),
            "`/items/3` names no element of the array at `/items`, which has 3; use an index below that, or push",
        ),
        (
            draft.set("/grid/01/x", 1),
            "`/grid/01/x` names no element of the array at `/grid`, which has 2; use an index below that, or push",
        ),
        (
            draft.insert("/items/4", 1),
            "`/items/4` names no element of the array at `/items`, which has 3; use an index below that, or push",
        ),
        (
            draft.insert("/log/0", 1),
            "nothing is at `/log`; create it first, and apply patches in order",
        ),
        (
            draft.push("/name", 1),
            "`/name` is a string, not an array; set it to an array first",
        ),
        (
            draft.increment("/name", 1),
            "`/name` is a string, not a number; set it to a number first",
        ),
        (
            draft.increment("/count", u64::MAX),
            "incrementing `/count` overflows a JSON number; keep counters within 64 bits",
        ),
        (
            draft.increment("/count", f64::NAN),
            "the value at `` has no JSON form: the increment is not a finite number; store a value that JSON can hold",
        ),
        (
            nan,
            "the value at `` has no JSON form: NaN is not a finite number; store a value that JSON can hold",
        ),
        (
            draft.set("", 1),
            "a state cannot be a number; keep an object at its root and put the value under a key",
        ),
        (
            draft.remove("").map(drop),
            "a state's root cannot be removed; set it to an empty object instead",
        ),
        (
            draft.get_as::<u8>("/name").map(drop),
            "the value at `/name` does not have the expected type; read it as a JSON value to see what it is",
        ),
    ] {
        assert_eq!(result.unwrap_err().to_string(), message);
    }
    assert!(draft.writes().is_empty());
}

/// A client refuses a patch that was not made for its state.
///
/// proves: STT-05
#[test]
fn a_patch_for_another_state_is_refused() {
    for patch in [
        json!({ "op": "replace", "path": "/missing", "value": 1 }),
        json!({ "op": "remove", "path": "/missing" }),
        json!({ "op": "remove", "path": "" }),
        json!({ "op": "add", "path": "/missing/key", "value": 1 }),
        json!({ "op": "add", "path": "/items/9", "value": 1 }),
        json!({ "op": "add", "path": "/name/x", "value": 1 }),
        json!({ "op": "replace", "path": "", "value": 1 }),
    ] {
        let patches = [
            serde_json::from_value(json!({ "op": "add", "path": "/items/0", "value": 0 })).unwrap(),
            serde_json::from_value(patch).unwrap(),
        ];
        let mut state = base();
        apply_patch(&mut state, &patches).unwrap_err();
        assert_eq!(state, base());
        apply_patch(&mut state, &patches[..1]).unwrap();
        assert_eq!(state["items"], json!([0, 1, 2, 3]));
    }
}
