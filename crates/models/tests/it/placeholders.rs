//! Tests of placeholders in texts and arguments.

use helix_agents_core::CallId;
use helix_agents_core::message::{AssistantMessage, AssistantPart};
use helix_agents_core::step::{ToolResultInput, create_tool_result_message};
use serde_json::{Value, json};

use crate::scene::{Scene, call, model, one_step, result};

/// Returns a text with its placeholders filled in.
fn filled(scene: &Scene, text: &str) -> String {
    // Empty steps stand for the assistant messages that are already in the turn.
    let silent = scene.history.assistant_messages_since_user();
    let mut steps = vec![json!({}); silent];
    steps.push(json!({ "text": text }));
    scene.text(&model(json!({ "default": steps })))
}

#[test]
fn last_user_is_the_latest_visible_user_message() {
    let mut scene = Scene::user("first");
    scene.push_user("second \"quoted\" {{turn}}");
    scene.push_hidden_user("hidden");
    assert_eq!(
        filled(&scene, "<{{last_user}}>"),
        "<second \"quoted\" {{turn}}>"
    );
}

#[test]
fn turn_counts_visible_user_messages() {
    let mut scene = Scene::user("one");
    assert_eq!(filled(&scene, "{{turn}}"), "1");
    scene.push_hidden_user("hidden");
    scene.push_user("two");
    assert_eq!(filled(&scene, "{{turn}}"), "2");
}

