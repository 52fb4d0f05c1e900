//! From stored messages to UI messages.

use std::sync::Arc;

use helix_agents_core::MessageId;
use helix_agents_core::message::{
    AssistantMessage, AssistantPart, FilePart, Message, ResultStatus, Thinking, ToolCall,
    UserMessage,
};
use helix_agents_core::session::{ChildStatus, SubSessionRef};
use helix_agents_core::step::{ToolResultInput, create_tool_result_message};
use helix_agents_core::time::Timestamp;
use helix_agents_wire::{
    ConvertOptions, ToolKind, ToolKinds, UiMessage, convert_messages, replay_message,
};
use serde_json::{Value, json};

use crate::kit::{call, check, session};

fn options() -> ConvertOptions {
    ConvertOptions::new("agent").tools(ToolKinds::new(|_, tool| match tool {
        "pick" => ToolKind::Client,
        _ => ToolKind::Server,
    }))
}

fn user(text: &str) -> Message {
    Message::User(UserMessage::new(text))
}

fn reply(parts: Vec<AssistantPart>) -> Message {
    Message::Assistant(AssistantMessage::new(parts))
}

fn calls(id: &str, tool: &str, arguments: Value) -> AssistantPart {
    AssistantPart::ToolCall(ToolCall::new(call(id), tool, arguments))
}

fn result(id: &str, tool: &str, value: Value) -> Message {
    Message::Tool(create_tool_result_message(ToolResultInput {
        tool_call_id: call(id),
        tool_name: tool.into(),
        result: Ok(value),
    }))
}

fn failure(id: &str, tool: &str, text: &str, status: ResultStatus) -> Message {
    let Message::Tool(mut failed) = result(id, tool, json!({ "error": text })) else {
        panic!("a result is a tool's message");
    };
    failed.status = status;
    Message::Tool(failed)
}

fn json_of(messages: &[UiMessage]) -> Value {
    serde_json::to_value(messages).unwrap()
}

/// A turn is one bubble: its steps, with the results in the parts of their calls. Its id is its place.
///
/// proves: TRN-02, TRN-04
#[test]
fn a_turn_becomes_one_bubble() {
    let messages = vec![
        user("Hi"),
        reply(vec![
            AssistantPart::Thinking(Thinking::new("Hm.")),
            AssistantPart::text("Looking. "),
            calls("c1", "look", json!({ "n": 1 })),
            calls("c2", "pick", json!({})),
            calls("c3", "pay", json!({})),
        ]),
        result("c1", "look", json!({ "ok": true })),
        failure("c2", "pick", "closed", ResultStatus::TimedOut),
        failure(
            "c3",
            "pay",
            "The call of pay was not approved. Reason: no",
            ResultStatus::Denied,
        ),
        reply(vec![AssistantPart::text("Done.")]),
        user("Next"),
        reply(vec![AssistantPart::text("Yes.")]),
    ];
    let all = convert_messages(messages, &options());
    assert_eq!(
        json_of(&all),
        json!([
            { "id": "msg-0", "role": "user", "parts": [{ "type": "text", "text": "Hi" }] },
            { "id": "msg-1", "role": "assistant", "parts": [
                { "type": "step-start" },
                { "type": "reasoning", "text": "Hm.", "state": "done" },
                { "type": "text", "text": "Looking. ", "state": "done" },
                { "type": "dynamic-tool", "toolName": "look", "toolCallId": "c1", "state": "output-available",
                  "input": { "n": 1 }, "output": { "ok": true }, "providerExecuted": true },
                { "type": "dynamic-tool", "toolName": "pick", "toolCallId": "c2", "state": "output-error",
                  "input": {}, "errorText": "closed" },
                { "type": "dynamic-tool", "toolName": "pay", "toolCallId": "c3", "state": "output-denied",
                  "input": {}, "providerExecuted": true, "approval": { "id": "c3", "approved": false,
                  "reason": "The call of pay was not approved. Reason: no" } },
                { "type": "step-start" },
                { "type": "text", "text": "Done.", "state": "done" },
            ] },
            { "id": "msg-6", "role": "user", "parts": [{ "type": "text", "text": "Next" }] },
            { "id": "msg-7", "role": "assistant", "parts": [
                { "type": "step-start" },
                { "type": "text", "text": "Yes.", "state": "done" },
            ] },
        ])
    );
    // A finished bubble can be streamed once more.
    check(&replay_message(&all[1]));
}

