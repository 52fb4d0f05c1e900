//! The JSON Schema of `helix.toml`, in draft 7, which editors support.

use serde_json::{Map, Value, json};

use super::{Key, Presence, Rule, Shape, TOP, Table};

/// Generates the JSON Schema of `helix.toml`.
#[must_use]
pub fn schema() -> Value {
    let mut schema = of_table(&TOP);
    schema.insert(
        "$schema".to_owned(),
        json!("http://json-schema.org/draft-07/schema#"),
    );
    Value::Object(schema)
}

fn of_table(table: &Table) -> Map<String, Value> {
    let properties = table
        .keys
        .iter()
        .map(|key| (key.name.to_owned(), of_key(key)));
    let required = table.keys.iter().filter(|key| key.is_required());
    let required: Vec<_> = required.map(|key| key.name).collect();
    let mut schema = Map::new();
    schema.insert("title".to_owned(), json!(table.title));
    schema.insert("description".to_owned(), json!(table.about));
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), Value::Object(properties.collect()));
    schema.insert("additionalProperties".to_owned(), json!(false));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    if !table.rules.is_empty() {
        let rules: Vec<_> = table
            .rules
            .iter()
            .map(|rule| of_rule(table, rule))
            .collect();
        schema.insert("allOf".to_owned(), json!(rules));
    }
    schema
}

fn of_key(key: &Key) -> Value {
    let mut schema = match of_shape(&key.shape) {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    schema.insert("description".to_owned(), json!(key.about));
    if let Presence::Default(text) = key.presence
        && let Ok(value) = serde_json::from_str::<Value>(text)
    {
        schema.insert("default".to_owned(), value);
    }
    Value::Object(schema)
}

fn of_shape(shape: &Shape) -> Value {
    match shape {
        Shape::Text => json!({ "type": "string" }),
        Shape::Matching(pattern) => json!({ "type": "string", "pattern": pattern }),
        Shape::Choice(values) => json!({ "type": "string", "enum": values }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Count(least) => json!({ "type": "integer", "minimum": least }),
        Shape::Number => json!({ "type": "number" }),
        Shape::Texts(pattern) => {
            json!({ "type": "array", "items": { "type": "string", "pattern": pattern } })
        }
        Shape::Names => {
            json!({ "type": "array", "items": { "type": "string" }, "uniqueItems": true })
        }
        Shape::Object => json!({ "type": "object" }),
        Shape::Any => json!({}),
        Shape::Table(table) => Value::Object(of_table(table)),
        Shape::Tables(table) => json!({ "type": "array", "items": of_table(table) }),
        Shape::Named(table) => json!({ "type": "object", "additionalProperties": of_table(table) }),
        Shape::Entries(table) => json!({
            "type": "object",
            "additionalProperties": { "anyOf": [{ "type": "string" }, of_table(table)] },
        }),
    }
}

fn of_rule(table: &Table, rule: &Rule) -> Value {
    match rule {
        Rule::OneOf(keys) => {
            let each: Vec<_> = keys
                .iter()
                .map(|key| json!({ "required": [key] }))
                .collect();
            json!({ "oneOf": each })
        }
        Rule::Apart(one, other) => {
            json!({ "not": { "allOf": [requires_key(table, one), requires_key(table, other)] } })
        }
        Rule::Clash(both) => {
            let both = both.map(|(key, is)| has(key, is));
            json!({ "not": { "allOf": both } })
        }
        Rule::Where {
            key,
            is,
            needs,
            lacks,
            excludes,
        } => {
            let lacks = lacks.iter().map(|key| json!({ "required": [key] }));
            let refused = lacks.chain(excludes.iter().map(|key| requires_key(table, key)));
            let refused = refused.map(|refused| json!({ "not": refused }));
            let then: Vec<_> = [json!({ "required": needs })]
                .into_iter()
                .chain(refused)
                .collect();
            json!({ "if": has(key, is), "then": { "allOf": then } })
        }
    }
}

/// A schema that requires a key to have this value.
fn has(key: &str, is: &str) -> Value {
    json!({ "required": [key], "properties": { key: { "const": is } } })
}

/// A schema that requires a key to be set: a false flag or an empty list does not count.
fn requires_key(table: &Table, name: &str) -> Value {
    let something = match table.key(name).map(|key| &key.shape) {
        Some(Shape::Flag) => json!({ "const": true }),
        Some(Shape::Tables(_)) => json!({ "minItems": 1 }),
        _ => json!({}),
    };
    json!({ "required": [name], "properties": { name: something } })
}
