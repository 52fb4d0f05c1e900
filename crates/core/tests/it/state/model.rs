//! Random states and commands, and a plain model of what the commands do: no overlay, no sharing,
//! just recursion over a JSON value.

use helix_agents_core::state::{Draft, Pointer, StateError};
use proptest::prelude::*;
use serde_json::{Map, Number, Value, json};

/// Keys that look like indices, are empty, or need escaping.
const KEYS: [&str; 10] = ["a", "b", "", "a/b", "m~n", "~1", "é🦀", "0", "1", "-"];

pub(crate) fn key() -> impl Strategy<Value = String> {
    proptest::sample::select(KEYS.as_slice()).prop_map(str::to_owned)
}

pub(crate) fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-9_i64..10).prop_map(Value::from),
        prop_oneof![Just(i64::MAX), Just(i64::MIN)].prop_map(Value::from),
        Just(json!(u64::MAX)),
        (-99_i32..100).prop_map(|n| json!(f64::from(n) / 10.0)),
        key().prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            2 => proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => proptest::collection::btree_map(key(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A JSON object, as the root of a state is.
pub(crate) fn state() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map(key(), value(), 0..6)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

pub(crate) fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        4 => (-5_i64..6).prop_map(Number::from),
        1 => Just(Number::from(i64::MAX)),
        1 => (-9_i32..10).prop_map(|n| Number::from_f64(f64::from(n) / 10.0).unwrap()),
    ]
}

/// The action at a path.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Set(Value),
    Push(Value),
    Increment(Number),
    Remove,
    Insert(Value),
}

/// An action, and how to find its path in the state at that time: each step goes to one of the
/// children, or to a key that may not exist.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    steps: Vec<(u8, String)>,
    pub(crate) act: Act,
}

pub(crate) fn command() -> impl Strategy<Value = Command> {
    let act = prop_oneof![
        3 => value().prop_map(Act::Set),
        3 => value().prop_map(Act::Push),
        2 => number().prop_map(Act::Increment),
        3 => Just(Act::Remove),
        2 => value().prop_map(Act::Insert),
    ];
    let step = || (any::<u8>(), key());
    let steps = prop_oneof![
        30 => proptest::collection::vec(step(), 1..6),
        1 => Just(Vec::new()),
    ];
    (steps, act).prop_map(|(steps, act)| Command { steps, act })
}

pub(crate) fn commands() -> impl Strategy<Value = Vec<Command>> {
    proptest::collection::vec(command(), 0..24)
}

impl Command {
    /// Returns the path in this state. It prefers values to which the action applies,
    /// and those with children.
    pub(crate) fn path(&self, state: &Value) -> Pointer {
        let mut at = Some(state);
        let mut path = Pointer::root();
        for (choice, key) in &self.steps {
            let choice = usize::from(*choice);
            if at.is_some_and(|value| self.suits(value)) && choice % 4 != 0 {
                if matches!(self.act, Act::Insert(_)) {
                    let len = at.and_then(Value::as_array).map_or(0, Vec::len);
                    path.push(&(choice % (len + 1)).to_string());
                }
                break;
            }
            let segment = match at {
                Some(Value::Object(map)) if !map.is_empty() && choice % 8 != 7 => {
                    let leads =
                        |value: &Value| self.suits(value) || value.is_object() || value.is_array();
                    let mut keys: Vec<_> = map.keys().filter(|key| leads(&map[*key])).collect();
                    if keys.is_empty() || choice % 8 > 4 {
                        keys = map.keys().collect();
                    }
                    keys[choice % keys.len()].clone()
                }
                Some(Value::Array(items)) if choice % 16 != 15 => {
                    (choice % (items.len() + 1)).to_string()
                }
                _ => key.clone(),
            };
            at = at.and_then(|value| step(value, &segment));
            path.push(&segment);
        }
        path
    }

    fn suits(&self, value: &Value) -> bool {
        match self.act {
            Act::Push(_) | Act::Insert(_) => value.is_array(),
            Act::Increment(_) => value.is_number(),
            Act::Set(_) | Act::Remove => false,
        }
    }

    pub(crate) fn run(&self, draft: &mut Draft, path: &Pointer) -> Result<bool, StateError> {
        match self.act.clone() {
            Act::Set(value) => draft.set(path, value).map(|()| true),
            Act::Push(value) => draft.push(path, value).map(|()| true),
            Act::Increment(by) => draft.increment(path, by).map(|()| true),
            Act::Remove => draft.remove(path),
            Act::Insert(value) => draft.insert(path, value).map(|()| true),
        }
    }

