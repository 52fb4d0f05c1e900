//! Tests of the choice of rule and step.

use helix_agents_core::message::AssistantMessage;
use serde_json::json;

use crate::scene::{Scene, model};

#[test]
fn the_first_matching_rule_is_used() {
    let model = model(json!({
        "rules": [
            { "match": "refund", "steps": [ { "text": "first" } ] },
            { "match": "refund please", "steps": [ { "text": "second" } ] },
            { "match": "Refund", "steps": [ { "text": "third" } ] },
        ],
        "default": [ { "text": "default" } ],
    }));
    let text = |user: &str| Scene::user(user).text(&model);
    assert_eq!(text("a refund please"), "first");
    assert_eq!(text("Refund please"), "third");
    assert_eq!(text("re fund"), "default");
    assert_eq!(text(""), "default");
}

#[test]
fn an_empty_match_matches_every_message() {
    let model = model(json!({
        "rules": [ { "match": "", "steps": [ { "text": "always" } ] } ],
        "default": [ { "text": "never" } ],
    }));
    assert_eq!(Scene::user("anything").text(&model), "always");
}

#[test]
fn a_match_is_literal_text_and_not_a_template() {
    let model = model(json!({
        "rules": [ { "match": "{{name}}", "steps": [ { "text": "braces" } ] } ],
        "default": [ { "text": "default" } ],
    }));
    assert_eq!(Scene::user("what is {{name}}?").text(&model), "braces");
    assert_eq!(Scene::user("name").text(&model), "default");
}

#[test]
fn only_the_latest_visible_user_message_counts() {
    let model = model(json!({
        "rules": [
            { "match": "alpha", "steps": [ { "text": "A" } ] },
            { "match": "beta", "steps": [ { "text": "B1" }, { "text": "B2" } ] },
        ],
    }));
    let mut scene = Scene::user("alpha");
    assert_eq!(scene.text(&model), "A");
    scene.step(&model, []);
    scene.push_user("beta");
    assert_eq!(scene.text(&model), "B1");
    scene.step(&model, []);
    scene.push_hidden_user("alpha: correct your answer");
    assert_eq!(scene.text(&model), "B2", "a hidden message begins no turn");
}

#[test]
fn the_step_is_the_number_of_assistant_messages_in_the_turn() {
    let model = model(json!({ "default": [
        { "tool_calls": [ { "name": "a" }, { "name": "b" } ] },
        { "text": "two" },
        { "text": "three" },
    ] }));
    let mut scene = Scene::user("go");
    scene.step(&model, [json!(1), json!(2)]);
    assert_eq!(
        scene.text(&model),
        "two",
        "results are not assistant messages"
    );
    scene.other_model(AssistantMessage::text("from elsewhere"), vec![]);
    assert_eq!(scene.text(&model), "three", "of any model");
    scene.push_user("again");
    assert_eq!(
        scene.calls(&model).len(),
        2,
        "a new turn begins at the first step"
    );
}

#[test]
fn after_the_last_step_the_reply_is_script_ended() {
    let model = model(json!({
        "rules": [
            { "match": "short", "steps": [ { "text": "only" } ] },
            { "match": "nothing", "steps": [] },
        ],
    }));
    let mut scene = Scene::user("short");
    for expected in ["only", "script ended", "script ended"] {
        assert_eq!(scene.text(&model), expected);
        scene.step(&model, []);
    }
    assert_eq!(Scene::user("nothing").text(&model), "script ended");
    assert_eq!(Scene::user("no rule matches").text(&model), "script ended");
}

#[test]
fn an_empty_default_replies_script_ended() {
    let model = model(json!({ "default": [] }));
    assert_eq!(Scene::user("hello").text(&model), "script ended");
}

#[test]
fn two_instances_give_the_same_replies() {
    let script = json!({ "default": [
        { "thinking": "{{turn}}", "tool_calls": [ { "id": "c", "name": "t" }, { "name": "u" } ] },
        { "text": "{{last_tool_result}} {{state:/n}}" },
    ] });
    let (one, two) = (model(script.clone()), model(script));
    let mut scene = Scene::user("go").state(json!({ "n": 7 }));
    assert_eq!(scene.events(&one), scene.events(&two));
    assert_eq!(
        scene.events(&one),
        scene.events(&one),
        "a request changes nothing"
    );
    scene.step(&one, [json!("x"), json!("y")]);
    assert_eq!(scene.events(&one), scene.events(&two));
    assert_eq!(scene.text(&two), "y 7");
}
