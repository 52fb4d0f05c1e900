//! Schemas that the provider enforces.
//!
//! It knows a part of JSON Schema, and refuses a schema with anything else. What it does not know is told to
//! the model in the description instead; the reply is validated against the whole schema in any case.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The formats of texts that the provider knows.
const FORMATS: &[&str] = &[
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "uri",
    "ipv4",
    "ipv6",
    "uuid",
];

/// Returns a schema that the provider can enforce.
pub(super) fn strict(schema: &Value) -> Value {
    let Value::Object(schema) = schema else {
        return schema.clone();
    };
    let mut rest = schema.clone();
    let mut kept = Map::new();
    rest.remove("$schema");
    for definitions in ["$defs", "definitions"] {
        if let Some(Value::Object(all)) = rest.remove(definitions) {
            kept.insert(definitions.to_owned(), each(&all));
        }
    }
    if let Some(target) = rest.remove("$ref") {
        kept.insert("$ref".to_owned(), target);
        return Value::Object(kept);
    }
    for field in ["description", "title"] {
        kept.extend(rest.remove(field).map(|value| (field.to_owned(), value)));
    }
    for literal in ["enum", "const"] {
        kept.extend(rest.remove(literal).map(|it| (literal.to_owned(), it)));
    }
    let kind = rest.remove("type");
    if kept.contains_key("enum") || kept.contains_key("const") {
        return described(kept, &rest);
    }
    if let Some((field, variants)) = variants(&mut rest, kind.as_ref()) {
        kept.insert(field.to_owned(), variants.into());
        return described(kept, &rest);
    }
    match kind.as_ref().and_then(Value::as_str) {
        Some("object") => {
            let properties = match rest.remove("properties") {
                Some(Value::Object(properties)) => each(&properties),
                _ => json!({}),
            };
            kept.insert("properties".to_owned(), properties);
            rest.remove("additionalProperties");
            kept.insert("additionalProperties".to_owned(), false.into());
            keep_if(&mut kept, &mut rest, "required", |_| true);
        }
        Some("array") => {
            let items = rest.remove("items");
            kept.extend(items.map(|items| ("items".to_owned(), strict(&items))));
            let is_known = |count: &Value| matches!(count.as_u64(), Some(0 | 1));
            keep_if(&mut kept, &mut rest, "minItems", is_known);
        }
        Some("string") => {
            let is_known = |name: &Value| name.as_str().is_some_and(|name| FORMATS.contains(&name));
            keep_if(&mut kept, &mut rest, "format", is_known);
        }
        _ => {}
    }
    kept.extend(kind.map(|kind| ("type".to_owned(), kind)));
    described(kept, &rest)
}

/// Returns the alternatives of a schema; those of a list of types become schemas of their own.
fn variants(
    rest: &mut Map<String, Value>,
    kind: Option<&Value>,
) -> Option<(&'static str, Vec<Value>)> {
    for (field, becomes) in [("anyOf", "anyOf"), ("oneOf", "anyOf"), ("allOf", "allOf")] {
        if let Some(Value::Array(all)) = rest.remove(field) {
            return Some((becomes, all.iter().map(strict).collect()));
        }
    }
    let kinds = kind?.as_array()?;
    let of_kind = |kind: &Value| {
        let mut variant = rest.clone();
        variant.insert("type".to_owned(), kind.clone());
        if kind == "null" {
            variant.retain(|field, _| field == "type");
        }
        strict(&Value::Object(variant))
    };
    let all = kinds.iter().map(of_kind).collect();
    rest.clear();
    Some(("anyOf", all))
}

fn each(schemas: &Map<String, Value>) -> Value {
    let strict = |(name, schema): (&String, &Value)| (name.clone(), strict(schema));
    Value::Object(schemas.iter().map(strict).collect())
}

fn keep_if(
    kept: &mut Map<String, Value>,
    rest: &mut Map<String, Value>,
    field: &str,
    is_known: impl Fn(&Value) -> bool,
) {
    if rest.get(field).is_some_and(is_known) {
        kept.extend(rest.remove(field).map(|value| (field.to_owned(), value)));
    }
}

/// Adds what is left to the description, in an order that no feature of serde_json changes.
fn described(mut kept: Map<String, Value>, rest: &Map<String, Value>) -> Value {
    if !rest.is_empty() {
        let rest: BTreeMap<_, _> = rest.iter().collect();
        let rest = json!(rest);
        let text = match kept.get("description").and_then(Value::as_str) {
            Some(text) => format!("{text}\n\n{rest}"),
            None => rest.to_string(),
        };
        kept.insert("description".to_owned(), text.into());
    }
    Value::Object(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_constraints_move_into_the_description() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "cents": { "type": "integer", "format": "uint64", "minimum": 0, "description": "Paid." },
                "at": { "type": "string", "format": "date-time", "maxLength": 40 },
                "note": { "type": ["string", "null"] },
                "kind": { "type": "string", "enum": ["a", "b"] },
                "items": { "type": "array", "items": { "$ref": "#/$defs/Item" }, "minItems": 2 },
                "either": { "oneOf": [{ "type": "string" }, { "type": "object" }] }
            },
            "required": ["cents"],
            "$defs": { "Item": { "type": "object", "properties": {}, "additionalProperties": true } }
        });
        assert_eq!(
            strict(&schema),
            json!({
                "type": "object",
                "properties": {
                    "cents": { "type": "integer", "description": "Paid.\n\n{\"format\":\"uint64\",\"minimum\":0}" },
                    "at": { "type": "string", "format": "date-time", "description": "{\"maxLength\":40}" },
                    "note": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
                    "kind": { "enum": ["a", "b"] },
                    "items": {
                        "type": "array", "items": { "$ref": "#/$defs/Item" }, "description": "{\"minItems\":2}"
                    },
                    "either": { "anyOf": [
                        { "type": "string" },
                        { "type": "object", "properties": {}, "additionalProperties": false }
                    ] }
                },
                "required": ["cents"],
                "additionalProperties": false,
                "$defs": { "Item": { "type": "object", "properties": {}, "additionalProperties": false } }
            })
        );
    }

    #[test]
    fn a_schema_that_fits_stays_as_it_is() {
        let schema = json!({
            "type": "object",
            "properties": { "city": { "type": "string", "description": "A city." } },
            "required": ["city"],
            "additionalProperties": false
        });
        assert_eq!(strict(&schema), schema);
        assert_eq!(strict(&json!(true)), json!(true));
    }
}
