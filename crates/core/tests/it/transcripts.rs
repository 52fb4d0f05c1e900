use std::collections::HashSet;

use helix_agents_core::Transcript;
use helix_agents_core::message::{AssistantMessage, Message, ResultStatus, UserMessage};
use helix_agents_core::step::{FINISH_TOOL, synthesize_finish_result, synthesize_unknown_result};
use helix_agents_core::transcript::{Healed, PairedStep, PairingError};
use helix_agents_testkit::SequentialIds;
use proptest::prelude::*;
use serde_json::json;

use crate::make::{call, call_id, calling, result, user};

fn step(ids: &[&str]) -> PairedStep {
    PairedStep::new(calling(ids), ids.iter().map(|id| result(id))).unwrap()
}

/// Checks what providers require.
fn assert_valid(transcript: &Transcript) {
    let messages: Vec<_> = transcript.iter().collect();
    let mut used = HashSet::new();
    let mut at = 0;
    while at < messages.len() {
        match messages[at] {
            Message::Assistant(assistant) => {
                for call in assistant.tool_calls() {
                    assert!(used.insert(call.id.clone()), "{} is used twice", call.id);
                    at += 1;
                    let Some(Message::Tool(result)) = messages.get(at) else {
                        panic!("call {} is not followed by its result", call.id);
                    };
                    assert_eq!(result.tool_call_id, call.id, "results are in another order");
                }
            }
            Message::Tool(result) => panic!("result {} has no call", result.tool_call_id),
            _ => {}
        }
        at += 1;
    }
}

/// proves: STP-04
#[test]
fn a_step_needs_exactly_one_result_for_each_call() {
    let missing = PairedStep::new(calling(&["a", "b"]), [result("a")]);
    assert_eq!(
        missing.unwrap_err(),
        PairingError::MissingResult { call: call_id("b") }
    );
    let unknown = PairedStep::new(calling(&["a"]), [result("a"), result("x")]);
    assert_eq!(
        unknown.unwrap_err(),
        PairingError::UnknownCall { call: call_id("x") }
    );
    let twice = PairedStep::new(calling(&["a"]), [result("a"), result("a")]);
    assert_eq!(
        twice.unwrap_err(),
        PairingError::TwoResults { call: call_id("a") }
    );
    let repeated = PairedStep::new(calling(&["a", "a"]), [result("a")]);
    assert_eq!(
        repeated.unwrap_err(),
        PairingError::RepeatedCall { call: call_id("a") }
    );
}

/// Results enter in the model's order, whatever order they arrived in.
#[test]
fn results_are_put_in_the_order_of_the_calls() {
    let results = ["c", "a", "b"].map(result);
    let step = PairedStep::new(calling(&["a", "b", "c"]), results).unwrap();
    let order: Vec<_> = step
        .results()
        .iter()
        .map(|r| r.tool_call_id.as_str())
        .collect();
    assert_eq!(order, ["a", "b", "c"]);
    assert_eq!(step.message_count(), 4);
}

#[test]
fn counters_match_the_messages() {
    let mut transcript = Transcript::new();
    assert_eq!(transcript.last_visible_user(), None);
    transcript.push_user(UserMessage::new("one"));
    transcript.push_step(step(&["a", "b"])).unwrap();
    transcript.push_user(UserMessage::hidden("a notice"));
    transcript.push_step(step(&["c"])).unwrap();
    assert_eq!(transcript.len(), 7);
    assert_eq!(transcript.visible_user_messages(), 1);
    assert_eq!(transcript.assistant_messages_since_user(), 2);
    assert_eq!(transcript.last_visible_user().unwrap().0, 0);

    transcript.push_user(UserMessage::new("two"));
    assert_eq!(transcript.visible_user_messages(), 2);
    assert_eq!(transcript.assistant_messages_since_user(), 0);
    let (at, message) = transcript.last_visible_user().unwrap();
    assert_eq!((at, message.content.as_str()), (7, "two"));
}

