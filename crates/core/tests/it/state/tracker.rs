//! A state over several updates.

use std::{
    borrow::Cow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use helix_agents_core::state::{
    ArrayMode, Draft, StateError, StateTracker, apply_patch, apply_writes, diff, to_rfc6902,
};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::model::{self, Command, oracle_patch};

fn reported(tracker: &StateTracker) -> (Value, Value) {
    let json = |value| serde_json::to_value(value).unwrap();
    (
        json(tracker.step_writes()),
        serde_json::to_value(tracker.rfc6902_patches()).unwrap(),
    )
}

/// proves: STT-01, STT-06
#[test]
fn updates_accumulate_until_tracking_is_reset() {
    let mut tracker =
        StateTracker::new(json!({ "count": 0, "items": [] }), ArrayMode::Delta).unwrap();
    for item in ["a", "b"] {
        let seen: u64 = tracker
            .update(|draft| {
                draft.increment("/count", 1)?;
                draft.push("/items", item)?;
                Ok(draft.get_as("/count")?.unwrap_or_default())
            })
            .unwrap();
        assert_eq!(tracker.view().get_as("/count").unwrap(), Some(seen));
    }
    assert_eq!(*tracker.state(), json!({ "count": 2, "items": ["a", "b"] }));
    let expected = (
        json!([
            { "op": "increment", "path": "/count", "by": 2 },
            { "op": "append", "path": "/items", "value": "a" },
            { "op": "append", "path": "/items", "value": "b" },
        ]),
        json!([
            { "op": "replace", "path": "/count", "value": 2 },
            { "op": "add", "path": "/items/-", "value": "a" },
            { "op": "add", "path": "/items/-", "value": "b" },
        ]),
    );
    assert_eq!(reported(&tracker), expected);
    assert_eq!(reported(&tracker), expected, "asking changes nothing");

    tracker.reset_tracking();
    assert_eq!(reported(&tracker), (json!([]), json!([])));
    tracker.update(|draft| draft.set("/count", 7)).unwrap();
    tracker.update(|draft| draft.push("/items", "c")).unwrap();
    assert_eq!(
        reported(&tracker).1,
        json!([
            { "op": "replace", "path": "/count", "value": 7 },
            { "op": "add", "path": "/items/-", "value": "c" },
        ]),
    );
}

/// In the default mode an array change is one replacement, not an addition to `/items/-`.
///
/// proves: STT-04
#[test]
fn the_default_mode_replaces_arrays() {
    let mut tracker = StateTracker::new(json!({ "items": [] }), ArrayMode::default()).unwrap();
    tracker.update(|draft| draft.push("/items", "a")).unwrap();
    tracker.update(|draft| draft.push("/items", "b")).unwrap();
    assert_eq!(
        reported(&tracker).1,
        json!([{ "op": "replace", "path": "/items", "value": ["a", "b"] }]),
    );
}

/// A value added before a reset exists after it, so it is replaced, not added.
///
/// proves: STT-01
#[test]
fn patches_are_relative_to_the_reset() {
    let mut tracker = StateTracker::new(json!({}), ArrayMode::Delta).unwrap();
    tracker.update(|draft| draft.set("/a/b", 1)).unwrap();
    tracker.update(|draft| draft.push("/list", 1)).unwrap();
    tracker.reset_tracking();
    tracker.update(|draft| draft.set("/a/b", 2)).unwrap();
    tracker.update(|draft| draft.push("/list", 2)).unwrap();
    tracker.update(|draft| draft.set("/a/c", 3)).unwrap();
    assert_eq!(
        reported(&tracker).1,
        json!([
            { "op": "replace", "path": "/a/b", "value": 2 },
            { "op": "add", "path": "/list/-", "value": 2 },
            { "op": "add", "path": "/a/c", "value": 3 },
        ]),
    );
}

/// Changes that were streamed one by one are stored as one list, each place once, in the order in
/// which the places were first changed.
///
/// proves: STT-05
#[test]
fn all_writes_are_kept_across_resets() {
    let mut tracker = StateTracker::empty(ArrayMode::Delta);
    for n in 1..=3 {
        tracker
            .update(|draft| {
                draft.set("/z", n)?;
                draft.push("/list", n)
            })
            .unwrap();
        tracker.reset_tracking();
        assert!(tracker.step_writes().is_empty());
    }
    tracker.update(|draft| draft.set("/a", true)).unwrap();
    assert_eq!(
        serde_json::to_value(tracker.all_writes()).unwrap(),
        json!([
            { "op": "replace", "path": "/z", "value": 3 },
            { "op": "append", "path": "/list", "value": 1 },
            { "op": "append", "path": "/list", "value": 2 },
            { "op": "append", "path": "/list", "value": 3 },
            { "op": "replace", "path": "/a", "value": true },
        ]),
    );
}

/// The state is shared, and copied only while an earlier one is still held.
///
/// proves: STT-01
#[test]
fn the_state_is_copied_only_while_an_earlier_one_is_held() {
    let initial = Arc::new(json!({ "count": 0 }));
    let mut tracker = StateTracker::new(Arc::clone(&initial), ArrayMode::Delta).unwrap();
    assert!(Arc::ptr_eq(&tracker.state(), &initial));

    tracker.update(|draft| draft.set("/count", 1)).unwrap();
    let first = tracker.state();
    assert_eq!(
        (&*initial, &*first),
        (&json!({ "count": 0 }), &json!({ "count": 1 }))
    );
    assert!(Arc::ptr_eq(&tracker.state(), &first));

    let address = Arc::as_ptr(&first);
    drop(first);
    tracker.update(|draft| draft.set("/count", 2)).unwrap();
    let second = tracker.state();
    assert_eq!(*second, json!({ "count": 2 }));
    assert_eq!(Arc::as_ptr(&second), address, "changed in place");
}

/// An update that fails or panics leaves no trace.
///
/// proves: STT-01
#[test]
fn a_failed_update_is_rolled_back() {
    let initial = json!({ "a": { "n": 1 }, "items": [1, [2], 3] });
    let mut tracker = StateTracker::new(initial, ArrayMode::Delta).unwrap();
    tracker.update(|draft| draft.push("/items/1", 4)).unwrap();
    let before = (reported(&tracker), tracker.view().to_value());

    let change = |draft: &mut Draft| -> Result<(), StateError> {
        draft.remove("/items/0")?;
        draft.set("/items/0/0", 9)?;
        draft.insert("/items/1", 9)?;
        draft.set("/new/key", 1)?;
        draft.remove("/a")?;
        draft.set("/a/m", 1)?;
        draft.set("", json!({}))?;
        draft.push("/items", 1)
    };
    let error = tracker.update(|draft| {
        change(draft)?;
        draft.push("/items/0", 1)
    });
    assert!(matches!(error, Err(StateError::NotAnArray { .. })));
    assert_eq!((reported(&tracker), tracker.view().to_value()), before);

    let mut untouched = StateTracker::new(before.1.clone(), ArrayMode::Delta).unwrap();
    untouched
        .try_update(|draft| change(draft).map_err(|_| ()).and(Err::<(), _>(())))
        .unwrap_err();
    assert!(
        matches!(untouched.view().get("").unwrap(), Some(Cow::Borrowed(_))),
        "nothing is left"
    );

    let own: Result<(), &str> =
        tracker.try_update(|draft| change(draft).map_err(|_| "").and(Err("own")));
    assert_eq!(own, Err("own"));
    assert_eq!((reported(&tracker), tracker.view().to_value()), before);

    catch_unwind(AssertUnwindSafe(|| {
        tracker.update(|draft| {
            change(draft)?;
            std::panic::resume_unwind(Box::new("no message"));
            #[expect(unreachable_code, reason = "gives the closure its type")]
            Ok(())
        })
    }))
    .unwrap_err();
    assert_eq!((reported(&tracker), tracker.view().to_value()), before);
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Typed {
    count: u32,
    #[serde(default)]
    notes: Vec<String>,
    #[serde(default)]
    settings: Settings,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    topic: Option<String>,
    #[serde(default)]
    ratio: f64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Settings {
    theme: String,
    size: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            theme: "light".to_owned(),
            size: 1,
        }
    }
}

/// A typed update reports what it changed: unknown keys stay, defaults are not written, and one
/// that is changed in part is written whole, so that it can be read again.
///
/// proves: STT-01
#[test]
fn a_typed_update_reports_what_changed() {
    let initial = json!({ "count": 1, "unknown": [1], "topic": "tea" });
    let mut tracker = StateTracker::new(initial, ArrayMode::Delta).unwrap();
    tracker.update_typed::<Typed, _>(|_| ()).unwrap();
    assert_eq!(reported(&tracker), (json!([]), json!([])));

    let count = tracker
        .update_typed(|typed: &mut Typed| {
            typed.notes.push("milk".to_owned());
            typed.settings.theme = "dark".to_owned();
            typed.topic = None;
            typed.count += 1;
            typed.count
        })
        .unwrap();
    assert_eq!(count, 2);
    assert_eq!(
        *tracker.state(),
        json!({ "count": 2, "unknown": [1], "notes": ["milk"], "settings": { "theme": "dark", "size": 1 } }),
    );
    assert_eq!(
        reported(&tracker).0,
        json!([
            { "op": "delete", "path": "/topic" },
            { "op": "replace", "path": "/count", "value": 2 },
            { "op": "append", "path": "/notes", "value": "milk" },
            { "op": "replace", "path": "/settings", "value": { "theme": "dark", "size": 1 } },
        ]),
    );
    tracker
        .update_typed(|typed: &mut Typed| typed.settings.size = 2)
        .unwrap();
    assert_eq!(tracker.view().get_as("/settings/size").unwrap(), Some(2));
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Item {
    a: i64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Item>,
    #[serde(default)]
    flag: bool,
}

impl Item {
    fn new(a: i64) -> Self {
        Self {
            a,
            parts: Vec::new(),
            flag: false,
        }
    }
}

/// Keys that the type does not know stay in the elements of arrays, too, as long as the elements
/// can be identified, and never move from one to another.
///
/// proves: STT-01
#[test]
fn a_typed_update_keeps_unknown_keys_of_array_elements() {
    type Change = fn(&mut Vec<Item>);
    let initial = json!([
        { "a": 1, "owner": "x", "parts": [{ "a": 10, "owner": "p" }, { "a": 11, "owner": "q" }] },
        { "a": 2, "owner": "y" },
        { "a": 3, "owner": "z", "flag": true },
    ]);
    let [one, two, three] = [&initial[0], &initial[1], &initial[2]];
    let cases: [(&str, Change, Value); 9] = [
        (
            "in place",
            |items| items[1].a = 5,
            json!([one, { "a": 5, "owner": "y" }, three]),
        ),
        (
            "in place, within an element",
            |items| items[0].parts[1].a = 12,
            json!([
                { "a": 1, "owner": "x", "parts": [{ "a": 10, "owner": "p" }, { "a": 12, "owner": "q" }] },
                two,
                three,
            ]),
        ),
        (
            "a key of the type goes, others stay",
            |items| items[0].parts.clear(),
            json!([{ "a": 1, "owner": "x" }, two, three]),
        ),
        (
            "removed at the beginning",
            |items| drop(items.remove(0)),
            json!([two, three]),
        ),
        (
            "inserted",
            |items| items.insert(1, Item::new(9)),
            json!([one, { "a": 9, "flag": false }, two, three]),
        ),
        (
            "put in another order",
            |items| items.reverse(),
            json!([three, two, one]),
        ),
        (
            "changed and appended",
            |items| {
                items[1].a = 5;
                items.push(Item::new(4));
            },
            json!([one, { "a": 5, "owner": "y" }, three, { "a": 4, "flag": false }]),
        ),
        (
            "one removed, one new",
            |items| {
                items.remove(0);
                items.push(Item::new(4));
            },
            json!([two, three, { "a": 4, "flag": false }]),
        ),
        (
            "changed and removed: which is which cannot be told",
            |items| {
                items.remove(0);
                items[0].a = 5;
            },
            json!([{ "a": 5, "flag": false }, three]),
        ),
    ];
    for (what, change, expected) in cases {
        for mode in [ArrayMode::Delta, ArrayMode::Replace] {
            let mut tracker = StateTracker::new(json!({ "items": initial }), mode).unwrap();
            tracker
                .update_typed(|list: &mut List| change(&mut list.items))
                .unwrap();
            assert_eq!(
                reported(&tracker).0,
                json!([{ "op": "replace", "path": "/items", "value": expected }]),
                "{what}"
            );
        }
    }
}

/// A type that sees only some elements cannot identify them.
#[test]
fn a_typed_update_that_sees_other_elements_replaces_the_array() {
    #[derive(Deserialize, Serialize)]
    struct Known {
        #[serde(deserialize_with = "only_items")]
        items: Vec<Item>,
    }
    fn only_items<'de, D: serde::Deserializer<'de>>(list: D) -> Result<Vec<Item>, D::Error> {
        let all = Vec::<Value>::deserialize(list)?;
        let items = all.into_iter().map(serde_json::from_value);
        Ok(items.filter_map(Result::ok).collect())
    }
    let initial = json!({ "items": ["?", { "a": 1, "owner": "x" }, { "a": 2, "owner": "y" }] });
    let mut tracker = StateTracker::new(initial, ArrayMode::Replace).unwrap();
    tracker
        .update_typed(|known: &mut Known| known.items[0].a = 5)
        .unwrap();
    let expected = json!([{ "a": 5, "flag": false }, { "a": 2, "flag": false }]);
    assert_eq!(*tracker.state(), json!({ "items": expected }));
}

/// proves: STT-10
#[test]
fn a_typed_update_without_a_json_form_is_refused() {
    let mut tracker = StateTracker::new(json!({ "count": 1 }), ArrayMode::Delta).unwrap();
    let error = tracker.update_typed(|typed: &mut Typed| {
        typed.count = 5;
        typed.ratio = f64::NAN;
    });
    assert!(matches!(error, Err(StateError::NotJson { path, .. }) if path.as_str() == "/ratio"));
    let error = tracker.update_typed(|value: &mut Value| *value = json!([]));
    assert!(matches!(error, Err(StateError::RootNotObject { .. })));
    let error = tracker.update_typed(|_: &mut Vec<u8>| ());
    assert!(matches!(error, Err(StateError::Mismatch { .. })));
    assert_eq!(*tracker.state(), json!({ "count": 1 }));
    StateTracker::new(json!(1), ArrayMode::Delta).unwrap_err();
}

/// One operation on a tracker.
#[derive(Debug, Clone)]
enum Event {
    Update { commands: Vec<Command>, fails: bool },
    Typed(Command),
    Reset,
    Read,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let update = (
        proptest::collection::vec(model::command(), 0..6),
        any::<bool>(),
    )
        .prop_map(|(commands, fails)| Event::Update { commands, fails });
    let event = prop_oneof![
        6 => update,
        1 => model::command().prop_map(Event::Typed),
        1 => Just(Event::Reset),
        1 => Just(Event::Read),
    ];
    proptest::collection::vec(event, 0..16)
}

/// A type that knows every key but `b`.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct WithoutB(Value);

impl<'de> Deserialize<'de> for WithoutB {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Self(without_b(value)))
    }
}