    /// Does to `state` what [`run`](Self::run) should do; `None` if that should be an error.
    pub(crate) fn model(&self, state: &Value, path: &Pointer) -> Option<(Value, bool)> {
        let segments: Vec<String> = path
            .segments()
            .map(|segment| segment.into_owned())
            .collect();
        let mut new = state.clone();
        let done = act(&mut new, &segments, &self.act)?;
        new.is_object().then_some((new, done))
    }
}

/// Returns the child of `value` that a segment names.
pub(crate) fn step<'a>(value: &'a Value, segment: &str) -> Option<&'a Value> {
    match value {
        Value::Object(map) => map.get(segment),
        Value::Array(items) => items.get(index(segment)?),
        _ => None,
    }
}

fn index(segment: &str) -> Option<usize> {
    let index: usize = segment.parse().ok()?;
    (index.to_string() == segment).then_some(index)
}

fn act(value: &mut Value, path: &[String], what: &Act) -> Option<bool> {
    match (path, what) {
        ([], Act::Set(new)) => *value = new.clone(),
        ([], Act::Push(new)) => value.as_array_mut()?.push(new.clone()),
        ([], Act::Increment(by)) => *value = sum(value, by)?,
        // Removing and inserting are done by the parent, which the root does not have.
        ([], Act::Remove | Act::Insert(_)) => return None,
        ([last], Act::Remove) => {
            if step(value, last).is_none() {
                return Some(false);
            }
            match value {
                Value::Object(map) => drop(map.remove(last)),
                Value::Array(items) => drop(items.remove(index(last)?)),
                _ => return None,
            }
        }
        ([last], Act::Insert(new)) => {
            let items = value.as_array_mut()?;
            let at = if last == "-" {
                items.len()
            } else {
                index(last)?
            };
            if at > items.len() {
                return None;
            }
            items.insert(at, new.clone());
        }
        ([first, rest @ ..], _) => match value {
            Value::Array(items) => {
                let child = index(first).and_then(|at| items.get_mut(at));
                return match (child, what) {
                    (Some(child), _) => act(child, rest, what),
                    (None, Act::Remove) => Some(false),
                    (None, _) => None,
                };
            }
            Value::Object(map) => match (map.get_mut(first), what) {
                (Some(child), _) => return act(child, rest, what),
                (None, Act::Remove) => return Some(false),
                (None, Act::Insert(_)) => return None,
                (None, _) => {
                    let new = create(rest, what);
                    map.insert(first.clone(), new);
                }
            },
            _ => return matches!(what, Act::Remove).then_some(false),
        },
    }
    Some(true)
}

/// Returns what a missing value becomes.
fn create(path: &[String], what: &Act) -> Value {
    match (path, what) {
        ([first, rest @ ..], _) => {
            Value::Object(Map::from_iter([(first.clone(), create(rest, what))]))
        }
        ([], Act::Set(value)) => value.clone(),
        ([], Act::Push(value)) => json!([value]),
        ([], Act::Increment(by)) => Value::Number(by.clone()),
        ([], Act::Remove | Act::Insert(_)) => unreachable!("these create nothing"),
    }
}

fn sum(value: &Value, by: &Number) -> Option<Value> {
    let number = value.as_number()?;
    let wide = |n: &Number| n.as_i64().map(i128::from).or(n.as_u64().map(i128::from));
    match (wide(number), wide(by)) {
        (Some(a), Some(b)) => {
            let sum = a + b;
            i64::try_from(sum)
                .map(Value::from)
                .or_else(|_| u64::try_from(sum).map(Value::from))
                .ok()
        }
        _ => Number::from_f64(number.as_f64()? + by.as_f64()?).map(Value::Number),
    }
}

/// Applies patches with the `json-patch` crate.
pub(crate) fn oracle_patch(
    state: &Value,
    patches: &[helix_agents_core::state::PatchOp],
) -> Result<Value, TestCaseError> {
    let patch: json_patch::Patch =
        serde_json::from_value(serde_json::to_value(patches).unwrap()).unwrap();
    let mut state = state.clone();
    json_patch::patch(&mut state, &patch)
        .map_err(|error| TestCaseError::fail(format!("{error}: {patches:?}")))?;
    Ok(state)
}