#[test]
fn a_call_id_is_never_used_twice_even_after_a_rewind() {
    let mut transcript = Transcript::new();
    transcript.push_user(UserMessage::new("hi"));
    transcript.push_step(step(&["a"])).unwrap();
    let error = transcript.push_step(step(&["b", "a"])).unwrap_err();
    assert_eq!(error.call, call_id("a"));
    assert_eq!(transcript.len(), 3, "nothing of a refused step is kept");

    transcript.truncate(1);
    assert!(transcript.push_step(step(&["a"])).is_err());
    transcript.retire_call_ids([call_id("z")]);
    assert!(transcript.is_call_id_used(&call_id("z")));
}

#[test]
fn repeated_ids_get_the_smallest_free_suffix() {
    let ids = SequentialIds::new();
    let mut transcript = Transcript::new();
    transcript.push_step(step(&["call_0", "call_0_3"])).unwrap();
    let assign = |wanted: &[Option<&str>]| -> Vec<String> {
        let mut unique = transcript.call_ids();
        wanted
            .iter()
            .map(|id| unique.assign(id.map(call_id).as_ref(), &ids).unwrap())
            .map(|id| id.to_string())
            .collect()
    };
    let repeated = [
        Some("call_0"),
        Some("call_0"),
        Some("new"),
        Some("new"),
        None,
    ];
    let expected = ["call_0_2", "call_0_4", "new", "new_2", "call-1"];
    assert_eq!(assign(&repeated), expected);
    // A discarded reply uses no ids.
    assert_eq!(assign(&[Some("call_0")]), ["call_0_2"]);
}

#[test]
fn an_id_of_full_length_can_be_repeated() {
    let longest = "x".repeat(256);
    let mut transcript = Transcript::new();
    transcript.push_step(step(&[&longest])).unwrap();
    let unique = transcript
        .call_ids()
        .assign(Some(&call_id(&longest)), &SequentialIds::new())
        .unwrap();
    assert_eq!(unique.as_str(), format!("{}_2", "x".repeat(254)));
}

#[test]
fn a_provider_that_always_repeats_one_id_gets_new_ones() {
    let ids = SequentialIds::new();
    let mut transcript = Transcript::new();
    for n in 1..200 {
        let id = transcript
            .call_ids()
            .assign(Some(&call_id("call_0")), &ids)
            .unwrap();
        let expected = if n == 1 {
            "call_0".to_owned()
        } else {
            format!("call_0_{n}")
        };
        assert_eq!(id.as_str(), expected);
        transcript.push_step(step(&[id.as_str()])).unwrap();
    }
}

#[test]
fn truncation_rounds_down_to_whole_steps() {
    let mut transcript = Transcript::new();
    transcript.push_user(UserMessage::new("one"));
    transcript.push_step(step(&["a", "b"])).unwrap();
    transcript.push_user(UserMessage::new("two"));
    for (count, kept) in [(0, 0), (1, 1), (2, 1), (3, 1), (4, 4), (5, 5), (9, 5)] {
        let mut cut = transcript.clone();
        cut.truncate(count);
        assert_eq!(cut.len(), kept, "truncate({count})");
        assert_valid(&cut);
        assert_eq!(
            cut.visible_user_messages(),
            usize::from(kept > 0) + usize::from(kept > 4)
        );
    }
    assert_eq!(transcript.len(), 5, "a clone is not cut with it");
}

