//! Arguments of calls as a provider takes them.

use std::borrow::Cow;

use helix_agents_core::message::ToolCall;
use serde_json::{Value, json};

/// Returns the arguments of a call as the text of a JSON object. Others are put into one: servers read the
/// arguments of earlier calls, and many refuse everything but an object.
pub(crate) fn object_arguments(call: &ToolCall) -> Cow<'_, str> {
    match &*call.arguments {
        Value::Object(_) => Cow::Borrowed(call.arguments.text()),
        other => Cow::Owned(json!({ "arguments": other }).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use helix_agents_core::CallId;

    use super::*;

    #[test]
    fn arguments_that_are_no_object_are_put_into_one() {
        let call = |arguments: Value| ToolCall::new(CallId::new("c").unwrap(), "f", arguments);
        let text = |arguments: Value| object_arguments(&call(arguments)).into_owned();
        assert_eq!(text(json!({ "b": 1, "a": 2 })), r#"{"a":2,"b":1}"#);
        assert_eq!(text(json!({})), "{}");
        assert_eq!(
            text(json!("{\"city\": \"Os")),
            r#"{"arguments":"{\"city\": \"Os"}"#
        );
        assert_eq!(text(json!([1])), r#"{"arguments":[1]}"#);
    }
}