#[test]
fn state_is_read_at_a_pointer() {
    let state = json!({ "name": "Ada", "a/b": { "n": [1, { "x": null }] } });
    let scene = Scene::user("go").state(state.clone());
    for (text, expected) in [
        ("{{state:/name}}", "Ada"),
        ("{{state:/a~1b/n/0}}", "1"),
        ("{{state:/a~1b/n}}", r#"[1,{"x":null}]"#),
        ("{{state:/a~1b/n/1/x}}", "null"),
        ("{{state:}}", state.to_string().as_str()),
        ("<{{state:/missing}}>", "<>"),
    ] {
        assert_eq!(filled(&scene, text), expected, "{text}");
    }
}

#[test]
fn last_tool_result_is_a_string_as_it_is_or_compact_json() {
    let model = model(json!({ "default": [
        { "tool_calls": [ { "name": "a" }, { "name": "b" } ] },
        { "text": "{{last_tool_result}}" },
    ] }));
    for (value, expected) in [
        (json!("plain \"text\""), "plain \"text\""),
        (json!("[1, 2]"), "[1, 2]"),
        (
            json!({ "b": [1, null], "a": "x" }),
            r#"{"a":"x","b":[1,null]}"#,
        ),
        (json!(4.5), "4.5"),
        (json!(null), "null"),
    ] {
        let mut scene = Scene::user("go");
        scene.step(&model, [json!("not this one"), value]);
        assert_eq!(scene.text(&model), expected);
    }
}

#[test]
fn the_result_of_a_failed_call_is_its_error() {
    let mut scene = Scene::user("go");
    let failed = create_tool_result_message(ToolResultInput {
        tool_call_id: CallId::new("c1").unwrap(),
        tool_name: "t".into(),
        result: Err("no such order".into()),
    });
    let message = calls([("c1", "t")]);
    scene.other_model(message, vec![failed]);
    assert_eq!(
        filled(&scene, "{{last_tool_result}}"),
        r#"{"error":"no such order"}"#
    );
}

#[test]
fn the_last_tool_result_may_be_of_an_earlier_turn() {
    let mut scene = Scene::user("go");
    assert_eq!(filled(&scene, "<{{last_tool_result}}>"), "<>");
    scene.other_model(calls([("c1", "t")]), vec![result("c1", "t", json!("kept"))]);
    scene.push_user("and then?");
    assert_eq!(filled(&scene, "<{{last_tool_result}}>"), "<kept>");
    assert_eq!(
        filled(&scene, "<{{tool_result:c1}}>"),
        "<>",
        "this one is of the turn"
    );
}

/// Builds an assistant message with these calls.
fn calls<const N: usize>(ids: [(&str, &str); N]) -> AssistantMessage {
    let calls = ids.map(|(id, tool)| AssistantPart::ToolCall(call(id, tool, json!({}))));
    AssistantMessage::new(calls.into())
}

#[test]
fn tool_result_uses_the_id_of_the_script_and_not_of_the_session() {
    let model = model(json!({ "default": [
        { "tool_calls": [ { "id": "c", "name": "a" }, { "id": "d", "name": "a" } ] },
        { "text": "{{tool_result:c}} {{tool_result:d}}" },
    ] }));
    let mut scene = Scene::user("go");
    scene.step(&model, [json!("c, turn 1"), json!("d, turn 1")]);
    assert_eq!(scene.text(&model), "c, turn 1 d, turn 1");
    scene.push_user("again");
    scene.step(&model, [json!("c, turn 2"), json!("d, turn 2")]);
    assert_eq!(scene.text(&model), "c, turn 2 d, turn 2");
}

#[test]
fn tool_result_is_the_latest_in_the_turn() {
    let model = model(json!({ "default": [
        { "tool_calls": [ { "id": "c", "name": "a" }, { "id": "c", "name": "a" } ] },
        { "tool_calls": [ { "id": "other", "name": "a" } ], "text": "{{tool_result:c}}" },
        { "tool_calls": [ { "id": "c", "name": "a" } ], "text": "{{tool_result:c}}" },
        { "text": "{{tool_result:c}}" },
    ] }));
    let mut scene = Scene::user("go");
    scene.step(&model, [json!(1), json!(2)]);
    assert_eq!(scene.text(&model), "2");
    scene.step(&model, [json!("other")]);
    assert_eq!(scene.text(&model), "2");
    scene.step(&model, [json!(3)]);
    assert_eq!(scene.text(&model), "3");
}

#[test]
fn a_renamed_call_is_not_confused_with_a_call_of_that_id() {
    // In the session the calls are named c, c_2, c_2_2 and c_3.
    let model = model(json!({ "default": [
        { "tool_calls": [ { "id": "c", "name": "a" }, { "id": "c", "name": "a" } ] },
        { "tool_calls": [ { "id": "c_2", "name": "a" } ] },
        { "tool_calls": [ { "id": "c_3", "name": "a" } ] },
        { "text": "{{tool_result:c}} {{tool_result:c_2}} {{tool_result:c_3}} {{tool_result:c_2_2}}" },
    ] }));
    let mut scene = Scene::user("go");
    scene.step(&model, [json!("c first"), json!("c second")]);
    scene.step(&model, [json!("c_2")]);
    scene.step(&model, [json!("c_3")]);
    // No call of the script has the id c_2_2, so the session's own id is used.
    assert_eq!(scene.text(&model), "c second c_2 c_3 c_2");
}

#[test]
fn calls_of_another_model_are_found_by_their_session_ids() {
    let mut scene = Scene::user("go");
    let ids = ["c", "c_2", "c_x", "c2", "c_", "c_2x"].map(|id| (id, "t"));
    let results = ids.map(|(id, tool)| result(id, tool, json!(format!("<{id}>"))));
    scene.other_model(calls(ids), results.into());
    assert_eq!(filled(&scene, "{{tool_result:c}}"), "<c_2>");
    assert_eq!(filled(&scene, "{{tool_result:c_x}}"), "<c_x>");
    assert_eq!(filled(&scene, "{{tool_result:c2}}"), "<c2>");
    assert_eq!(filled(&scene, "{{tool_result:nobody}}"), "");
}

#[test]
fn a_call_of_another_tool_does_not_match_the_script() {
    let model = model(json!({ "default": [
        { "tool_calls": [ { "id": "scripted", "name": "a" } ] },
        { "text": "<{{tool_result:scripted}}> <{{tool_result:c}}>" },
    ] }));
    let mut scene = Scene::user("go");
    scene.other_model(
        calls([("c_2", "b")]),
        vec![result("c_2", "b", json!("b's"))],
    );
    assert_eq!(scene.text(&model), "<> <b's>");
}

#[test]
fn placeholders_are_filled_in_every_text_and_in_arguments() {
    let step = json!({
        "thinking": "t {{last_user}}",
        "text": "x {{last_user}} {{last_user}}",
        "tool_calls": [ { "id": "c", "name": "t", "arguments": {
            "whole": "{{last_user}}", "in": [ { "part": "<{{last_user}}>" } ], "{{last_user}}": 1,
        } } ],
        "finish": { "said": "{{last_user}}" },
    });
    let user = "a \"b\"\n\\ ü";
    let reply = Scene::user(user).reply(&one_step(step));
    let thinking: Vec<_> = reply
        .message
        .thinking()
        .map(|block| block.text.clone())
        .collect();
    assert_eq!(thinking, [format!("t {user}")]);
    assert_eq!(reply.message.content(), Some(format!("x {user} {user}")));
    let arguments: Vec<Value> = reply
        .message
        .tool_calls()
        .map(|c| c.arguments.clone().into_value())
        .collect();
    let first = json!({
        "whole": user, "in": [ { "part": format!("<{user}>") } ], "{{last_user}}": 1,
    });
    assert_eq!(arguments, [first, json!({ "said": user })]);
}

#[test]
fn a_value_that_is_not_a_string_becomes_text_inside_arguments() {
    let step = json!({ "finish": { "n": "{{state:/n}}", "o": "{{state:/o}}" } });
    let scene = Scene::user("go").state(json!({ "n": 7, "o": { "k": "v" } }));
    let calls = scene.calls(&one_step(step));
    let arguments = json!({ "n": "7", "o": r#"{"k":"v"}"# });
    assert_eq!(calls, [call("call-1", "__finish__", arguments)]);
}

#[test]
fn braces_that_are_not_a_placeholder_stay_in_the_text() {
    let scene = Scene::user("U");
    for (text, expected) in [
        ("{{{last_user}}}", "{U}"),
        ("{{ {{last_user}}", "{{ U"),
        ("{{last_user}} }} {{", "U }} {{"),
        (r#"{{"a":1}}"#, r#"{{"a":1}}"#),
        ("{{}} {x} }}{{", "{{}} {x} }}{{"),
        ("fn() {{ 1 + 1 }}", "fn() {{ 1 + 1 }}"),
    ] {
        assert_eq!(filled(&scene, text), expected);
    }
}

#[test]
fn placeholders_in_a_filled_in_value_are_not_expanded() {
    let scene = Scene::user("{{state:/secret}}").state(json!({ "secret": "s" }));
    assert_eq!(filled(&scene, "{{last_user}}"), "{{state:/secret}}");
}