#[test]
fn clones_that_append_differently_do_not_affect_each_other() {
    let mut trunk = Transcript::new();
    for n in 0..100 {
        trunk.push_user(UserMessage::new(format!("m{n}")));
    }
    let mut left = trunk.clone();
    let mut right = trunk.clone();
    left.push_step(step(&["l"])).unwrap();
    right.push_step(step(&["r"])).unwrap();
    right.push_user(UserMessage::new("more"));
    assert_eq!((trunk.len(), left.len(), right.len()), (100, 102, 103));
    assert!(left.iter().take(100).eq(trunk.iter()));
    assert!(right.iter().take(100).eq(trunk.iter()));
    assert_eq!(left.get(101), Some(&Message::Tool(result("l"))));
    assert_eq!(right.get(101), Some(&Message::Tool(result("r"))));
    assert_eq!(right.iter_from(102).len(), 1);
    assert_eq!(right.last(), Some(&user("more")));
    assert!(
        right
            .iter()
            .rev()
            .eq(right.iter().collect::<Vec<_>>().into_iter().rev())
    );
}

/// A dropped clone, like that of a failed commit, leaves no trace in its original.
#[test]
fn a_dropped_clone_uses_no_ids() {
    let ids = SequentialIds::new();
    let mut transcript = Transcript::new();
    transcript.push_step(step(&["a"])).unwrap();
    let mut lost = transcript.clone();
    lost.push_step(step(&["c1", "a_2"])).unwrap();
    drop(lost);
    let assign = |transcript: &Transcript, wanted: &str| {
        let id = transcript.call_ids().assign(Some(&call_id(wanted)), &ids);
        id.unwrap().to_string()
    };
    assert_eq!(assign(&transcript, "c1"), "c1");
    assert_eq!(assign(&transcript, "a"), "a_2");
    transcript.push_step(step(&["c1"])).unwrap();
    let (loaded, _) = Transcript::load(transcript.iter().cloned());
    assert_eq!(loaded, transcript);
    assert_eq!(assign(&transcript, "c1"), assign(&loaded, "c1"));
}

/// An id that is taken in a longer clone may be free in a shorter one.
#[test]
fn a_longer_clone_does_not_hide_free_ids_of_a_shorter_one() {
    let ids = SequentialIds::new();
    let mut short = Transcript::new();
    short.push_step(step(&["a"])).unwrap();
    let mut long = short.clone();
    for n in 2..10 {
        long.push_step(step(&[&format!("a_{n}")])).unwrap();
    }
    let assign = |transcript: &Transcript| {
        let id = transcript.call_ids().assign(Some(&call_id("a")), &ids);
        id.unwrap().to_string()
    };
    assert_eq!(assign(&long), "a_10");
    assert_eq!(assign(&short), "a_2");
    assert_eq!(assign(&long), "a_10");
}

#[test]
fn many_threads_share_one_history() {
    let mut transcript = Transcript::new();
    for n in 0..500 {
        transcript.push_user(UserMessage::new(n.to_string()));
    }
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let mut own = transcript.clone();
            scope.spawn(move || {
                for n in 0..200 {
                    own.push_user(UserMessage::new(format!("{thread}-{n}")));
                }
                assert_eq!(own.len(), 700);
                let tail: Vec<_> = own.iter_from(500).cloned().collect();
                let expected: Vec<_> = (0..200).map(|n| user(&format!("{thread}-{n}"))).collect();
                assert_eq!(tail, expected);
            });
        }
    });
    assert_eq!(transcript.len(), 500);
}

