//! Compares responses with the OpenAPI document. Every response in these tests is checked, so an
//! undescribed field or status fails the first test that meets it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use helix_agents_server::Operation;
use jsonschema::Validator;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tower::ServiceExt;

use crate::kit::{ADMIN, Answer, Place, request};

/// The document, with closed objects: a field that it does not name must not occur.
async fn description() -> &'static Value {
    static DESCRIPTION: OnceCell<Value> = OnceCell::const_new();
    let read = async || {
        let asked = request(ADMIN, "GET", "/openapi.json", None);
        let answer = Place::new().app.oneshot(asked).await.unwrap();
        let mut description = Answer::of(answer).await.ok();
        close(&mut description["components"]["schemas"]);
        description
    };
    DESCRIPTION.get_or_init(read).await
}

/// Closes every object that is not a part of another.
fn close(schemas: &mut Value) {
    let text = schemas.to_string();
    for (name, schema) in schemas.as_object_mut().unwrap() {
        let reference = json!({ "$ref": format!("#/components/schemas/{name}") });
        let is_part = text.contains(&format!("\"allOf\":[{reference}"));
        if schema["allOf"].is_array() {
            schema["unevaluatedProperties"] = json!(false);
        } else if schema["properties"].is_object() && !is_part {
            schema["additionalProperties"] = json!(false);
        }
    }
}

/// The operation of a request, if it has one.
fn operation(method: &str, path: &str) -> Option<Operation> {
    let path = path.split('?').next()?;
    let fits = |operation: &&Operation| {
        let mut parts = operation.path().split('/').zip(path.split('/'));
        operation.method() == *method
            && operation.path().matches('/').count() == path.matches('/').count()
            && parts.all(|(known, given)| known == "{id}" || known == given)
    };
    Operation::ALL.iter().find(fits).copied()
}

fn follow<'a>(document: &'a Value, part: &'a Value) -> &'a Value {
    match part["$ref"].as_str() {
        Some(reference) => document.pointer(&reference[1..]).unwrap(),
        None => part,
    }
}

fn check_value(document: &Value, schema: &Value, value: &Value, what: &str) {
    static VALIDATORS: Mutex<BTreeMap<String, Arc<Validator>>> = Mutex::new(BTreeMap::new());
    let validator = {
        let mut known = VALIDATORS.lock().unwrap();
        let made = known.entry(schema.to_string()).or_insert_with(|| {
            let root = json!({ "allOf": [schema], "components": document["components"] });
            Arc::new(jsonschema::validator_for(&root).unwrap())
        });
        Arc::clone(made)
    };
    let problems = validator.iter_errors(value).map(|error| error.to_string());
    let problems: Vec<_> = problems.collect();
    assert!(problems.is_empty(), "{what}: {problems:?}\n{value}");
}

/// Fails unless the document describes this response and, if it was accepted, this body.
pub(crate) async fn check(method: &str, path: &str, body: Option<&Value>, answer: &Answer) {
    let document = description().await;
    let Some(operation) = operation(method, path) else {
        return;
    };
    let route = &document["paths"][operation.path()][method.to_lowercase()];
    let what = format!("{method} {path}");
    let described = &route["responses"][answer.status.as_str()];
    assert!(
        described.is_object(),
        "{what}: {} is not described",
        answer.status
    );
    let described = follow(document, described);
    let kind = answer
        .headers
        .get("content-type")
        .map(|kind| kind.to_str().unwrap());
    match kind.and_then(|kind| kind.split(';').next()) {
        Some(kind) => {
            let content = &described["content"][kind];
            assert!(content.is_object(), "{what}: {kind} is not described");
            if kind == "application/json" {
                check_value(document, &content["schema"], &answer.json(), &what);
            }
        }
        None => assert!(
            described["content"].is_null(),
            "{what}: a body is described"
        ),
    }
    if let (Some(body), true) = (body, answer.status.is_success()) {
        let schema = &route["requestBody"]["content"]["application/json"]["schema"];
        check_value(document, schema, body, &what);
    }
}

#[tokio::test]
async fn the_openapi_document_has_every_route() {
    let document = description().await;
    for operation in Operation::ALL {
        let method = operation.method().as_str().to_lowercase();
        let described = &document["paths"][operation.path()][&method];
        assert_eq!(described["operationId"], operation.name());
        let responses = described["responses"].as_object().unwrap();
        for (status, answer) in responses {
            let content = &follow(document, answer)["content"];
            let kinds = content.as_object().map(|kinds| kinds.values().collect());
            let kinds: Vec<_> = kinds.unwrap_or_default();
            assert_eq!(kinds.is_empty(), status == "204", "{operation} {status}");
            assert!(
                kinds.iter().all(|kind| kind["schema"].is_object()),
                "{operation} {status}"
            );
        }
        if operation.method() == "POST" {
            let body = &described["requestBody"]["content"]["application/json"];
            let schema = follow(document, &body["schema"]);
            assert!(
                schema["properties"].is_object() || schema["oneOf"].is_array(),
                "{operation}"
            );
        }
    }
    // Every reference resolves.
    let text = document.to_string();
    for reference in text.split("\"#/").skip(1) {
        let place = reference.split('"').next().unwrap();
        assert!(document.pointer(&format!("/{place}")).is_some(), "{place}");
    }
}

/// A described parameter is read: a value that does not fit its type is refused.
#[tokio::test]
async fn every_parameter_is_parsed_as_described() {
    let place = Place::new();
    place.ended("hello").await;
    let mut refused = 0;
    for operation in Operation::ALL {
        let method = operation.method().as_str().to_lowercase();
        let document = description().await;
        let parameters = &document["paths"][operation.path()][&method]["parameters"];
        for parameter in parameters.as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            let schema = follow(document, &parameter["schema"]);
            let schema = if schema["type"] == "array" {
                follow(document, &schema["items"])
            } else {
                schema
            };
            let is_free = schema["type"] == "string"
                && schema["pattern"].is_null()
                && schema["enum"].is_null()
                || schema["type"] == "boolean";
            if parameter["in"] != "query" || is_free {
                continue;
            }
            let name = if schema["type"] == "object" {
                "metadata"
            } else {
                name
            };
            let path = operation
                .path()
                .replace("{id}", "s")
                .replace("{session}", "s");
            let other = if name == "sessionId" {
                ""
            } else {
                "&sessionId=s"
            };
            place
                .get(&format!("{path}?{name}=%21{other}"))
                .await
                .is(400, "VALIDATION_ERROR");
            refused += 1;
        }
    }
    assert_eq!(refused, 27);
}
