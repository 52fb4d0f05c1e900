use std::fmt::Write as _;

use helix_agents_core::context::StandIn;
use helix_agents_core::json::Json;
use helix_agents_core::message::{AssistantMessage, AssistantPart, Message, ToolCall, UserMessage};
use helix_agents_core::model::{MessageFormat, ModelError};
use helix_agents_core::transcript::PairedStep;
use helix_agents_core::{CallId, Transcript};
use proptest::prelude::*;
use serde_json::json;

use crate::make::{calling, result};

/// A line for each message.
#[derive(Debug, Clone, PartialEq)]
struct Lines;

impl MessageFormat for Lines {
    fn render(
        &self,
        message: &Message,
        _: Option<&Message>,
        out: &mut Vec<u8>,
    ) -> Result<(), ModelError> {
        out.extend(line(message).as_bytes());
        Ok(())
    }
}

fn line(message: &Message) -> String {
    let mut line = String::new();
    let _ = match message {
        Message::User(user) => writeln!(line, "user {}", user.content),
        Message::Assistant(reply) => {
            let calls: Vec<_> = reply.tool_calls().map(|call| call.id.as_str()).collect();
            writeln!(line, "reply {}", calls.join(" "))
        }
        Message::Tool(result) => writeln!(line, "result {}", result.tool_call_id),
        _ => Ok(()),
    };
    line
}

fn rendered(transcript: &Transcript) -> String {
    let mut body = Vec::new();
    transcript.render_into(&Lines, &mut body).unwrap();
    String::from_utf8(body).unwrap()
}

fn lines(transcript: &Transcript) -> String {
    transcript.iter().map(line).collect()
}

/// A message that stands for those before a position.
fn stand_in(from: usize) -> UserMessage {
    UserMessage::hidden(format!("before {from}"))
        .with_metadata("helixContext", json!({ "from": from, "summary": false }))
}

fn step(id: &str) -> PairedStep {
    PairedStep::new(calling(&[id]), [result(id)]).unwrap()
}

/// Turns of a message, a step and a reply each.
fn turns(count: usize) -> Transcript {
    let mut history = Transcript::new();
    for turn in 0..count {
        history.push_user(UserMessage::new(format!("turn {turn}")));
        history.push_step(step(&format!("c{turn}"))).unwrap();
        let reply = PairedStep::new(AssistantMessage::text("done"), []).unwrap();
        history.push_step(reply).unwrap();
    }
    history
}

#[test]
fn a_message_stands_for_those_before_it() {
    let mut history = turns(2);
    assert_eq!(lines(history.for_model()), lines(&history));
    history.push_user(stand_in(4));
    history.push_step(step("d")).unwrap();
    let shown = "user before 4\nuser turn 1\nreply c1\nresult c1\nreply \nreply d\nresult d\n";
    assert_eq!(lines(history.for_model()), shown);
    assert_eq!(rendered(history.for_model()), shown);
    assert_eq!(history.len(), 11, "the history is whole");
    assert_eq!(history.for_model().visible_user_messages(), 2);
    assert_eq!(history.for_model().assistant_messages_since_user(), 3);

    // A later one takes the place of the first.
    history.push_user(UserMessage::new("turn 2"));
    history.push_user(stand_in(11));
    assert_eq!(lines(history.for_model()), "user before 11\nuser turn 2\n");
    assert_eq!(history.for_model().visible_user_messages(), 3);
}

#[test]
fn a_cut_takes_it_back() {
    let mut history = turns(2);
    history.push_user(stand_in(4));
    history.push_user(UserMessage::new("turn 2"));
    history.push_user(stand_in(9));
    let mut cut = history.clone();
    cut.truncate(10);
    let shown = "user before 4\nuser turn 1\nreply c1\nresult c1\nreply \nuser turn 2\n";
    assert_eq!(lines(cut.for_model()), shown);
    cut.truncate(8);
    assert_eq!(lines(cut.for_model()), lines(&turns(2)));
    assert_eq!(lines(history.for_model()), "user before 9\nuser turn 2\n");
}

#[test]
fn nothing_stands_for_messages_that_are_not_there() {
    for from in [9, usize::MAX] {
        let mut history = turns(1);
        history.push_user(stand_in(from));
        assert_eq!(lines(history.for_model()), lines(&history));
    }
    // No result is parted from its call.
    let mut history = turns(1);
    history.push_user(stand_in(2));
    let shown = "user before 2\nreply c0\nresult c0\nreply \n";
    assert_eq!(lines(history.for_model()), shown);
}

#[test]
fn only_a_hidden_message_stands_for_others() {
    let visible = Message::User(
        UserMessage::new("hi").with_metadata("helixContext", json!({ "from": 1, "summary": true })),
    );
    assert_eq!(StandIn::of(&visible), None);
    let broken = UserMessage::hidden("hi").with_metadata("helixContext", json!("all"));
    assert_eq!(StandIn::of(&Message::User(broken)), None);
}

/// Whether the text of a call's arguments was written already makes no difference.
#[test]
fn equal_conversations_are_equal_however_their_size_was_estimated() {
    let history = |is_written: bool| {
        let arguments = Json::from(json!({ "order": 123_456_789 }));
        if is_written {
            assert_eq!(arguments.text(), r#"{"order":123456789}"#);
        }
        let call = ToolCall::new(CallId::new("c").unwrap(), "find", arguments);
        let reply = AssistantMessage::new(vec![AssistantPart::ToolCall(call)]);
        let mut history = Transcript::new();
        let step = PairedStep::new(reply, [result("c")]).unwrap();
        history.push_step(step).unwrap();
        history
    };
    assert_eq!(history(true), history(false));
}

proptest! {
    /// However a conversation grows, is reduced, read again and cut, the model reads the same; and between two
    /// reductions each prompt begins with the one before it.
    #[test]
    fn a_reduced_conversation_is_the_same_when_it_is_read_again(
        acts in prop::collection::vec(0..6_usize, 1..30),
        keep in 0..40_usize,
    ) {
        let mut history = Transcript::new();
        let mut before = String::new();
        for (n, act) in acts.iter().enumerate() {
            let mut is_reduced = false;
            match act {
                0 | 1 => history.push_user(UserMessage::new(format!("turn {n}"))),
                2 | 3 => history.push_step(step(&format!("c{n}"))).unwrap(),
                4 => history.push_user(UserMessage::hidden("a notice")),
                _ => {
                    history.push_user(stand_in(history.len() * 2 / 3));
                    is_reduced = true;
                }
            }
            let now = rendered(history.for_model());
            prop_assert_eq!(&now, &lines(history.for_model()));
            prop_assert!(is_reduced || now.starts_with(&before), "{now} after {before}");
            before = now;
        }
        let again = |history: &Transcript| Transcript::load(history.iter().cloned()).0;
        prop_assert_eq!(rendered(again(&history).for_model()), before);
        history.truncate(keep);
        prop_assert_eq!(lines(again(&history).for_model()), lines(history.for_model()));
    }
}