/// proves: STP-05
#[test]
fn an_unpaired_finish_is_acknowledged_on_load() {
    let finish = AssistantMessage::new(vec![helix_agents_core::message::AssistantPart::ToolCall(
        call("f", FINISH_TOOL, json!({"result": "done"})),
    )]);
    let (transcript, healed) =
        Transcript::load([user("go"), Message::Assistant(finish.clone()), user("more")]);
    let expected = [
        user("go"),
        Message::Assistant(finish),
        Message::Tool(synthesize_finish_result(&call_id("f"))),
        user("more"),
    ];
    assert!(transcript.iter().eq(&expected));
    let Some(Message::Tool(result)) = transcript.get(2) else {
        panic!("no result");
    };
    assert_eq!(result.content, r#"{"acknowledged":true}"#);
    let missing = Healed::MissingResult {
        call: call_id("f"),
        tool: FINISH_TOOL.to_owned(),
    };
    assert_eq!(healed, [missing]);
}

#[test]
fn missing_and_misplaced_results_are_healed_and_reported() {
    let assistant = |ids: &[&str]| Message::Assistant(calling(ids));
    let tool = |id| Message::Tool(result(id));
    let (transcript, healed) = Transcript::load([
        tool("orphan"),
        assistant(&["a", "b"]),
        user("in between"),
        tool("b"),
        assistant(&["a"]),
        tool("a"),
        tool("a"),
    ]);
    let unknown = Message::Tool(synthesize_unknown_result(&call_id("a"), "t"));
    let mut renamed = result("a");
    renamed.tool_call_id = call_id("a_2");
    let expected = [
        assistant(&["a", "b"]),
        unknown,
        tool("b"),
        user("in between"),
        assistant(&["a_2"]),
        Message::Tool(renamed),
    ];
    assert!(transcript.iter().eq(&expected), "{transcript:#?}");
    let expected = [
        Healed::OrphanResult {
            call: call_id("orphan"),
        },
        Healed::MissingResult {
            call: call_id("a"),
            tool: "t".to_owned(),
        },
        Healed::MovedResult { call: call_id("b") },
        Healed::RenamedCall {
            from: call_id("a"),
            to: call_id("a_2"),
        },
        Healed::OrphanResult { call: call_id("a") },
    ];
    assert_eq!(healed, expected);
    let Some(Message::Tool(unknown)) = transcript.get(1) else {
        panic!("no result");
    };
    assert_eq!(unknown.status, ResultStatus::Unknown);
    assert_eq!(
        unknown.value(),
        json!({"error": "The outcome is unknown. The call may or may not have taken effect. Do not repeat it before checking."})
    );
}

#[test]
fn a_valid_history_is_loaded_as_it_is() {
    let mut transcript = Transcript::new();
    transcript.push_user(UserMessage::new("one"));
    transcript.push_step(step(&["a", "b"])).unwrap();
    transcript.push_step(step(&[])).unwrap();
    let (loaded, healed) = Transcript::load(transcript.iter().cloned());
    assert_eq!(loaded, transcript);
    assert_eq!(healed, []);
}

fn any_history() -> impl Strategy<Value = Vec<Message>> {
    let id = prop_oneof![Just("a"), Just("b"), Just("c"), Just("a_2"), Just("d")];
    let ids = proptest::collection::vec(id.clone(), 0..4);
    let message = prop_oneof![
        2 => "[a-z]{0,6}".prop_map(|text| user(&text)),
        1 => Just(Message::User(UserMessage::hidden("h"))),
        4 => ids.prop_map(|ids| Message::Assistant(calling(&ids))),
        5 => id.prop_map(|id| Message::Tool(result(id))),
    ];
    proptest::collection::vec(message, 0..24)
}

proptest! {
    /// A random invalid history loads as a valid transcript, and no message is lost.
    ///
    /// proves: STP-04
    #[test]
    fn any_history_loads_as_a_valid_transcript(history in any_history()) {
        let (transcript, healed) = Transcript::load(history.clone());
        assert_valid(&transcript);
        let said = |message: &&Message| !matches!(message, Message::Tool(_));
        let shape = |message: &Message| match message {
            Message::Assistant(assistant) => Err(assistant.parts.len()),
            other => Ok(other.clone()),
        };
        let before: Vec<_> = history.iter().filter(said).map(shape).collect();
        let after: Vec<_> = transcript.iter().filter(said).map(shape).collect();
        prop_assert_eq!(before, after);
        let (again, nothing) = Transcript::load(transcript.iter().cloned());
        prop_assert_eq!(&again, &transcript);
        prop_assert_eq!(nothing, vec![]);
        if transcript.iter().eq(&history) {
            prop_assert_eq!(healed, vec![]);
        }
    }
}