fn without_b(value: Value) -> Value {
    match value {
        Value::Array(elements) => elements.into_iter().map(without_b).collect(),
        Value::Object(object) => {
            let known = object.into_iter().filter(|(key, _)| key != "b");
            Value::Object(known.map(|(key, value)| (key, without_b(value))).collect())
        }
        other => other,
    }
}

/// Two states, the second made from the first by some commands.
fn change() -> impl Strategy<Value = (Value, Value)> {
    (model::state(), model::commands()).prop_map(|(old, commands)| {
        let new = commands.iter().fold(old.clone(), |state, command| {
            let path = command.path(&state);
            command.model(&state, &path).map_or(state, |(next, _)| next)
        });
        (old, new)
    })
}

proptest! {
    /// With a type that knows every key, a typed update writes the plain difference.
    ///
    /// proves: STT-01
    #[test]
    fn a_complete_type_writes_the_plain_difference((old, new) in change()) {
        for mode in [ArrayMode::Delta, ArrayMode::Replace] {
            let mut tracker = StateTracker::new(old.clone(), mode).unwrap();
            tracker.update_typed(|value: &mut Value| *value = new.clone()).unwrap();
            prop_assert_eq!(&*tracker.state(), &new);
            let mut plain = Draft::new(old.clone(), mode);
            for op in &diff(&old, &new, mode) {
                plain.apply(op).unwrap();
            }
            prop_assert_eq!(tracker.step_writes(), plain.writes());
        }
    }

    /// Whatever a type does not know, after an update it reads back what it wrote, and an update
    /// without changes changes none of the unknown keys.
    ///
    /// proves: STT-01
    #[test]
    fn a_partial_type_reads_back_what_it_wrote((old, new) in change()) {
        let new = without_b(new);
        for mode in [ArrayMode::Delta, ArrayMode::Replace] {
            let mut tracker = StateTracker::new(old.clone(), mode).unwrap();
            tracker.update_typed(|_: &mut WithoutB| ()).unwrap();
            prop_assert_eq!(&*tracker.state(), &old);
            tracker.update_typed(|value: &mut WithoutB| value.0 = new.clone()).unwrap();
            prop_assert_eq!(&without_b(Value::clone(&tracker.state())), &new);
        }
    }

    /// Whatever is done to a tracker, its reports between resets, one after the other, lead from
    /// the first state to the last, for store and client.
    ///
    /// proves: STT-01, STT-05, STT-06
    #[test]
    fn reports_between_resets_rebuild_the_state(state in model::state(), events in events()) {
        for mode in [ArrayMode::Delta, ArrayMode::Replace] {
            let mut tracker = StateTracker::new(state.clone(), mode).unwrap();
            let mut model = state.clone();
            let mut at_reset = state.clone();
            let mut held = None;
            for event in events.iter().chain([&Event::Reset]) {
                match event {
                    Event::Update { commands, fails } => {
                        let mut next = model.clone();
                        let result = tracker.try_update(|draft| {
                            for command in commands {
                                let path = command.path(&next);
                                // Commands that cannot be done change nothing,
                                // which is tested elsewhere.
                                if command.run(draft, &path).is_ok() {
                                    next = command.model(&next, &path).unwrap().0;
                                }
                            }
                            if *fails { Err(()) } else { Ok(()) }
                        });
                        prop_assert_eq!(result.is_err(), *fails);
                        if result.is_ok() {
                            model = next;
                        }
                    }
                    Event::Typed(command) => {
                        let path = command.path(&model);
                        if let Some((next, _)) = command.model(&model, &path) {
                            tracker.update_typed(|value: &mut Value| *value = next.clone()).unwrap();
                            model = next;
                        }
                    }
                    Event::Reset => {
                        let base = Arc::new(at_reset.clone());
                        let writes = tracker.step_writes();
                        let patches = tracker.rfc6902_patches();
                        prop_assert_eq!(&to_rfc6902(&writes, &base).unwrap(), &patches);
                        prop_assert_eq!(&oracle_patch(&at_reset, &patches)?, &model);
                        let mut client = at_reset.clone();
                        apply_patch(&mut client, &patches).unwrap();
                        prop_assert_eq!(&client, &model);
                        apply_writes(&mut at_reset, &writes).unwrap();
                        prop_assert_eq!(&at_reset, &model);
                        tracker.reset_tracking();
                        let mut all = state.clone();
                        apply_writes(&mut all, &tracker.all_writes()).unwrap();
                        prop_assert_eq!(&all, &model);
                    }
                    Event::Read => {
                        let state = tracker.state();
                        prop_assert_eq!(&*state, &model);
                        held = Some((state, model.clone()));
                    }
                }
                prop_assert_eq!(&tracker.view().to_value(), &model, "after {:?}", event);
                if let Some((state, as_read)) = &held {
                    prop_assert_eq!(&**state, as_read, "a state that was read stays as it was");
                }
                if matches!(event, Event::Reset) {
                    held = None;
                }
            }
        }
    }
}
