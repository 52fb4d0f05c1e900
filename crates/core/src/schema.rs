//! JSON schemas: made from types or given as JSON, compiled once, with errors that a model can act on.

mod quick_check;

use std::fmt;
use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::bounds::{MAX_DEPTH, cut_reason, fits};
use crate::error::{Coded, ErrorCode};
use crate::json::Json;

use quick_check::QuickCheck;

/// The maximum number of errors listed for one value.
const MAX_ERRORS: usize = 8;
/// The maximum number of characters shown of one error; a bad value may be a megabyte.
const MAX_ERROR_CHARS: usize = 300;

/// A compiled JSON schema. Clones share it.
#[derive(Clone)]
pub struct Schema {
    json: Json,
    compiled: Arc<Compiled>,
}

/// A schema in the form in which values are checked.
struct Compiled {
    /// Accepts most valid values, for schemas that it takes.
    quick: Option<QuickCheck>,
    /// Judges the others. It is compiled when it is needed first, if there is a quick check.
    full: OnceLock<Option<jsonschema::Validator>>,
}

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The schema does not describe an object, as arguments and outputs must be.
    #[error(
        "the schema of {what} describes {found}, not an object; write {{\"type\": \"object\", \"properties\": {{...}}}} or wrap the value in a struct"
    )]
    NotAnObject {
        /// The name of what the schema belongs to.
        what: String,
        /// The type that the schema describes instead.
        found: String,
    },
    /// The JSON value is not a schema.
    #[error("the schema of {what} is not valid at `{path}`: {reason}; correct that keyword")]
    Invalid {
        /// The name of what the schema belongs to.
        what: String,
        /// The path of the error in the schema.
        path: String,
        /// The error at that path.
        reason: String,
    },
}

impl Coded for SchemaError {
    fn code(&self) -> ErrorCode {
        ErrorCode::DefinitionInvalid
    }
}

impl Schema {
    /// Compiles a schema that describes an object. `what` names it in errors.
    ///
    /// # Errors
    /// [`SchemaError`] if it is not a schema, or not one of an object.
    pub fn object(what: &str, json: Value) -> Result<Self, SchemaError> {
        if json.get("type").and_then(Value::as_str) != Some("object") {
            return Err(SchemaError::NotAnObject {
                what: what.to_owned(),
                found: described(&json),
            });
        }
        let quick = QuickCheck::of(&json);
        let full = OnceLock::new();
        if quick.is_none() {
            let validator = jsonschema::validator_for(&json);
            let validator = validator.map_err(|error| SchemaError::Invalid {
                what: what.to_owned(),
                path: error.instance_path().to_string(),
                reason: clip(error.to_string()),
            })?;
            full.get_or_init(|| Some(validator));
        }
        Ok(Self {
            json: json.into(),
            compiled: Arc::new(Compiled { quick, full }),
        })
    }

    /// Creates the schema of a type that serializes to an object. `what` names it in errors.
    ///
    /// # Errors
    /// [`SchemaError::NotAnObject`] if the type does not serialize to an object.
    pub fn of<T: JsonSchema>(what: &str) -> Result<Self, SchemaError> {
        Self::object(what, schema_of::<T>())
    }

    /// Returns the schema as JSON.
    #[must_use]
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// Returns the schema as JSON text. It is made once: a model client sends it with every request.
    #[must_use]
    pub fn text(&self) -> &str {
        self.json.text()
    }

    /// Returns the validation errors of a value, one sentence each, for a model to act on. Empty
    /// if it is valid.
    #[must_use]
    pub(crate) fn errors(&self, value: &Value) -> Vec<String> {
        if let Value::String(text) = value {
            // A model's arguments are kept as a text if they are not JSON.
            let why = match (cut_reason(text), serde_json::from_str::<Value>(text)) {
                (Some(why), _) => format!(" ({why})"),
                (None, Err(error)) => format!(" ({error})"),
                (None, Ok(value)) if !fits(&value, MAX_DEPTH) => {
                    format!(" (nested deeper than {MAX_DEPTH} levels)")
                }
                (None, Ok(_)) => String::new(),
            };
            return vec![format!(
                "the arguments are a text{why}; send one JSON object"
            )];
        }
        let quick = self.compiled.quick.as_ref();
        if quick.is_some_and(|quick| quick.accepts(value)) {
            return Vec::new();
        }
        let compile = || jsonschema::validator_for(&self.json).ok();
        let Some(validator) = self.compiled.full.get_or_init(compile) else {
            return vec!["the schema cannot be compiled".to_owned()];
        };
        // Listing the errors of a value allocates even if there are none.
        if validator.is_valid(value) {
            return Vec::new();
        }
        let mut errors = validator.iter_errors(value);
        let mut sentences: Vec<String> = errors
            .by_ref()
            .take(MAX_ERRORS)
            .map(|error| {
                let path = error.instance_path().to_string();
                let place = if path.is_empty() {
                    "at the top level".to_owned()
                } else {
                    format!("at `{path}`")
                };
                let mut reason = error.to_string();
                if reason.len() > MAX_ERROR_CHARS {
                    // The value comes first and would be all that is left of the sentence.
                    reason = error.masked().to_string();
                }
                format!("{place}: {}", clip(reason))
            })
            .collect();
        let more = errors.count();
        if more > 0 {
            sentences.push(format!("and {more} more"));
        }
        sentences
    }
}

/// Returns the schema of a type as JSON, without the parts that mean nothing to a model.
#[must_use]
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let generator = SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .into_generator();
    let mut json = generator.into_root_schema_for::<T>().to_value();
    if let Some(map) = json.as_object_mut() {
        map.remove("title");
    }
    json
}

fn described(json: &Value) -> String {
    match json.get("type") {
        Some(Value::String(kind)) => format!("type {kind:?}"),
        Some(kinds @ Value::Array(_)) => format!("types {kinds}"),
        _ if json.is_object() => "no type".to_owned(),
        _ => "something that is not a JSON object".to_owned(),
    }
}

fn clip(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(MAX_ERROR_CHARS) {
        text.truncate(at);
        text.push('…');
    }
    text
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.json).finish()
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json
    }
}
