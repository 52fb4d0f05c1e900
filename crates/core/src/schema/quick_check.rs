//! A quick check for schemas made of common keywords.
//!
//! Compiling a schema with `jsonschema` compiles the meta-schema first, which takes most of the start of
//! a small program, and checking a value with it allocates. Most schemas of tools have a handful of
//! keywords. [`QuickCheck`] decides these by itself, and leaves everything else to `jsonschema`: it
//! accepts only what that accepts, and a value that it does not accept is judged there.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

/// Keywords that say something about a schema, and nothing about a value.
const ANNOTATIONS: [&str; 8] = [
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
];
/// The dialect that `jsonschema` assumes where none is named.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
/// How deep a schema may be nested.
const MAX_DEPTH: usize = 32;

/// A compiled schema of common keywords.
#[derive(Debug, Default)]
pub(crate) struct QuickCheck {
    types: Option<Vec<JsonType>>,
    properties: Vec<(String, QuickCheck)>,
    required: Vec<String>,
    additional: Option<Box<Additional>>,
    items: Option<Box<QuickCheck>>,
    texts: Option<Vec<String>>,
    minimum: Option<Number>,
    maximum: Option<Number>,
}

/// The properties that are not named.
#[derive(Debug)]
enum Additional {
    Refused,
    Checked(QuickCheck),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonType {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl QuickCheck {
    /// Compiles a schema; `None` if it has anything but the keywords known here.
    pub(crate) fn of(schema: &Value) -> Option<Self> {
        Self::nested(schema, MAX_DEPTH)
    }

    fn nested(schema: &Value, depth: usize) -> Option<Self> {
        let depth = depth.checked_sub(1)?;
        let schema = match schema {
            Value::Bool(true) => return Some(Self::default()),
            Value::Object(schema) => schema,
            _ => return None,
        };
        let mut check = Self::default();
        for (keyword, value) in schema {
            match keyword.as_str() {
                "type" => check.types = Some(types(value)?),
                "properties" => {
                    let properties = value.as_object()?.iter();
                    let nested = properties
                        .map(|(name, schema)| Some((name.clone(), Self::nested(schema, depth)?)));
                    check.properties = nested.collect::<Option<_>>()?;
                }
                "required" => check.required = texts(value)?,
                "additionalProperties" => {
                    check.additional = match value {
                        Value::Bool(false) => Some(Box::new(Additional::Refused)),
                        other => {
                            let checked = Additional::Checked(Self::nested(other, depth)?);
                            Some(Box::new(checked))
                        }
                    };
                }
                "items" => check.items = Some(Box::new(Self::nested(value, depth)?)),
                "enum" => check.texts = Some(texts(value)?),
                "minimum" => check.minimum = Some(value.as_number()?.clone()),
                "maximum" => check.maximum = Some(value.as_number()?.clone()),
                // An annotation too, in this dialect.
                "format" if value.is_string() => {}
                "$schema" if value == DIALECT => {}
                annotation if is_annotation(annotation, value) => {}
                _ => return None,
            }
        }
        check.is_sound(schema).then_some(check)
    }

    /// Whether the keywords have values that the meta-schema accepts.
    fn is_sound(&self, schema: &Map<String, Value>) -> bool {
        let mut required: Vec<_> = self.required.iter().collect();
        required.sort_unstable();
        let repeats = required.windows(2).any(|pair| pair.first() == pair.last());
        !(repeats || schema.contains_key("$ref"))
    }

    /// Whether a value is surely valid. `false` means that `jsonschema` has to judge.
    pub(crate) fn accepts(&self, value: &Value) -> bool {
        let fits = |types: &Vec<JsonType>| types.iter().any(|one| one.is_of(value));
        if !self.types.as_ref().is_none_or(fits) {
            return false;
        }
        if let Some(texts) = &self.texts
            && !value
                .as_str()
                .is_some_and(|text| texts.iter().any(|one| one == text))
        {
            return false;
        }
        match value {
            Value::Number(number) => self.accepts_number(number),
            Value::Array(items) => {
                let items_fit = |check: &QuickCheck| items.iter().all(|item| check.accepts(item));
                self.items.as_deref().is_none_or(items_fit)
            }
            Value::Object(fields) => self.accepts_object(fields),
            _ => true,
        }
    }

    fn accepts_number(&self, number: &Number) -> bool {
        let at_least = |limit: &Number| compare(number, limit).is_some_and(Ordering::is_ge);
        let at_most = |limit: &Number| compare(number, limit).is_some_and(Ordering::is_le);
        self.minimum.as_ref().is_none_or(at_least) && self.maximum.as_ref().is_none_or(at_most)
    }

    fn accepts_object(&self, fields: &Map<String, Value>) -> bool {
        if !self.required.iter().all(|name| fields.contains_key(name)) {
            return false;
        }
        fields.iter().all(|(name, value)| {
            let named = self.properties.iter().find(|(known, _)| known == name);
            match (named, self.additional.as_deref()) {
                (Some((_, check)), _) | (None, Some(Additional::Checked(check))) => {
                    check.accepts(value)
                }
                (None, Some(Additional::Refused)) => false,
                (None, None) => true,
            }
        })
    }
}

fn is_annotation(keyword: &str, value: &Value) -> bool {
    let known = ANNOTATIONS.contains(&keyword);
    known
        && match keyword {
            "title" | "description" | "$comment" => value.is_string(),
            "deprecated" | "readOnly" | "writeOnly" => value.is_boolean(),
            "examples" => value.is_array(),
            _ => true,
        }
}

fn types(value: &Value) -> Option<Vec<JsonType>> {
    let names = match value {
        Value::String(_) => std::slice::from_ref(value),
        Value::Array(names) if !names.is_empty() => names.as_slice(),
        _ => return None,
    };
    let mut types = Vec::with_capacity(names.len());
    for name in names {
        let one = JsonType::named(name.as_str()?)?;
        if types.contains(&one) {
            return None;
        }
        types.push(one);
    }
    Some(types)
}

/// Returns a list of texts; `None` for any other list. (Numbers of equal value may be written in
/// several ways.)
fn texts(value: &Value) -> Option<Vec<String>> {
    let texts = value.as_array()?.iter();
    texts.map(|text| text.as_str().map(str::to_owned)).collect()
}

/// Compares two numbers, where that is exact.
fn compare(one: &Number, other: &Number) -> Option<Ordering> {
    if let (Some(one), Some(other)) = (one.as_i64(), other.as_i64()) {
        return Some(one.cmp(&other));
    }
    if let (Some(one), Some(other)) = (one.as_u64(), other.as_u64()) {
        return Some(one.cmp(&other));
    }
    if one.is_f64() && other.is_f64() {
        return one.as_f64()?.partial_cmp(&other.as_f64()?);
    }
    None
}

impl JsonType {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "null" => Self::Null,
            "boolean" => Self::Boolean,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "string" => Self::String,
            "array" => Self::Array,
            "object" => Self::Object,
            _ => return None,
        })
    }

    fn is_of(self, value: &Value) -> bool {
        match self {
            Self::Null => value.is_null(),
            Self::Boolean => value.is_boolean(),
            // `1.0` is an integer too; `jsonschema` judges that.
            Self::Integer => value.is_i64() || value.is_u64(),
            Self::Number => value.is_number(),
            Self::String => value.is_string(),
            Self::Array => value.is_array(),
            Self::Object => value.is_object(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schemas() -> Vec<Value> {
        let order = json!({
            "type": "object",
            "required": ["id", "cents"],
            "additionalProperties": false,
            "properties": {
                "id": { "type": "string", "description": "The order." },
                "cents": { "type": "integer", "format": "uint64", "minimum": 0, "maximum": 9_000 },
                "share": { "type": "number", "minimum": 0.0, "maximum": 1.0 },
                "state": { "type": ["string", "null"], "enum": ["open", "closed"] },
                "tags": { "type": "array", "items": { "type": "string" }, "default": [] },
                "lines": {
                    "type": "array",
                    "items": { "type": "object", "required": ["n"], "properties": { "n": { "type": "integer" } } },
                },
            },
        });
        vec![
            order,
            json!({ "type": "object" }),
            json!({ "$schema": DIALECT, "type": "object", "title": "Any", "additionalProperties": { "type": "boolean" } }),
            json!({ "type": "object", "properties": { "a": true }, "required": ["a"] }),
        ]
    }

    /// A source of numbers that are the same in every run.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(self.0 >> 33).unwrap() % limit
        }

        fn value(&mut self, depth: usize) -> Value {
            let names = [
                "id", "cents", "share", "state", "tags", "lines", "n", "a", "other",
            ];
            match self.below(if depth == 0 { 12 } else { 16 }) {
                0 => Value::Null,
                1 => json!(self.below(2) == 0),
                2 => json!(self.below(10)),
                3 => json!(-1),
                4 => json!(9_000 + self.below(3)),
                5 => json!(u64::MAX),
                6 => json!(1.0),
                7 => json!(0.5),
                8 => json!(-0.0),
                9 => json!(1e300),
                10 => json!("open"),
                11 => json!("x"),
                12 => (0..self.below(3)).map(|_| self.value(depth - 1)).collect(),
                _ => {
                    let fields = (0..self.below(6)).map(|_| {
                        let name = names[self.below(names.len())].to_owned();
                        (name, self.value(depth - 1))
                    });
                    Value::Object(fields.collect())
                }
            }
        }
    }

    /// Whatever the quick check accepts is valid, and it accepts most of what is valid.
    #[test]
    fn what_is_accepted_is_valid() {
        for (seed, schema) in (1..).zip(schemas()) {
            println!("seed {seed}: {schema}");
            let quick = QuickCheck::of(&schema).unwrap();
            let full = jsonschema::validator_for(&schema).unwrap();
            let mut numbers = Numbers(seed);
            let (mut accepted, mut valid) = (0, 0);
            for _ in 0..50_000 {
                let mut value = numbers.value(3);
                if seed == 1
                    && let Value::Object(fields) = &mut value
                {
                    // What is required is mostly there.
                    fields.entry("id").or_insert_with(|| json!("o-1"));
                    fields.entry("cents").or_insert_with(|| json!(5));
                    fields.remove(["other", "n", "a"][numbers.below(3)]);
                }
                if quick.accepts(&value) {
                    accepted += 1;
                    assert!(full.is_valid(&value), "{value}");
                }
                valid += usize::from(full.is_valid(&value));
            }
            println!("{accepted} of {valid} valid values");
            let few = valid < 100;
            assert!(few || accepted * 2 >= valid, "{accepted} of {valid}");
        }
    }

    #[test]
    fn usual_arguments_are_accepted() {
        let schemas = schemas();
        let quick = QuickCheck::of(&schemas[0]).unwrap();
        let order = json!({
            "id": "o-1", "cents": 5, "share": 0.5, "state": "open", "tags": ["a"],
            "lines": [{ "n": 1 }, { "n": -2, "more": null }],
        });
        assert!(quick.accepts(&order));
        for (at, bad) in [
            ("id", json!(1)),
            ("cents", json!(-1)),
            ("cents", json!(9_001)),
            ("tags", json!([1])),
        ] {
            let mut order = order.clone();
            order[at] = bad;
            assert!(!quick.accepts(&order), "{order}");
        }
    }

    /// A schema that `jsonschema` refuses, or whose keywords are not known here, is left to it.
    #[test]
    fn other_schemas_are_left_alone() {
        for schema in [
            json!({ "type": "objekt" }),
            json!({ "type": ["object", "object"] }),
            json!({ "type": [] }),
            json!({ "required": "id" }),
            json!({ "required": ["id", "id"] }),
            json!({ "properties": [] }),
            json!({ "properties": { "a": 1 } }),
            json!({ "minimum": "0" }),
            json!({ "title": 1 }),
            json!({ "enum": [1, 2] }),
            json!({ "pattern": "^a" }),
            json!({ "oneOf": [] }),
            json!({ "$ref": "#/$defs/a", "$defs": { "a": {} } }),
            json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object" }),
            json!(false),
            json!(1),
        ] {
            assert!(QuickCheck::of(&schema).is_none(), "{schema}");
        }
    }
}
