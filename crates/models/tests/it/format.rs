//! Tests of the file format, and of the errors for an invalid script.

use helix_agents_core::{Error, ErrorCode};
use helix_agents_models::{Script, ScriptError, ScriptedModel};
use serde_json::{Value, json};

use crate::scene::Scene;

/// The example script of the reference.
const REFERENCE: &str = r#"{ "rules": [ { "match": "refund", "steps": [
      { "thinking": "check first", "tool_calls": [ { "id": "c1", "name": "lookup", "arguments": { "id": 7 } } ] },
      { "text": "Done: {{last_tool_result}}", "chunk_chars": 4, "delay_ms": 5, "stop_reason": "end_turn", "usage": { "input": 12, "output": 3 } } ] } ],
  "default": [ { "text": "Echo: {{last_user}}" } ] }"#;

#[test]
fn the_script_of_the_reference_plays() {
    let model = ScriptedModel::new(Script::parse(REFERENCE).unwrap());
    let mut scene = Scene::user("refund 7");
    scene.step(&model, [json!({ "cents": 700 })]);
    assert_eq!(scene.text(&model), r#"Done: {"cents":700}"#);
    scene.push_user("thanks");
    assert_eq!(scene.text(&model), "Echo: thanks");
}

#[test]
fn rules_and_default_may_each_be_left_out_or_empty() {
    for script in [
        json!({ "default": [ { "text": "hi" } ] }),
        json!({ "rules": [], "default": [ { "text": "hi" } ] }),
        json!({ "rules": [ { "match": "", "steps": [ { "text": "hi" } ] } ] }),
    ] {
        let model = ScriptedModel::new(Script::from_value(script).unwrap());
        assert_eq!(Scene::user("hello").text(&model), "hi");
    }
}

#[test]
fn a_script_error_converts_into_the_error_of_the_library() {
    fn read(script: &str) -> Result<Script, Error> {
        Ok(Script::parse(script)?)
    }
    let error = read("{").unwrap_err();
    assert_eq!(error.code(), ErrorCode::DefinitionInvalid);
    assert!(!error.is_retryable());
    let cause = error.downcast_ref::<ScriptError>().unwrap();
    assert_eq!(error.to_string(), cause.to_string());
    assert_eq!(cause.line(), Some(1));
}

/// Returns the error text for a script, and the line it names.
fn refusal(script: &str) -> (String, Option<usize>) {
    let error = Script::parse(script).unwrap_err();
    (error.to_string(), error.line())
}

#[test]
fn an_invalid_script_is_refused() {
    let empty = "the script has neither rules nor a default; \
         add `\"rules\": [{\"match\": ..., \"steps\": [...]}]` or `\"default\": [...]`";
    assert_eq!(refusal("{}"), (empty.to_owned(), None));
    assert_eq!(refusal(r#"{ "rules": [] }"#), (empty.to_owned(), None));
    for (script, problem) in [
        (
            "{ \"rules\": ",
            "EOF while parsing a value at line 1 column 11",
        ),
        (
            r#"{ "rule": [] }"#,
            "unknown field `rule`, expected `rules` or `default` at line 1 column 8",
        ),
        (
            r#"{ "rules": [ { "steps": [] } ] }"#,
            "missing field `match` at line 1 column 28",
        ),
        (
            r#"{ "rules": [ { "match": "x" } ] }"#,
            "missing field `steps` at line 1 column 29",
        ),
        (
            r#"{ "rules": [ { "match": "x", "steps": [], "step": 1 } ] }"#,
            "unknown field `step`, expected `match` or `steps` at line 1 column 48",
        ),
    ] {
        let message = format!("the script cannot be read: {problem}");
        assert_eq!(refusal(script), (message, Some(1)), "{script}");
    }
}

#[test]
fn an_invalid_step_is_refused() {
    const PLACEHOLDERS: &str = "write `{{last_user}}`, `{{last_tool_result}}`, \
         `{{tool_result:ID}}`, `{{turn}}` or `{{state:/pointer}}`";
    let unknown =
        |placeholder: &str| format!("unknown placeholder `{placeholder}`; {PLACEHOLDERS}");
    for (step, problem) in [
        (
            r#"{ "txt": "hello" }"#,
            "unknown field `txt`, expected one of `thinking`, `text`, `tool_calls`, `finish`, \
             `chunk_chars`, `delay_ms`, `stop_reason`, `usage`, `error`"
                .to_owned(),
        ),
        (
            r#"{ "text": 5 }"#,
            "invalid type: integer `5`, expected a string".to_owned(),
        ),
        (
            r#"{ "text": "{{last_result}}" }"#,
            unknown("{{last_result}}"),
        ),
        (
            r#"{ "thinking": "{{ last_user }}" }"#,
            unknown("{{ last_user }}"),
        ),
        (
            r#"{ "text": "{{last_user:1}}" }"#,
            unknown("{{last_user:1}}"),
        ),
        (
            r#"{ "text": "{{tool_result}}" }"#,
            unknown("{{tool_result}}"),
        ),
        (
            r#"{ "text": "{{tool_result:}}" }"#,
            unknown("{{tool_result:}}"),
        ),
        (r#"{ "text": "{{state:name}}" }"#, unknown("{{state:name}}")),
        (
            r#"{ "finish": { "a": ["{{nope}}"] } }"#,
            unknown("{{nope}}"),
        ),
        (
            r#"{ "tool_calls": [ { "name": "t", "arguments": "{{nope}}" } ] }"#,
            unknown("{{nope}}"),
        ),
        (
            r#"{ "chunk_chars": 0 }"#,
            "`chunk_chars` is 0; write 1 or more, or leave it out".to_owned(),
        ),
        (
            r#"{ "chunk_chars": -1 }"#,
            "invalid value: integer `-1`, expected usize".to_owned(),
        ),
        (
            r#"{ "delay_ms": "5" }"#,
            "invalid type: string \"5\", expected u64".to_owned(),
        ),
        (
            r#"{ "tool_calls": [ { "id": "c1" } ] }"#,
            "missing field `name`".to_owned(),
        ),
        (
            r#"{ "tool_calls": [ { "name": "t", "args": {} } ] }"#,
            "unknown field `args`, expected one of `id`, `name`, `arguments`".to_owned(),
        ),
        (
            r#"{ "tool_calls": [ { "name": "t", "id": "a b" } ] }"#,
            "a tool call id contains ' ' at character 1; use only letters, digits and `-_.:`"
                .to_owned(),
        ),
        (
            r#"{ "stop_reason": "stop" }"#,
            "unknown variant `stop`, expected one of `end_turn`, `stop_sequence`, `tool_use`, \
             `max_tokens`, `content_filter`, `refusal`, `error`, `unknown`"
                .to_owned(),
        ),
        (
            r#"{ "usage": { "total": 1 } }"#,
            "unknown field `total`, expected one of `input`, `output`, `cached`, `reasoning`"
                .to_owned(),
        ),
        (
            r#"{ "error": { "kind": "overload" } }"#,
            "unknown variant `overload`, expected one of `rate_limited`, `overloaded`, \
             `context_length`, `content_filter`, `refusal`, `auth`, `invalid`, `transport`"
                .to_owned(),
        ),
        (
            r#"{ "error": { "attempts": 1 } }"#,
            "missing field `kind`".to_owned(),
        ),
        (
            r#"{ "error": { "kind": "auth", "after": 1 } }"#,
            "unknown field `after`, expected one of `kind`, `attempts`, `retry_after_ms`, \
             `after_chars`"
                .to_owned(),
        ),
    ] {
        let problem = format!("the script cannot be read: {problem}");
        let (message, line) = refusal(&format!("{{ \"default\": [\n{step}\n] }}"));
        let (what, place) = message.rsplit_once(" at line 2 column ").unwrap();
        assert_eq!((what, line), (problem.as_str(), Some(2)), "{step}");
        assert!(
            place.parse::<usize>().unwrap() <= step.len() + 1,
            "{message}"
        );

        let value = json!({ "default": [serde_json::from_str::<Value>(step).unwrap()] });
        let error = Script::from_value(value).unwrap_err();
        assert_eq!((error.to_string(), error.line()), (problem, None));
    }
}
