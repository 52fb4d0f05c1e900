//! The body of a request, whose parts are in a fixed order.
//!
//! Settings and tools come first, then the conversation, and last what may differ from step to step. So the
//! beginning of a request equals the request before it byte by byte, which a provider's prompt cache needs.

use helix_agents_core::model::{ModelError, ModelErrorKind};
use serde::Serialize;
use serde_json::{Map, Value};

/// Extra fields of a body that a user sets for one provider, as they are.
pub(crate) type Options = Map<String, Value>;

/// A body that is being written.
#[derive(Debug)]
pub(crate) struct Body {
    bytes: Vec<u8>,
    /// The fields that are written.
    fields: Vec<String>,
    options: Options,
}

impl Body {
    /// Begins a body with these settings, into which the options are merged. A field in `ours` is written by
    /// the client alone: options may not set it.
    pub(crate) fn new(
        mut settings: Map<String, Value>,
        mut options: Options,
        ours: &[&str],
    ) -> Result<Self, ModelError> {
        if let Some(field) = ours.iter().find(|field| options.contains_key(**field)) {
            return Err(written_twice(field));
        }
        let tools = options.remove("tools");
        merge(&mut settings, &options);
        let mut body = Self {
            bytes: vec![b'{'],
            fields: Vec::new(),
            options: tools
                .map(|tools| ("tools".to_owned(), tools))
                .into_iter()
                .collect(),
        };
        for (field, value) in &settings {
            body.field(field, value)?;
        }
        Ok(body)
    }

    /// Adds a field.
    pub(crate) fn field(
        &mut self,
        name: &str,
        value: &(impl Serialize + ?Sized),
    ) -> Result<(), ModelError> {
        self.raw(name, |out| write(out, value))
    }

    /// Adds a field that writes itself. An option of the same name is refused: a field must not be written
    /// twice.
    pub(crate) fn raw(
        &mut self,
        name: &str,
        value: impl FnOnce(&mut Vec<u8>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        if self.fields.iter().any(|field| field == name) {
            return Err(written_twice(name));
        }
        self.fields.push(name.to_owned());
        if self.bytes.len() > 1 {
            self.bytes.push(b',');
        }
        write(&mut self.bytes, name)?;
        self.bytes.push(b':');
        value(&mut self.bytes)
    }

    /// Adds the tools, each as `write` writes it, and then those that the options add.
    pub(crate) fn tools<T>(
        &mut self,
        tools: impl IntoIterator<Item = T>,
        mut write_tool: impl FnMut(T, &mut Vec<u8>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        let more = match self.options.remove("tools") {
            Some(Value::Array(more)) => more,
            Some(_) => {
                let detail = "the provider options set `tools` to something that is not an array";
                return Err(ModelError::new(ModelErrorKind::Invalid, detail));
            }
            None => Vec::new(),
        };
        let mut tools = tools.into_iter().peekable();
        if tools.peek().is_none() && more.is_empty() {
            return Ok(());
        }
        self.raw("tools", |out| {
            let mut begin = b'[';
            for tool in tools {
                out.push(begin);
                write_tool(tool, out)?;
                begin = b',';
            }
            for tool in &more {
                out.push(begin);
                write(out, tool)?;
                begin = b',';
            }
            out.push(b']');
            Ok(())
        })
    }

    /// Ends the body.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(b'}');
        self.bytes
    }
}

fn written_twice(field: &str) -> ModelError {
    let detail = format!(
        "the provider options set `{field}`, which the client writes; remove it from the options"
    );
    ModelError::new(ModelErrorKind::Invalid, detail)
}

/// Appends a value as JSON.
pub(crate) fn write(
    out: &mut Vec<u8>,
    value: &(impl Serialize + ?Sized),
) -> Result<(), ModelError> {
    serde_json::to_writer(out, value).map_err(|error| {
        ModelError::new(ModelErrorKind::Invalid, "the request cannot be written").caused_by(error)
    })
}

/// Merges objects into objects; any other value replaces.
pub(crate) fn merge(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Object(into)), Value::Object(from)) => merge(into, from),
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn options_are_merged_into_settings_and_tools() {
        let settings = object(json!({ "model": "m", "thinking": { "budget": 1, "type": "on" } }));
        let options = object(json!({
            "thinking": { "budget": 2 }, "user": "u", "tools": [{ "type": "web_search" }]
        }));
        let mut body = Body::new(settings, options, &["messages"]).unwrap();
        body.tools(["t"], |tool, out| write(out, tool)).unwrap();
        body.field("messages", &["hi"]).unwrap();
        assert_eq!(
            String::from_utf8(body.finish()).unwrap(),
            r#"{"model":"m","thinking":{"budget":2,"type":"on"},"user":"u","tools":["t",{"type":"web_search"}],"messages":["hi"]}"#
        );
    }

    #[test]
    fn options_cannot_replace_the_conversation() {
        let options = object(json!({ "messages": [] }));
        let refused = Body::new(Map::new(), options, &["messages"]).unwrap_err();
        assert_eq!(refused.kind, ModelErrorKind::Invalid);
        assert!(refused.detail.contains("`messages`"), "{refused}");
        let options = object(json!({ "tool_choice": "none" }));
        let mut body = Body::new(Map::new(), options, &["messages"]).unwrap();
        let refused = body.field("tool_choice", "required").unwrap_err();
        assert!(refused.detail.contains("`tool_choice`"), "{refused}");
    }

    #[test]
    fn a_body_without_tools_has_no_such_field() {
        let mut body = Body::new(Map::new(), Map::new(), &[]).unwrap();
        body.tools([""; 0], |tool, out| write(out, tool)).unwrap();
        assert_eq!(body.finish(), b"{}");
    }
}
