//! Which values may be stored.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

use helix_agents_core::state::{
    ArrayMode, Draft, MAX_DEPTH, StateError, StateOp, check_state, to_json,
};
use proptest::prelude::*;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::model;

#[derive(Serialize)]
struct Everything<'a> {
    unit: (),
    none: Option<u8>,
    some: Option<u8>,
    float: f32,
    long: i128,
    character: char,
    bytes: &'a [u8],
    tuple: (u8, &'a str),
    newtype: Newtype,
    #[serde(rename = "a/b")]
    variants: Vec<Variant>,
    by_number: BTreeMap<i32, bool>,
    by_flag: BTreeMap<bool, bool>,
    by_variant: BTreeMap<Name, bool>,
    value: Value,
}

#[derive(Serialize)]
struct Newtype(u8);

#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    First,
}

#[derive(Serialize)]
enum Variant {
    Unit,
    Newtype(f64),
    Tuple(u8, f64),
    Struct { x: f64 },
}

/// A value that JSON can represent becomes what `serde_json` makes of it.
///
/// proves: STT-10
#[test]
fn json_values_are_converted_as_by_serde_json() {
    let everything = Everything {
        unit: (),
        none: None,
        some: Some(1),
        float: 0.1,
        long: i128::from(u64::MAX),
        character: 'é',
        bytes: b"ab",
        tuple: (1, "x"),
        newtype: Newtype(1),
        variants: vec![
            Variant::Unit,
            Variant::Newtype(1.5),
            Variant::Tuple(1, 2.0),
            Variant::Struct { x: 0.5 },
        ],
        by_number: BTreeMap::from([(-1, true)]),
        by_flag: BTreeMap::from([(true, false)]),
        by_variant: BTreeMap::from([(Name::First, false)]),
        value: json!({ "x": [null, 1, 1.5, "s"] }),
    };
    assert_eq!(
        to_json(&everything).unwrap(),
        serde_json::to_value(&everything).unwrap()
    );
}

/// A value that JSON cannot represent is refused, with the path to it.
///
/// proves: STT-10
#[test]
fn values_without_a_json_form_are_refused_with_their_path() {
    #[derive(Serialize)]
    struct Deep {
        items: Vec<HashMap<String, Variant>>,
    }
    let deep = |variant| {
        to_json(Deep {
            items: vec![HashMap::new(), HashMap::from([("a/b".to_owned(), variant)])],
        })
    };
    let pairs = HashMap::from([((1, 2), 3)]);
    let missing = HashMap::from([(None::<String>, 3)]);
    for (result, path, reason) in [
        (to_json(f64::NAN), "", "NaN is not a finite number"),
        (
            to_json(f32::NEG_INFINITY),
            "",
            "-inf is not a finite number",
        ),
        (
            to_json((1, Some(f64::INFINITY))),
            "/1",
            "inf is not a finite number",
        ),
        (
            deep(Variant::Newtype(f64::NAN)),
            "/items/1/a~1b/Newtype",
            "NaN is not a finite number",
        ),
        (
            deep(Variant::Tuple(1, f64::NAN)),
            "/items/1/a~1b/Tuple/1",
            "NaN is not a finite number",
        ),
        (
            deep(Variant::Struct { x: f64::NAN }),
            "/items/1/a~1b/Struct/x",
            "NaN is not a finite number",
        ),
        (to_json([&pairs]), "/0", "the map key [1,2] is not a string"),
        (
            to_json([&missing]),
            "/0",
            "the map key null is not a string",
        ),
        (to_json([i128::MAX]), "/0", "number out of range"),
    ] {
        let error = result.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "the value at `{path}` has no JSON form: {reason}; store a value that JSON can hold"
            ),
        );
        assert!(matches!(error, StateError::NotJson { .. }));
    }
}

/// Only an object can be a state.
///
/// proves: STT-10
#[test]
fn a_state_is_an_object() {
    check_state(&json!({})).unwrap();
    for (value, kind) in [
        (json!(null), "null"),
        (json!(true), "a boolean"),
        (json!(1), "a number"),
        (json!("x"), "a string"),
        (json!([]), "an array"),
    ] {
        assert_eq!(
            check_state(&value).unwrap_err().to_string(),
            format!(
                "a state cannot be {kind}; keep an object at its root and put the value under a key"
            ),
        );
    }
}

proptest! {
    /// A JSON value is converted to itself.
    ///
    /// proves: STT-10
    #[test]
    fn json_passes_unchanged(value in model::value()) {
        prop_assert_eq!(to_json(&value).unwrap(), value);
    }
}

/// An array in an array in an array, to this depth.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inside, _| Value::Array(vec![inside]))
}

/// A value that is nested too deeply to be read again is refused, and so is one that contains itself.
///
/// proves: STT-10
#[test]
fn a_value_nested_too_deeply_is_refused() {
    #[derive(Serialize)]
    struct Circle {
        itself: RefCell<Option<Rc<Circle>>>,
    }
    let circle = Rc::new(Circle {
        itself: RefCell::new(None),
    });
    *circle.itself.borrow_mut() = Some(Rc::clone(&circle));
    assert!(matches!(to_json(&circle), Err(StateError::TooDeep { .. })));
    circle.itself.take();

    to_json(nested(MAX_DEPTH)).unwrap();
    assert!(matches!(
        to_json(nested(MAX_DEPTH + 1)),
        Err(StateError::TooDeep { .. })
    ));
    assert!(matches!(
        to_json(Variant::Tuple(1, 1.0)),
        Ok(Value::Object(_))
    ));

    let mut draft = Draft::new(json!({ "list": [1, 2] }), ArrayMode::Delta);
    let long = "/x".repeat(MAX_DEPTH + 1);
    for error in [
        draft.set("/a", nested(MAX_DEPTH)),
        draft.push("/a", nested(MAX_DEPTH - 1)),
        draft.push("/list", nested(MAX_DEPTH - 1)),
        draft.insert("/list/0", nested(MAX_DEPTH - 1)),
        draft.set(&long, 1),
        draft.increment(&long, 1),
        draft.apply(&StateOp::Replace {
            path: "/a".parse().unwrap(),
            value: (0..500).fold(json!(1), |inside, _| {
                Value::Object(Map::from_iter([("x".to_owned(), inside)]))
            }),
        }),
        draft.apply(&StateOp::Replace {
            path: "/a".parse().unwrap(),
            value: nested(500),
        }),
    ] {
        assert!(
            matches!(error, Err(StateError::TooDeep { .. })),
            "{error:?}"
        );
    }
    assert!(draft.writes().is_empty());

    draft.set("/a", nested(MAX_DEPTH - 1)).unwrap();
    draft.push("/b", nested(MAX_DEPTH - 2)).unwrap();
    draft.push("/list", nested(MAX_DEPTH - 2)).unwrap();
    draft.insert("/list/0", nested(MAX_DEPTH - 2)).unwrap();
    draft.set("/x".repeat(MAX_DEPTH), 1).unwrap();
    let sent = json!({ "chunk": { "patches": draft.rfc6902_patches() } }).to_string();
    serde_json::from_str::<Value>(&sent).unwrap();
    serde_json::from_str::<Value>(&json!([{ "state": draft.to_value() }]).to_string()).unwrap();
}