/// User messages keep their ids, their files and what apps noted; hidden ones are left out unless they are wanted.
/// Those of the framework do not divide a bubble, those of users begin one.
///
/// proves: TRN-02, CHT-08
#[test]
fn user_messages_keep_what_they_came_with() {
    let photo = FilePart::new("data:image/png;base64,aGk=", "image/png").named("a.png");
    let seen = UserMessage::new("Look")
        .with_id(MessageId::new("u-1").unwrap())
        .with_file(photo)
        .with_metadata("channel", "web");
    let draft = UserMessage::hidden("<draft>").with_id(MessageId::new("d-1").unwrap());
    let messages = vec![
        Message::User(draft.clone()),
        Message::User(seen),
        reply(vec![AssistantPart::text("One.")]),
        Message::User(UserMessage::hidden("Correct that.")),
        reply(vec![AssistantPart::text("Two.")]),
        Message::User(draft),
        reply(vec![AssistantPart::text("Three.")]),
    ];
    let all = json_of(&convert_messages(messages.clone(), &options()));
    assert_eq!(
        all[0],
        json!({ "id": "u-1", "role": "user", "metadata": { "channel": "web" }, "parts": [
            { "type": "text", "text": "Look" },
            { "type": "file", "mediaType": "image/png", "url": "data:image/png;base64,aGk=", "filename": "a.png" },
        ] })
    );
    let ids = |all: &Value| -> Vec<String> {
        let all = all.as_array().unwrap().iter();
        all.map(|one| one["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids(&all), ["u-1", "msg-2", "msg-6"]);
    let everything = convert_messages(messages, &options().filter_hidden(false));
    assert_eq!(json_of(&everything).as_array().unwrap().len(), 7);
}

/// The call that carries a structured output is that output; one that was refused is not shown.
///
/// proves: TRN-02
#[test]
fn the_call_that_finishes_is_the_output() {
    let messages = vec![
        user("Go"),
        reply(vec![calls("f1", "__finish__", json!({ "wrong": 1 }))]),
        failure("f1", "__finish__", "answer is missing", ResultStatus::Error),
        reply(vec![calls("f2", "__finish__", json!({ "answer": 42 }))]),
        result("f2", "__finish__", json!({ "acknowledged": true })),
    ];
    let all = json_of(&convert_messages(messages, &options()));
    assert_eq!(
        all[1]["parts"],
        json!([
            { "type": "data-output", "id": "output", "data": { "answer": 42 } },
        ])
    );
}

/// The options of the converter.
///
/// proves: TRN-02
#[test]
fn the_conversion_has_options() {
    let messages = || {
        vec![
            user("Go"),
            reply(vec![
                AssistantPart::Thinking(Thinking::new("Hm.")),
                calls("c1", "look", json!({})),
            ]),
            result("c1", "look", json!(1)),
        ]
    };
    let kinds = |options: &ConvertOptions| -> Vec<(String, Option<String>)> {
        let all = json_of(&convert_messages(messages(), options));
        let parts = all[1]["parts"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        parts
            .map(|part| (text(&part["type"]).unwrap(), text(&part["state"])))
            .collect()
    };
    let tool = |state: &str| ("dynamic-tool".to_owned(), Some(state.to_owned()));
    let step = ("step-start".to_owned(), None);
    let plain = kinds(&options().include_reasoning(false));
    assert_eq!(plain, [step.clone(), tool("output-available")]);
    let apart = kinds(&options().include_reasoning(false).merge_tool_results(false));
    assert_eq!(apart, [step, tool("input-available")]);
    let named = options().generate_id(|index, message| match message {
        Message::User(_) => format!("user-{index}"),
        _ => format!("bubble-{index}"),
    });
    let all = convert_messages(messages(), &named);
    assert_eq!(
        (all[0].id.as_str(), all[1].id.as_str()),
        ("user-0", "bubble-1")
    );
    let later = convert_messages(messages(), &options().first(10));
    assert_eq!(
        (later[0].id.as_str(), later[1].id.as_str()),
        ("msg-10", "msg-11")
    );
}

/// A reply that was stopped says so, and nothing else that the framework notes is shown.
#[test]
fn a_stopped_reply_says_so() {
    let mut message = AssistantMessage::text("Half a");
    message
        .metadata
        .insert("helixInterrupted".into(), json!({ "stop": "interrupt" }));
    message
        .metadata
        .insert("helixContextTokens".into(), json!(12));
    message.parts = Arc::clone(&message.parts);
    let all = convert_messages([user("Go"), Message::Assistant(message)], &options());
    let metadata = all[1].metadata.clone();
    assert_eq!(
        metadata,
        Some(json!({ "helixInterrupted": { "stop": "interrupt" } }))
    );
}

/// A sub-agent can be opened from the call for which it worked, also when its chunks are no longer at hand.
///
/// proves in part: TRN-02
#[test]
fn sub_agents_are_shown_at_their_calls() {
    let mut link = SubSessionRef::new(
        session("child"),
        "helper".to_owned(),
        call("c1"),
        Timestamp::from_millis(1),
    );
    link.status = ChildStatus::Completed;
    let messages = vec![
        user("Go"),
        reply(vec![calls("c1", "subagent__helper", json!({}))]),
        result("c1", "subagent__helper", json!("done")),
    ];
    let all = json_of(&convert_messages(messages, &options().sub_agents([&link])));
    let parts = all[1]["parts"].as_array().unwrap();
    assert_eq!(parts[1]["state"], "output-available");
    assert_eq!(
        parts[2],
        json!({ "type": "data-subagent", "id": "subagent-child", "data": {
            "sessionId": "child", "agentType": "helper", "toolCallId": "c1", "status": "completed",
            "text": "", "tools": [] } })
    );
}
